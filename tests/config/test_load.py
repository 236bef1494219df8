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
SECTIONS = (
    "[run], [grid], [model], [initial], [output], [[output.part]], [checkpoint], [[callback]], [[recorder]]"
)


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
        "output.format": "auto",
        "output.every": 100,
        "output.every_time": "none",
        "output.every_wall": "none",
        "output.align": True,
        "output.initial": False,
        "output.variables": ["U", "V"],
        "output.compression": "none",
        "output.viewer": "none",
        "output.part": [],
        "callback": [],
        "recorder": [],
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
    ("run.steps", "0", "is 0, but it must be an integer >= 1."),
    ("run.steps", "-5", "is -5, but it must be an integer >= 1."),
    ("run.steps", "1e3", "is 1000.0, but it must be an integer >= 1."),
    ("run.steps", "true", "is true, but it must be an integer >= 1."),
    ("run.steps", '"10"', 'is "10", but it must be an integer >= 1.'),
    ("run.precision", "double", 'is "double", but it must be "float64" or "float32".'),
    ("run.seed", "-1", "is -1, but it must be an integer from 0 to 2^64 - 1."),
    ("run.seed", "18446744073709551616", "is 18446744073709551616, but it must be an integer from 0 to 2^64 - 1."),
    ("run.threads", "0", "is 0, but it must be an integer >= 1 and <= 4096."),
    ("run.device", "gpu", 'is "gpu", but it must be "cpu" or "cuda".'),
    ("run.walltime", "0", 'is 0, but it must be a number of seconds > 0 or "HH:MM:SS".'),
    ("run.walltime", "1:60:00", 'is "1:60:00", but it must be a number of seconds > 0 or "HH:MM:SS".'),
    ("run.check_every", "-1", "is -1, but it must be an integer >= 0."),
    ("grid.shape", "[64, 64]", "is [64, 64], but it must be three integers >= 1 as [nz, ny, nx]."),
    ("grid.shape", "[64, 64, 0]", "is [64, 64, 0], but it must be three integers >= 1 as [nz, ny, nx]."),
    ("grid.shape", '[64, 64, "64"]', 'is [64, 64, "64"], but it must be three integers >= 1 as [nz, ny, nx].'),
    ("grid.shape", "64", "is 64, but it must be three integers >= 1 as [nz, ny, nx]."),
    ("grid.boundary", "open", 'is "open", but it must be "periodic" or "fixed".'),
    ("grid.process_grid", "[2, 2]", 'is [2, 2], but it must be "auto" or three integers >= 1 as [pz, py, px].'),
    ("grid.process_grid", "atuo", 'is "atuo", but it must be "auto" or three integers >= 1 as [pz, py, px].'),
    ("model.Du", "-0.1", "is -0.1, but it must be a number >= 0."),
    ("model.F", "nan", "is nan, but it must be a number >= 0."),
    ("model.noise", "inf", "is inf, but it must be a number >= 0."),
    ("model.k", "[0.1]", "is [0.1], but it must be a number >= 0."),
    ("model.dt", "0", "is 0, but it must be a number > 0."),
    ("model.dt", "-1.0", "is -1.0, but it must be a number > 0."),
    (
        "model.dt",
        "4.7620",
        "is 4.762, but it must be at most 4.761, the linear stability limit 2/(s Du + F) of forward Euler for U "
        "with s = 2 on "
        "this grid.",
    ),
    ("model.steps_per_sweep", "0", 'is 0, but it must be "auto", "rule" or an integer >= 1.'),
    ("initial.kind", "ball", 'is "ball", but it must be "box", "uniform", "patches", "formula", "image" or "file".'),
    ("initial.half_width", "0", "is 0, but it must be an integer >= 1."),
    ("output.path", '""', 'is "", but it must be a path.'),
    ("output.every", "0.5", "is 0.5, but it must be an integer >= 0."),
    ("output.initial", "1", "is 1, but it must be true or false."),
    ("output.variables", '["U", "W"]', 'is ["U", "W"], but it must be a list of "U" and "V", each at most once.'),
    ("output.variables", '["U", "U"]', 'is ["U", "U"], but it must be a list of "U" and "V", each at most once.'),
    ("output.variables", "[]", 'is [], but it must be a list of "U" and "V", each at most once.'),
    ("output.compression", "zip", 'is "zip", but it must be "none", "lz4" or "blosc".'),
    ("checkpoint.keep", "0", "is 0, but it must be an integer >= 1."),
    ("checkpoint.ranks_per_file", "0", "is 0, but it must be an integer >= 1."),
]  # fmt: skip


