"""Settings files: every message is a snapshot, since people read them and nothing else."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ridgeline.config.load import LoadedCase, load_case
from ridgeline.models import case_class
from ridgeline.runtime.errors import ConfigError

GOOD = """\
[run]
model = "gray_scott"
steps = 10
[grid]
shape = [16, 20, 24]
"""
RUN_KEYS = (
    "model, steps, end_time, precision, seed, threads, device, walltime, check_memory, check_every, stop_when, "
    "steady_tolerance"
)
SECTIONS = "[run], [grid], [model], [initial], [output], [checkpoint]"


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str, *overrides: str) -> LoadedCase:
    Path("case.toml").write_text(text)
    return load_case("case.toml", case_class, overrides)


def message(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text, *overrides)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_smallest_case_has_the_documented_defaults() -> None:
    loaded = load(GOOD)
    assert (loaded.source, loaded.warnings, loaded.resume) == (Path("case.toml"), (), None)
    assert loaded.case.flatten() == {
        "run.model": "gray_scott",
        "run.steps": 10,
        "run.end_time": "none",
        "run.precision": "float64",
        "run.seed": 0,
        "run.threads": 1,
        "run.device": "cpu",
        "run.walltime": "none",
        "run.check_memory": True,
        "run.check_every": 100,
        "run.stop_when": "end",
        "run.steady_tolerance": 1e-6,
        "grid.shape": [16, 20, 24],
        "grid.boundary": "periodic",
        "grid.process_grid": "auto",
        "grid.cell_size": "none",
        "output.path": "gray_scott.bp",
        "output.every": 100,
        "output.every_time": "none",
        "output.every_wall": "none",
        "output.align": True,
        "output.initial": False,
        "output.variables": ["U", "V"],
        "output.compression": "none",
        "output.series": "series.csv",
        "output.series_every": 0,
        "output.series_every_time": "none",
        "output.series_every_wall": "none",
        "checkpoint.path": "checkpoints",
        "checkpoint.every": 0,
        "checkpoint.every_time": "none",
        "checkpoint.every_wall": "none",
        "checkpoint.at_end": True,
        "checkpoint.keep": 2,
        "checkpoint.ranks_per_file": 64,
        "checkpoint.writers_at_once": 0,
        "model.Du": 0.2,
        "model.Dv": 0.1,
        "model.F": 0.02,
        "model.k": 0.048,
        "model.noise": 0.1,
        "model.random_numbers": "auto",
        "model.dt": 1.0,
        "model.steps_per_sweep": "auto",
        "initial.kind": "box",
        "initial.half_width": 6,
        "initial.u": 0.25,
        "initial.v": 0.33,
        "initial.noise": 0.0,
        "initial.count": 10,
        "initial.formula_u": "1",
        "initial.formula_v": "0",
        "initial.path": "",
        "initial.step": "none",
    }


def test_every_value_that_a_file_gives_arrives() -> None:
    case: Any = load(
        """\
