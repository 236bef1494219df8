"""GrayScott.jl's JSON settings, as its users have them."""

import json
from pathlib import Path
from typing import Any

import pytest

from ridgeline.config.load import load_case
from ridgeline.models import case_class
from ridgeline.runtime.errors import ConfigError

# Every key that GrayScott.jl's own example files hold.
SETTINGS: dict[str, Any] = {
    "L": 64,
    "Du": 0.2,
    "Dv": 0.1,
    "F": 0.02,
    "k": 0.048,
    "dt": 1.0,
    "plotgap": 10,
    "steps": 1000,
    "noise": 0.1,
    "output": "gs-1MPI-1GPU-64L-F32.bp",
    "checkpoint": False,
    "checkpoint_freq": 700,
    "checkpoint_output": "ckpt.bp",
    "restart": False,
    "restart_input": "old.bp",
    "adios_config": "adios2.xml",
    "adios_span": False,
    "adios_memory_selection": False,
    "mesh_type": "image",
    "precision": "Float32",
    "backend": "CUDA",
}
DIFFERS = (
    "s.json: the run has periodic boundaries and seeds 12^3 cells, as in ADIOS2-Examples. "
    "GrayScott.jl leaves its boundary undefined and seeds 13^3 cells."
)


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(settings: dict[str, Any] | str, *overrides: str) -> Any:
    Path("s.json").write_text(settings if isinstance(settings, str) else json.dumps(settings, indent=4))
    return load_case("s.json", case_class, overrides)


def message(settings: dict[str, Any] | str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(settings, *overrides)
    return str(caught.value)


def test_every_key_is_mapped_or_named() -> None:
    loaded = load(SETTINGS)
    flat = loaded.case.flatten()
    assert {
        key: flat[key] for key in flat if key.split(".")[0] in ("grid", "model", "initial", "output")
    } == {
        "grid.shape": [64, 64, 64],
        "grid.boundary": "periodic",
        "grid.process_grid": "auto",
        "grid.cell_size": "none",
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
        "output.path": "gs-1MPI-1GPU-64L-F32.bp",
        "output.format": "auto",
        "output.every": 10,
        "output.every_time": "none",
        "output.every_wall": "none",
        "output.align": True,
        "output.initial": False,
        "output.variables": ["U", "V"],
        "output.compression": "none",
        "output.viewer": "none",
        "output.part": [],
        "output.series": "series.csv",
        "output.series_every": 0,
        "output.series_every_time": "none",
        "output.series_every_wall": "none",
    }
    assert (flat["run.model"], flat["run.steps"], flat["run.precision"]) == ("gray_scott", 1000, "float32")
    assert (flat["checkpoint.path"], flat["checkpoint.every"], loaded.resume) == ("ckpt.bp", 0, None)
    assert loaded.warnings == (
        "s.json: keys without a meaning in Ridgeline are ignored: adios_config, adios_span, "
        "adios_memory_selection, mesh_type, backend.",
        DIFFERS,
    )


def test_checkpoint_and_restart() -> None:
    loaded = load(SETTINGS | {"checkpoint": True, "restart": True})
    assert (loaded.case.checkpoint.every, loaded.case.checkpoint.path) == (700, "ckpt.bp")
    assert loaded.resume == Path("old.bp")


def test_keys_left_out_have_the_defaults_of_grayscott_jl() -> None:
    loaded = load({})
    case = loaded.case
    assert (case.run.steps, case.run.precision, case.grid.shape) == (20000, "float64", (128, 128, 128))
    assert (case.model.Du, case.model.Dv, case.model.F, case.model.k) == (0.05, 0.1, 0.04, 0.0)
    assert (case.model.dt, case.model.noise, case.output.path, case.output.every) == (0.2, 0.0, "foo.bp", 200)
    assert loaded.warnings == (DIFFERS,)


def test_whole_floats_are_integers_as_in_julia() -> None:
    assert load({"L": 32.0, "steps": 1e3}).case.run.steps == 1000


def test_our_names_override() -> None:
    case = load(SETTINGS, "run.steps=5", "grid.boundary=fixed").case
    assert (case.run.steps, case.grid.boundary) == (5, "fixed")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"L": 0}, "s.json:2: L is 0, but it must be an integer >= 1."),
        ({"L": 64.5}, "s.json:2: L is 64.5, but it must be an integer >= 1."),
        ({"F": "0.02"}, 's.json:5: F is "0.02", but it must be a number >= 0.'),
        ({"dt": 9}, "s.json:7: dt is 9.0, but it must be at most 4.761, the linear stability limit 2/(s Du + F) "
                    "of forward "
                    "Euler for U with s = 2 on this grid."),
        ({"plotgap": 0}, "s.json:8: plotgap is 0, but it must be an integer >= 1."),
        ({"restart": 1}, "s.json:15: restart is 1, but it must be true or false."),
        ({"precision": "Float16"}, 's.json:21: precision is "Float16", but it must be "Float64" or "Float32".'),
        ({"checkpoint": True, "checkpoint_freq": 0}, "s.json:13: checkpoint_freq is 0, but it must be an "
                                                     "integer >= 1."),
    ],
    ids=lambda value: str(value)[:24],
)  # fmt: skip
def test_wrong_settings_are_told_in_their_own_words(change: dict[str, Any], expected: str) -> None:
    assert message(SETTINGS | change) == expected


def test_faults_are_reported_together() -> None:
    told = message(SETTINGS | {"L": -1, "Plotgap": 2, "Dv": None})
    assert [line.split(" ")[1] for line in told.splitlines()] == ["L", "Dv"]


def test_keys_that_are_unknown_or_switched_off_are_left_out_as_in_julia() -> None:
    off = {"checkpoint_freq": 0, "checkpoint_output": "", "restart_input": None}
    loaded = load(SETTINGS | off | {"plot_gap": 5, "zzz": None})
    assert loaded.warnings[:-2] == (
        "s.json:23: the unknown key \"plot_gap\" is ignored. Did you mean 'plotgap'?",
        's.json:24: the unknown key "zzz" is ignored.',
        "s.json:13: checkpoint_freq = 0 is ignored, because checkpoint is not true.",
        's.json:14: checkpoint_output = "" is ignored, because checkpoint is not true.',
        "s.json:16: restart_input = none is ignored, because restart is not true.",
    )
    assert loaded.case == load(SETTINGS).case
    many = load({f"key_{n}": n for n in range(400)}).warnings
    assert many[-2] == f"s.json: {400 - (len(many) - 2)} more unknown keys are ignored."


def test_a_byte_order_mark_is_no_part_of_the_settings() -> None:
    assert load("\ufeff" + json.dumps(SETTINGS)).case == load(SETTINGS).case


def test_wrong_override_of_json_settings() -> None:
    assert message(SETTINGS, "model.dt=9").startswith("--set: model.dt is 9, but it must be at most 4.761,")


def test_what_is_not_json_settings() -> None:
    told = message('{\n "L": 64,\n "Du" 0.2\n}')
    assert told == """s.json:3: not valid JSON: expecting ':' delimiter. Write "key": value pairs."""
    assert (
        message("[1, 2]")
        == 's.json: the file holds [1, 2], but it must hold an object of "key": value pairs.'
    )