def test_wrong_value_names_key_value_and_rule() -> None:
    for key, value, expected in WRONG_VALUES:
        assert message(GOOD, f"{key}={value}") == f"--set: {key} {expected}"


WRONG_FILES = [
    (
        '[run]\nmodel = "gray_scott"\n\nstep = 100\n[grid]\nshape = [8, 8, 8]\n[initial]\nhalf_width = 2\n',
        f"case.toml:4: unknown key 'step' in [run]. Did you mean 'steps'? Known keys: {RUN_KEYS}.",
    ),
    (
        GOOD + "[model]\ndu = 0.1\n",
        "case.toml:7: unknown key 'du' in [model]. Did you mean 'Du'? Known keys: Du, Dv, F, k, noise, "
        "random_numbers, dt, "
        "steps_per_sweep.",
    ),
    (
        GOOD + "Du = 0.1\n",
        "case.toml:6: unknown key 'Du' in [grid]. 'Du' belongs to [model]. Known keys: shape, process_grid, "
        "boundary, cell_size.",
    ),
    (
        GOOD + "halfwidth = 2\n",
        "case.toml:6: unknown key 'halfwidth' in [grid]. Did you mean 'initial.half_width'? Known keys: shape, "
        "process_grid, "
        "boundary, cell_size.",
    ),
    (
        GOOD + "[checkpoint]\nevry = 5\n",  # output.every is as near, and comes first
        "case.toml:7: unknown key 'evry' in [checkpoint]. Did you mean 'every'? Known keys: path, every, every_time, "
        "every_wall, at_end, keep, ranks_per_file, writers_at_once.",
    ),
    (
        GOOD + "path = 'x'\n",  # a key of several tables
        "case.toml:6: unknown key 'path' in [grid]. Known keys: shape, process_grid, boundary, cell_size.",
    ),
    (
        GOOD + "[output]\nscale = 2\n",  # like 'shape' of [grid], but not enough
        "case.toml:7: unknown key 'scale' in [output]. Known keys: path, format, every, every_time, every_wall, "
        "align, initial, variables, compression, viewer, series, series_every, series_every_time, series_every_wall.",
    ),
    (
        GOOD + "qqq = 'x'\n",
        "case.toml:6: unknown key 'qqq' in [grid]. Known keys: shape, process_grid, boundary, cell_size.",
    ),
    (
        GOOD + "[modell]\nF = 0.1\n",
        f"case.toml:6: unknown section [modell]. Did you mean [model]? Known sections: {SECTIONS}.",
    ),
    (GOOD + "[zzz]\n", f"case.toml:6: unknown section [zzz]. Known sections: {SECTIONS}."),
    (
        "threads = 2\n" + GOOD,
        "case.toml:1: 'threads' is outside all sections. Did you mean 'run.threads'? Write it below the header "
        "of its "
        "section, such as [run].",
    ),
    ("output = 3\n" + GOOD, "case.toml:1: output is 3, but it must be a table, headed [output]."),
    (
        GOOD.replace("steps = 10\n", ""),
        "case.toml:1: run.steps is not set, but it must be an integer >= 1, or run.end_time instead.",
    ),
    (
        '[run]\nmodel = "gray_scott"\nsteps = 1\n',
        "case.toml: grid.shape is missing. It must be three integers >= 1 as [nz, ny, nx].",
    ),
    (
        GOOD.replace('model = "gray_scott"\n', ""),
        "case.toml:1: run.model is missing. It must be the name of a model (`ridgeline explain` lists them).",
    ),
    (
        GOOD.replace('"gray_scott"', "3"),
        "case.toml:2: run.model is 3, but it must be the name of a model (`ridgeline explain` lists them).",
    ),
    (
        GOOD.replace("gray_scott", "grayscott"),
        'case.toml:2: no model is called "grayscott". Did you mean "gray_scott"? The models are gray_scott, '
        "molecular_dynamics, n_body, navier_stokes, reaction_diffusion, turbulence, wind.",
    ),
    (
        GOOD.replace('model = "gray_scott"', 'model = "gray_scott"\ndevice = "cuda"')
        + "[model]\nsteps_per_sweep = 3\n",
        'case.toml:8: model.steps_per_sweep is 3, but it must be "auto", "rule", 1 or 2 with run.device = "cuda", '
        "because a sweep on a GPU advances at most two steps.",
    ),
    (
        GOOD + "[model]\nDv = 0.4\nF = 0.1\nk = 0.1001\ndt = 2\n",
        "case.toml:10: model.dt is 2, but it must be at most 1.999, the linear stability limit 2/(s Dv + F + k) "
        "of forward "
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
        assert told.startswith(f"{place}: not valid TOML: "), text
        assert told.endswith(". Write each setting as key = value."), text
        assert told.count("\n") == 0, text


def test_arithmetic_and_words_without_quotes_are_told_what_toml_needs() -> None:
    for value, advice in [
        ("1/800", "TOML does not compute, so write Du = 0.00125."),
        ("2 * 3  # twice", "TOML does not compute, so write Du = 6."),
        ("sqrt(2)", "TOML does not compute, so write Du = 1.4142135623730951."),
        ("Wall", 'Text has quotes: Du = "Wall".'),
        ("1/0", "Write each setting as key = value."),
        ("1,5", "Write each setting as key = value."),
    ]:
        assert message(f"{GOOD}[model]\nDu = {value}\n").endswith(f". {advice}"), value


def test_all_faults_are_reported_at_once() -> None:
    told = message(
        GOOD + "bounday = 'fixed'\n[model]\nF = -1\n[nope]\n[checkpoint]\nkeep = 'all'\n", "run.seed=x"
    )
    assert [line.split(": ")[1].split(" is ")[0].split(".")[0] for line in told.splitlines()] == [
        "unknown key 'bounday' in [grid]",
        "unknown section [nope]",
        "run",
        "checkpoint",
        "model",
    ]


def test_unknown_model_does_not_hide_other_faults() -> None:
    told = message(GOOD.replace("gray_scott", "g").replace("10", "0"))
    assert told.splitlines()[1:] == ["case.toml:3: run.steps is 0, but it must be an integer >= 1."]


def test_long_values_are_cut() -> None:
    assert message(GOOD, f"run.precision={'x' * 200}").split(",")[0].endswith("xxx...")


def test_an_override_without_a_value_takes_the_key_out() -> None:
    given = GOOD + "[model]\nF = 0.03\n[output]\npath = 'a.bp'\n"
    assert load(given, "model.F=", "output.path= ").case == load(GOOD).case
    assert load(GOOD, "model.F=0.03", "model.F=").case == load(GOOD).case
    assert message(GOOD, "run.steps=").startswith(
        "--set: run.steps is not set, but it must be an integer >= 1"
    )
    assert message(GOOD, "run.stops=") == (
        "--set run.stops=: run.stops is not set, so it cannot be removed. Give a value after =."
    )


def test_overrides_win_over_the_file_and_the_last_wins() -> None:
    case: Any = load(GOOD, "run.steps=20", " run.steps = 30 ", "output.path=out/x.bp", "grid.shape=[7, 8,9]",
                     'initial.kind="uniform"', "run.walltime=1:00:00").case  # fmt: skip
    assert (case.run.steps, case.output.path, case.grid.shape) == (30, "out/x.bp", (7, 8, 9))
    assert (case.initial.kind, case.run.walltime) == ("uniform", 3600.0)


def test_wrong_override() -> None:
    table = {
        "run.steps": "--set run.steps: write section.key=value, such as run.steps=100.",
        "steps=3": "--set steps=3: write section.key=value, such as run.steps=100.",
        "grid.shape=[8, 8": "--set grid.shape=[8, 8: [8, 8 is not a value of TOML. Quote the whole setting for "
        "the shell.",
        "run.step=3": f"--set: unknown key 'run.step' in [run]. Did you mean 'steps'? Known keys: {RUN_KEYS}.",
        "foo.bar=1": f"--set: unknown section [foo]. Known sections: {SECTIONS}.",
    }
    for override, expected in table.items():
        assert message(GOOD, override) == expected, override


def test_override_cannot_smuggle_in_a_second_key() -> None:
    assert message(GOOD, "run.steps=1\nother = 2").startswith('--set: run.steps is "1\\nother = 2", but')


def test_paths_are_expanded_as_a_shell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    text = GOOD + '[output]\npath = "$SCRATCH/gs.bp"\nseries = "~/${SCRATCH}.csv"\n'
    case = load(text, "checkpoint.path=~/ck$").case
    assert (case.output.path, case.output.series) == ("/scratch/me/gs.bp", "/home/me//scratch/me.csv")
    assert case.checkpoint.path == "/home/me/ck$"
    monkeypatch.setenv("SCRATCH", "")
    assert message(text).splitlines()[0] == (
        'case.toml:7: output.path is "$SCRATCH/gs.bp", but it must be a path, and the environment variable '
        "SCRATCH is "
        "not set."
    )
    assert "it must be a path, and ~nobody_here is not a user of this machine" in message(
        GOOD, "output.path=~nobody_here/x.bp"
    )


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert load("\ufeff" + GOOD).case == load(GOOD).case


def test_unreadable_files() -> None:
    advice = "Give a settings file (.toml, or GrayScott.jl's .json)."
    Path("settings.toml").write_text(GOOD)
    Path("bytes.toml").write_bytes(b"[run]\n\xff")
    told = {}
    for name in ("setings.toml", "nowhere/x.toml", ".", "bytes.toml"):
        with pytest.raises(ConfigError) as caught:
            load_case(name, case_class)
        told[name] = str(caught.value)
    assert told == {
        "setings.toml": f"setings.toml: there is no such file. Did you mean 'settings.toml'? {advice}",
        "nowhere/x.toml": f"nowhere/x.toml: there is no such file. {advice}",
        ".": f".: this is a directory. Did you mean 'bytes.toml'? {advice}",
        "bytes.toml": "bytes.toml: byte 6 is not UTF-8. A settings file is text in UTF-8.",
    }


def test_file_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", lambda path: False)
    monkeypatch.setattr(Path, "stat", refuse)  # permissions do not stop root
    with pytest.raises(ConfigError) as caught:
        load_case("secret.toml", case_class)
    assert str(caught.value) == ("secret.toml: the file cannot be read (Permission denied).")


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
                '--set: output.path is ".", but it must be a path that does not contain checkpoint.path = '
                '"checkpoints".'
            ],
        ),
        (
            ["output.path=x", "checkpoint.path=x.run.json"],
            [
                '--set: output.path is "x", but it must be a path whose report, x.run.json, is outside '
                "checkpoint.path = "
                '"x.run.json".'
            ],
        ),
        (
            ["output.path=x", "checkpoint.path=x/c"],
            ['--set: checkpoint.path is "x/c", but it must be a path outside output.path = "x".'],
        ),
        (
            ["output.path=x", "checkpoint.path=x"],
            ['--set: checkpoint.path is "x", but it must be a path that differs from output.path.'],
        ),
    ],
)
def test_of_two_paths_the_one_at_fault_is_blamed_and_the_other_named(overrides, sentences) -> None:
    assert message(GOOD, *overrides).splitlines() == sentences
