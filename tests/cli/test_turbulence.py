"""The turbulence model from the command line: what is planned and what is refused before anything runs."""

import re

import pytest

CASE = """\
[run]
model = "turbulence"
steps = 4

[grid]
shape = [24, 20, 16]

[model]
viscosity = 0.02
courant = 0.5

[[scalar]]
schmidt = 0.7

[output]
every = 2
variables = ["velocity_x", "pressure", "scalar_0"]
series_every = 1
spectra_every = 2
"""


@pytest.fixture
def case(ridgeline):
    path = ridgeline.path / "case.toml"
    path.write_text(CASE)
    return path


@pytest.mark.full
def test_check_plans_slabs_and_pencils(ridgeline, case):
    done = ridgeline("check", case, "-n", 2)
    assert done.returncode == 0, done.stderr
    for words in (
        r"process grid +\[1, 2\], largest block \[24, 10, 16\]",
        r"data set +368\.6 kB in 2 outputs",
        r"exchange +[\d.]+ kB in 12 messages per step",
        r"\d+ % of the lines have no retained mode",
    ):
        assert re.search(words, done.stdout), (words, done.stdout)
    assert [path.name for path in ridgeline.path.iterdir()] == ["case.toml"]
    pencils = ridgeline("check", case, "-n", 4, "--set", "grid.decomposition=pencils")
    assert "[1, 4], largest block [24, 5, 16]" in pencils.stdout
    wide = ridgeline("check", case, "-n", 32, "--set", "grid.decomposition=pencils")
    assert re.search(r"\[2, 16\], largest block \[12, 2, 16\]", wide.stdout), wide.stdout


@pytest.mark.parametrize(
    ("command", "settings", "code", "words"),
    [
        ("check", ["model.viscosity=0"], 2, "--set: model.viscosity is 0, but it must be a number > 0"),
        ("run", ["grid.shape=[24,21,16]"], 2, "must be three even numbers >= 4 and <= 32768."),
        ("run", ["model.courant=1.2"], 2, "--set: model.courant is 1.2, but it must be a number > 0 and < 1"),
        ("run", ["scalar.0.schmid=1"], 2, "Did you mean 'schmidt'?"),
        ("check", ["grid.process_grid=[1,3]"], 3, "grid.process_grid = [1, 3] requires 3 ranks, but there are 2"),
    ],
)  # fmt: skip
def test_wrong_settings_end_with_one_sentence(ridgeline, case, command, settings, code, words):
    options = [word for setting in settings for word in ("--set", setting)]
    done = ridgeline(command, case, "-n", 2, *options)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_explain_shows_tables_and_repeated_sections(ridgeline):
    listing = ridgeline("explain", "turbulence").stdout
    for words in ("[model.transpose]", "[[scalar]]", "scalar.N.schmidt  (number, required; a number > 0)"):
        assert words in listing
    assert (
        "models: gray_scott, molecular_dynamics, n_body, navier_stokes, reaction_diffusion, "
        "turbulence" in ridgeline("explain").stdout
    )


@pytest.mark.full
def test_a_fixed_step_beyond_courant_one_ends_the_run_at_once(ridgeline, case):
    case.write_text(CASE.replace("courant = 0.5", "dt = 2.0"))
    done = ridgeline("run", case)
    assert done.returncode == 5
    words = (
        r"error: model\.dt = 2 gives the Courant number [\d.]+ at step 0, but it must be at most 1, that is "
    )
    assert re.search(words, done.stderr), done.stderr
    largest = float(re.search(r"model\.dt <= ([\d.]+)", done.stderr)[1])
    case.write_text(CASE.replace("courant = 0.5", f"dt = {0.99 * largest}").replace("steps = 4", "steps = 1"))
    assert ridgeline("run", case).returncode == 0


def test_spectra_that_cannot_be_written_name_their_own_setting(ridgeline, case):
    (ridgeline.path / "taken").write_text("a file, not a data set")
    done = ridgeline("run", case, "--set", "output.spectra=taken")
    assert done.returncode == 6
    assert "choose another output.spectra" in done.stderr, done.stderr
    assert (ridgeline.path / "taken").read_text() == "a file, not a data set"