run = { model = "gray_scott", steps = 7, seed = 18446744073709551615, walltime = 01:30:05 }
grid.shape = [
  5, # planes
  6,
  1,
]
grid.process_grid = [1, 2, 1]
[model]
dt = 2
noise = 1e-7
steps_per_sweep = 2
[initial]
kind = "uniform"
[output]
variables = ["V"]
"""
    ).case
    assert (case.run.steps, case.run.seed, case.run.walltime) == (7, 2**64 - 1, 5405.0)
    assert (case.grid.shape, case.grid.process_grid) == ((5, 6, 1), (1, 2, 1))
    assert (case.model.dt, case.model.noise, case.model.steps_per_sweep) == (2.0, 1e-7, 2)
    assert isinstance(case.model.dt, float)
    assert case.output.variables == ("V",)


def test_walltime_is_seconds_or_hours() -> None:
    table = {"90": 90, "1.5": 1.5, '"00:10:00"': 600, '"100:00:01"': 360001, "02:00:00": 7200}
    for written, seconds in table.items():
        assert load(GOOD, f"run.walltime={written}").case.run.walltime == seconds, written


WRONG_VALUES = [
    ("run.steps", "0", "got 0; need an integer >= 1."),
    ("run.steps", "-5", "got -5; need an integer >= 1."),
    ("run.steps", "1e3", "got 1000.0; need an integer >= 1."),
    ("run.steps", "true", "got true; need an integer >= 1."),
    ("run.steps", '"10"', 'got "10"; need an integer >= 1.'),
    ("run.precision", "double", 'got "double"; need "float64" or "float32".'),
    ("run.seed", "-1", "got -1; need an integer from 0 to 2^64 - 1."),
    ("run.seed", "18446744073709551616", "got 18446744073709551616; need an integer from 0 to 2^64 - 1."),
    ("run.threads", "0", "got 0; need an integer >= 1 and <= 4096."),
    ("run.device", "gpu", 'got "gpu"; need "cpu" or "cuda".'),
    ("run.walltime", "0", 'got 0; need seconds > 0 or "HH:MM:SS".'),
    ("run.walltime", "1:60:00", 'got "1:60:00"; need seconds > 0 or "HH:MM:SS".'),
    ("run.check_every", "-1", "got -1; need an integer >= 0."),
    ("grid.shape", "[64, 64]", "got [64, 64]; need three integers >= 1 as [nz, ny, nx]."),
    ("grid.shape", "[64, 64, 0]", "got [64, 64, 0]; need three integers >= 1 as [nz, ny, nx]."),
    ("grid.shape", '[64, 64, "64"]', 'got [64, 64, "64"]; need three integers >= 1 as [nz, ny, nx].'),
    ("grid.shape", "64", "got 64; need three integers >= 1 as [nz, ny, nx]."),
    ("grid.boundary", "open", 'got "open"; need "periodic" or "fixed".'),
    ("grid.process_grid", "[2, 2]", 'got [2, 2]; need "auto" or three integers >= 1 as [pz, py, px].'),
    ("grid.process_grid", "atuo", 'got "atuo"; need "auto" or three integers >= 1 as [pz, py, px].'),
    ("model.Du", "-0.1", "got -0.1; need a number >= 0."),
    ("model.F", "nan", "got nan; need a number >= 0."),
    ("model.noise", "inf", "got inf; need a number >= 0."),
    ("model.k", "[0.1]", "got [0.1]; need a number >= 0."),
    ("model.dt", "0", "got 0; need a number > 0."),
    ("model.dt", "-1.0", "got -1.0; need a number > 0."),
    (
        "model.dt",
        "4.7620",
        "got 4.762; need dt <= 4.761, the linear stability limit 2/(s Du + F) of forward Euler for U with s = 2 on "
        "this grid.",
    ),
    ("model.steps_per_sweep", "0", 'got 0; need "auto", "rule" or an integer >= 1.'),
    ("initial.kind", "ball", 'got "ball"; need "box", "uniform", "patches", "formula", "image" or "file".'),
    ("initial.half_width", "0", "got 0; need an integer >= 1."),
    ("output.path", '""', 'got ""; need a path.'),
    ("output.every", "0.5", "got 0.5; need an integer >= 0."),
    ("output.initial", "1", "got 1; need true or false."),
    ("output.variables", '["U", "W"]', 'got ["U", "W"]; need a list of "U" and "V", each at most once.'),
    ("output.variables", '["U", "U"]', 'got ["U", "U"]; need each of "U" and "V" at most once.'),
    ("output.variables", "[]", 'got []; need a list of "U" and "V", each at most once.'),
    ("output.compression", "zip", 'got "zip"; need "none", "lz4" or "blosc".'),
    ("checkpoint.keep", "0", "got 0; need an integer >= 1."),
    ("checkpoint.ranks_per_file", "0", "got 0; need an integer >= 1."),
]  # fmt: skip


def test_wrong_value_names_key_value_and_rule() -> None:
    for key, value, expected in WRONG_VALUES:
        assert message(GOOD, f"{key}={value}") == f"{key} in --set: {expected}"


WRONG_FILES = [
    (
        '[run]\nmodel = "gray_scott"\n\nstep = 100\n[grid]\nshape = [8, 8, 8]\n[initial]\nhalf_width = 2\n',
        f"run.step in case.toml:4: got 100; need a known key of [run]: {RUN_KEYS}. Did you mean 'steps'?",
    ),
    (
        GOOD + "[model]\ndu = 0.1\n",
        "model.du in case.toml:7: got 0.1; need a known key of [model]: Du, Dv, F, k, noise, random_numbers, dt, "
        "steps_per_sweep. Did you mean 'Du'?",
    ),
    (
        GOOD + "Du = 0.1\n",
        "grid.Du in case.toml:6: got 0.1; need a known key of [grid]: shape, boundary, process_grid, cell_size. "
        "'Du' belongs to [model].",
    ),
    (
        GOOD + "halfwidth = 2\n",
        "grid.halfwidth in case.toml:6: got 2; need a known key of [grid]: shape, boundary, process_grid, cell_size. "
        "Did you mean 'initial.half_width'?",
    ),
    (
        GOOD + "[checkpoint]\nevry = 5\n",  # output.every is as near, and comes first
        "checkpoint.evry in case.toml:7: got 5; need a known key of [checkpoint]: path, every, every_time, "
        "every_wall, at_end, keep, ranks_per_file, "
        "writers_at_once. Did you mean 'every'?",
    ),
    (
        GOOD + "path = 'x'\n",  # a key of several tables
        'grid.path in case.toml:6: got "x"; need a known key of [grid]: shape, boundary, process_grid, cell_size.',
    ),
    (
        GOOD + "[output]\nscale = 2\n",  # like 'shape' of [grid], but not enough
        "output.scale in case.toml:7: got 2; need a known key of [output]: path, every, every_time, every_wall, "
        "align, initial, variables, compression, series, series_every, series_every_time, series_every_wall.",
    ),
    (
        GOOD + "qqq = 'x'\n",
        'grid.qqq in case.toml:6: got "x"; need a known key of [grid]: shape, boundary, process_grid, cell_size.',
    ),
    (
        GOOD + "[modell]\nF = 0.1\n",
        f"[modell] in case.toml:6: no such section; need one of {SECTIONS}. Did you mean [model]?",
    ),
    (GOOD + "[zzz]\n", f"[zzz] in case.toml:6: no such section; need one of {SECTIONS}."),
    (
        "threads = 2\n" + GOOD,
        "threads in case.toml:1: got 2; need a section before it. Did you mean 'run.threads'?",
    ),
    ("output = 3\n" + GOOD, "output in case.toml:1: got 3; need a table, [output]."),
    (
        GOOD.replace("steps = 10\n", ""),
        "run.steps in case.toml:1: not set; need an integer >= 1, or run.end_time instead.",
    ),
    (
        '[run]\nmodel = "gray_scott"\nsteps = 1\n',
        "grid.shape in case.toml: not given; need three integers >= 1 as [nz, ny, nx].",
    ),
    (
        GOOD.replace('model = "gray_scott"\n', ""),
        "run.model in case.toml:1: not given; need the name of a model (`ridgeline explain` lists them).",
    ),
    (
        GOOD.replace('"gray_scott"', "3"),
        "run.model in case.toml:2: got 3; need the name of a model (`ridgeline explain` lists them).",
    ),
    (
        GOOD.replace("gray_scott", "grayscott"),
        'run.model in case.toml:2: no model is called "grayscott"; need one of: gray_scott, '
        'molecular_dynamics, n_body, navier_stokes, turbulence. Did you mean "gray_scott"?',
    ),
    (
        GOOD.replace('model = "gray_scott"', 'model = "gray_scott"\ndevice = "cuda"')
        + "[model]\nsteps_per_sweep = 3\n",
        'model.steps_per_sweep in case.toml:8: got 3; need "auto", "rule", 1 or 2 with run.device = "cuda": GPU '
        "sweeps advance two steps at most.",
    ),
    (
        GOOD + "[model]\nDv = 0.4\nF = 0.1\nk = 0.1001\ndt = 2\n",
        "model.dt in case.toml:10: got 2; need dt <= 1.999, the linear stability limit 2/(s Dv + F + k) of forward "
        "Euler for V with s = 2 on this grid.",
    ),
]


def test_wrong_file_is_told_with_its_line() -> None:
    for text, expected in WRONG_FILES:
        assert message(text) == expected, text


def test_what_is_not_toml_is_told_with_its_line() -> None:
    for text, place in [
        ("[run]\nsteps = \n", "case.toml:2"),
        ("[run]\nsteps = [1,\n", "case.toml, at its end"),
        (GOOD + "shape = [1, 1, 1]\n", "case.toml:6"),
    ]:
        told = message(text)
        assert told.startswith(f"{place}: not valid TOML, "), text
        assert told.endswith("; need lines key = value."), text
        assert told.count("\n") == 0, text


def test_arithmetic_and_words_without_quotes_are_told_what_toml_needs() -> None:
    for value, need in [
        ("1/800", "a number, as TOML does not compute: Du = 0.00125."),
        ("2 * 3  # twice", "a number, as TOML does not compute: Du = 6."),
        ("sqrt(2)", "a number, as TOML does not compute: Du = 1.4142135623730951."),
        ("Wall", 'quotes around text: Du = "Wall".'),
        ("1/0", "lines key = value."),
        ("1,5", "lines key = value."),
    ]:
        assert message(f"{GOOD}[model]\nDu = {value}\n").endswith(f"; need {need}"), value


def test_all_faults_are_reported_at_once() -> None:
    told = message(
        GOOD + "bounday = 'fixed'\n[model]\nF = -1\n[nope]\n[checkpoint]\nkeep = 'all'\n", "run.seed=x"
    )
    assert [line.split(":")[0].split(" in ")[0] for line in told.splitlines()] == [
        "grid.bounday",
        "[nope]",
        "run.seed",
        "checkpoint.keep",
        "model.F",
    ]


def test_unknown_model_does_not_hide_other_faults() -> None:
    told = message(GOOD.replace("gray_scott", "g").replace("10", "0"))
    assert told.splitlines()[1:] == ["run.steps in case.toml:3: got 0; need an integer >= 1."]


def test_long_values_are_cut() -> None:
    assert message(GOOD, f"run.precision={'x' * 200}").split(";")[0].endswith("xxx...")


def test_an_override_without_a_value_takes_the_key_out() -> None:
    given = GOOD + "[model]\nF = 0.03\n[output]\npath = 'a.bp'\n"
    assert load(given, "model.F=", "output.path= ").case == load(GOOD).case
    assert load(GOOD, "model.F=0.03", "model.F=").case == load(GOOD).case
    assert message(GOOD, "run.steps=").startswith("run.steps in --set: ")
    assert message(GOOD, "run.stops=") == (
        "--set run.stops=: nothing sets run.stops; need a value, or a key that is set."
    )


def test_overrides_win_over_the_file_and_the_last_wins() -> None:
    case: Any = load(GOOD, "run.steps=20", " run.steps = 30 ", "output.path=out/x.bp", "grid.shape=[7, 8,9]",
                     'initial.kind="uniform"', "run.walltime=1:00:00").case  # fmt: skip
    assert (case.run.steps, case.output.path, case.grid.shape) == (30, "out/x.bp", (7, 8, 9))
    assert (case.initial.kind, case.run.walltime) == ("uniform", 3600.0)


def test_wrong_override() -> None:
    table = {
        "run.steps": "--set run.steps: need section.key=value, such as run.steps=100.",
        "steps=3": "--set steps=3: need section.key=value, such as run.steps=100.",
        "grid.shape=[8, 8": "--set grid.shape=[8, 8: got [8, 8; need a TOML value, quoted for the shell.",
        "run.step=3": f"run.step in --set: got 3; need a known key of [run]: {RUN_KEYS}. Did you mean 'steps'?",
        "foo.bar=1": f"[foo] in --set: no such section; need one of {SECTIONS}.",
    }
    for override, expected in table.items():
        assert message(GOOD, override) == expected, override


def test_override_cannot_smuggle_in_a_second_key() -> None:
    assert message(GOOD, "run.steps=1\nother = 2").startswith('run.steps in --set: got "1\\nother = 2"; need')


def test_paths_are_expanded_as_a_shell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    text = GOOD + '[output]\npath = "$SCRATCH/gs.bp"\nseries = "~/${SCRATCH}.csv"\n'
    case = load(text, "checkpoint.path=~/ck$").case
    assert (case.output.path, case.output.series) == ("/scratch/me/gs.bp", "/home/me//scratch/me.csv")
    assert case.checkpoint.path == "/home/me/ck$"
    monkeypatch.setenv("SCRATCH", "")
    assert message(text).splitlines()[0] == (
        'output.path in case.toml:7: got "$SCRATCH/gs.bp"; need a path, but the environment variable SCRATCH is '
        "not set."
    )
    assert "need a path, but ~nobody_here is not a user of this machine" in message(
        GOOD, "output.path=~nobody_here/x.bp"
    )


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert load("\ufeff" + GOOD).case == load(GOOD).case


def test_unreadable_files() -> None:
    need = "need a settings file (.toml, or GrayScott.jl's .json)."
    Path("settings.toml").write_text(GOOD)
    Path("bytes.toml").write_bytes(b"[run]\n\xff")
    told = {}
    for name in ("setings.toml", "nowhere/x.toml", ".", "bytes.toml"):
        with pytest.raises(ConfigError) as caught:
            load_case(name, case_class)
        told[name] = str(caught.value)
    assert told == {
        "setings.toml": f"setings.toml: no such file; {need} Did you mean 'settings.toml'?",
        "nowhere/x.toml": f"nowhere/x.toml: no such file; {need}",
        ".": f".: is a directory; {need} Did you mean 'bytes.toml'?",
        "bytes.toml": "bytes.toml: byte 6 is not UTF-8; need a text file.",
    }


def test_file_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", lambda path: False)
    monkeypatch.setattr(Path, "stat", refuse)  # permissions do not stop root
    with pytest.raises(ConfigError) as caught:
        load_case("secret.toml", case_class)
    assert str(caught.value) == (
        "secret.toml: cannot be read (Permission denied); need a readable settings file."
    )


def test_a_case_is_frozen_and_travels_between_processes() -> None:
    case: Any = load(GOOD).case
    with pytest.raises(ValueError, match="frozen"):
        case.run.steps = 3
    assert pickle.loads(pickle.dumps(case)) == case


def test_loading_needs_neither_mpi_nor_a_compiler() -> None:
    code = (
        "import sys; from ridgeline.config.load import load_case; from ridgeline.models import case_class; "
        "load_case('case.toml', case_class); "
        "print([m for m in ('mpi4py', 'numba', 'numpy', 'adios2') if m in sys.modules])"
    )
    Path("case.toml").write_text(GOOD)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize(
    ("overrides", "sentences"),
    [
        (
            ["output.path=."],
            [
                'output.path in --set: got "."; need a path that does not hold checkpoint.path = "checkpoints".'
            ],
        ),
        (
            ["output.path=x", "checkpoint.path=x.run.json"],
            [
                'output.path in --set: got "x"; need a path whose report, x.run.json, is outside checkpoint.path = '
                '"x.run.json".'
            ],
        ),
        (
            ["output.path=x", "checkpoint.path=x/c"],
            ['checkpoint.path in --set: got "x/c"; need a path outside output.path = "x".'],
        ),
        (
            ["output.path=x", "checkpoint.path=x"],
            ['checkpoint.path in --set: got "x"; need another path than output.path.'],
        ),
    ],
)
def test_of_two_paths_the_one_at_fault_is_blamed_and_the_other_named(overrides, sentences) -> None:
    assert message(GOOD, *overrides).splitlines() == sentences
