"""A mistake in the settings is told before anything is compiled."""

import pytest

TURBULENCE = """\
[run]
model = "turbulence"
steps = 1

[grid]
shape = [8, 8, 8]

[model]
viscosity = 0.1
dt = 0.01

[initial]
kind = "file"
path = "nothing.bp"
"""


@pytest.fixture
def refused(ridgeline, tmp_path):
    """Run a command that must be refused with an empty kernel cache; return the sentence."""

    def call(code, *arguments):
        cache = tmp_path / "kernels"
        done = ridgeline(*arguments, env={"RIDGELINE_CACHE_DIR": str(cache)})
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.count("error:") == 1
        compiled = [path for path in cache.rglob("*") if path.suffix in (".kernel", ".wisdom")]
        assert not compiled
        return done.stderr

    return call


@pytest.mark.parametrize(
    ("code", "options"),
    [
        (2, ["--set", "model.D=1"]),
        (2, ["--set", "grid.shape=[8, 8, 8.5]"]),
        (3, ["--set", "grid.process_grid=[2, 2, 2]"]),
        (4, ["--resume", "nothing_there"]),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else str(value),
)
def test_a_mistake_costs_no_compilation(code, options, ridgeline, refused) -> None:
    ridgeline.write()
    refused(code, "run", "case.toml", *options)


@pytest.mark.parametrize("command", ["check", "run"])
def test_an_initial_file_that_is_not_there_costs_no_compilation(ridgeline, refused, command) -> None:
    (ridgeline.path / "case.toml").write_text(TURBULENCE)
    assert "initial.path = nothing.bp" in refused(2, command, "case.toml")


def test_ranks_agree_on_it(ridgeline, refused) -> None:
    ridgeline.write()
    assert "nothing_there" in refused(4, "run", "case.toml", "-n", 2, "--resume", "nothing_there")
