"""What a turbulence case allows, and what makes two runs the same."""

import math
from pathlib import Path
from typing import Any

import pytest

from ridgeline.config.load import load_case
from ridgeline.models import case_class
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.runtime.errors import ConfigError

GOOD = """\
[run]
model = "turbulence"
steps = 10
[grid]
shape = [16, 20, 24]
[model]
viscosity = 0.01
courant = 0.5
[[scalar]]
schmidt = 0.7
"""
SMALLEST: dict[str, Any] = {
    "run": {"model": "turbulence", "steps": 10},
    "grid": {"shape": [16, 16, 16]},
    "model": {"viscosity": 0.01, "dt": 0.1},
}


def case(**sections: Any) -> TurbulenceCase:
    merged = {name: {**SMALLEST.get(name, {}), **values} for name, values in sections.items()}
    return TurbulenceCase.model_validate({**SMALLEST, **merged})


def message(tmp_path: Path, *overrides: str, text: str = GOOD) -> str:
    path = tmp_path / "case.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_case(path, case_class, overrides)
    return str(caught.value).replace(str(tmp_path) + "/", "")


def test_smallest_case_is_a_taylor_green_vortex_in_a_box_of_two_pi() -> None:
    smallest = case()
    assert smallest.grid.lengths == (2 * math.pi,) * 3
    assert (smallest.grid.decomposition, smallest.grid.process_grid) == ("slabs", "auto")
    assert (smallest.model.scheme, smallest.model.dealias) == ("rk2", "phase-shift")
    assert (smallest.initial.kind, smallest.forcing.kind, smallest.scalar) == ("taylor_green", "none", ())
    assert smallest.output.variables == ("velocity_x", "velocity_y", "velocity_z")


WRONG = [
    ("grid.shape=[16,15,16]", "is [16, 15, 16], but it must be three even numbers >= 4 and <= 32768."),
    ("grid.shape=[16,2,16]", "is [16, 2, 16], but it must be three even numbers >= 4 and <= 32768."),
    (
        "grid.shape=[1,16,16]",
        "is [1, 16, 16], but it must be three even numbers >= 4 and <= 32768, because this model has no "
        "two-dimensional flows.",
    ),
    ("model.rotation=2", "is 2, but it must be three numbers as [Omega_x, Omega_y, Omega_z]."),
    ("model.brunt_vaisala=-1", "is -1, but it must be a number >= 0."),
    ("grid.lengths=[1,1,0]", "is [1, 1, 0], but it must be three numbers > 0 as [Lz, Ly, Lx]."),
    ("grid.lengths=6.28", "is 6.28, but it must be three numbers > 0 as [Lz, Ly, Lx]."),
    (
        "grid.lengths=[2,1e30,1]",
        "is [2, 1e+30, 1], but it must be lengths that differ less from each other, because spectra would have "
        "1.26e+31 shells as wide as the smallest wavenumber, and may have at most 1000000.",
    ),
    ("grid.decomposition=blocks", 'is "blocks", but it must be "slabs" or "pencils".'),
    ("grid.process_grid=[1,2,2]", 'is [1, 2, 2], but it must be "auto" or two integers >= 1 as [P_r, P_c].'),
    (
        "grid.process_grid=[2,2]",
        'is [2, 2], but it must be [1, P_c] with grid.decomposition = "slabs" ("pencils" allows any [P_r, P_c]).',
    ),
    (
        "model.viscosity=0",
        "is 0, but it must be a number > 0, or 0 with model.inviscid = true or model.hyperviscosity > 0.",
    ),
    (
        "model.viscosity=-1",
        "is -1, but it must be a number > 0, or 0 with model.inviscid = true or model.hyperviscosity > 0.",
    ),
    ("model.scheme=euler", 'is "euler", but it must be "rk2" or "rk4".'),
    ("model.dealias=half", 'is "half", but it must be "phase-shift", "two-thirds" or "none".'),
    ("model.courant=1", "is 1, but it must be a number > 0 and < 1, or model.dt instead."),
    ("model.courant=1.5", "is 1.5, but it must be a number > 0 and < 1, or model.dt instead."),
    ("model.courant=0", "is 0, but it must be a number > 0 and < 1, or model.dt instead."),
    ("model.dt=0", "is 0, but it must be a number > 0, or model.courant instead."),
    ("model.transpose_variables=5", 'is 5, but it must be "auto" or an integer >= 1 and <= 4.'),
    (
        "initial.kind=noise",
        'is "noise", but it must be "taylor_green", "taylor_green_2d", "abc", "spectrum" or "file".',
    ),
    ("initial.waves=0", "is 0, but it must be an integer >= 1."),
    ("initial.energy=0", "is 0, but it must be a number > 0."),
    ("initial.slope=0", "is 0, but it must be a number < 0."),
    ("initial.station=50", "is 50, but it must be 42, 98 or 171."),
    (
        "forcing.kind=white",
        'is "white", but it must be "none", "eswaran-pope", "frozen", "linear" or "formula".',
    ),
    ("forcing.amplitude=0", "is 0, but it must be a number > 0."),
    ("scalar.0.schmidt=0", "is 0, but it must be a number > 0."),
    ("scalar.0.variance=-1", "is -1, but it must be a number >= 0."),
    ("output.series_every=-1", "is -1, but it must be an integer >= 0."),
    ('output.spectra=""', 'is "", but it must be a path.'),
    ("run.device=gpu", 'is "gpu", but it must be "cpu" or "cuda".'),
]


def test_wrong_value_names_key_value_and_rule(tmp_path: Path) -> None:
    for override, expected in WRONG:
        key = override.split("=")[0]
        assert message(tmp_path, override) == f"--set: {key} {expected}", override


def test_exactly_one_of_dt_and_courant(tmp_path: Path) -> None:
    need = "but it must be set if model.dt is left out, and left out if model.dt is set."
    assert message(tmp_path, "model.dt=0.1") == f"case.toml:8: model.courant is 0.5, {need}"
    told = message(tmp_path, text=GOOD.replace("courant = 0.5\n", ""))
    assert told == f"case.toml:6: model.courant is not set, {need}"


def test_misspelt_courant_is_not_missing_as_well(tmp_path: Path) -> None:
    told = message(tmp_path, text=GOOD.replace("courant", "courent"))
    assert told.startswith("case.toml:8: unknown key 'courent' in [model].")
    assert told.count("\n") == 0


def test_zero_viscosity_must_be_meant(tmp_path: Path) -> None:
    plain = GOOD.split("[[scalar]]")[0]
    path = tmp_path / "case.toml"
    path.write_text(plain)
    inviscid = load_case(path, case_class, ["model.viscosity=0", "model.inviscid=true"]).case
    assert inviscid.flatten()["model.viscosity"] == 0.0
    told = message(tmp_path, "model.inviscid=true", text=plain)
    assert told == "case.toml:7: model.viscosity is 0.01, but it must be 0 with model.inviscid = true."
    told = message(tmp_path, "model.inviscid=true", "model.viscosity=0")
    assert told.startswith("--set: model.inviscid is true, but it must be false with [[scalar]]")


def test_forcing_says_what_it_needs(tmp_path: Path) -> None:
    table = {
        "eswaran-pope": ["forcing.amplitude", "forcing.correlation_time"],
        "linear": ["forcing.coefficient"],
    }
    for kind, needed in table.items():
        lines = message(tmp_path, f"forcing.kind={kind}").splitlines()
        assert lines == [
            f'case.toml: {key} is not set, but it must be a number > 0 with forcing.kind = "{kind}".'
            for key in needed
        ], f"{kind=}"


def test_file_needs_a_path(tmp_path: Path) -> None:
    told = message(tmp_path, "initial.kind=file")
    assert (
        told == 'case.toml: initial.path is "" by default, but it must be a path with initial.kind = "file".'
    )


def test_output_variables_exist(tmp_path: Path) -> None:
    for names, rule in [
        (["speed"], "a list of velocity_x,"),
        (["pressure", "pressure"], "a list of velocity_x,"),
        (["scalar_00"], "a list of velocity_x,"),
        (["scalar_1"], "a list without scalars that do not exist (the case has 1 [[scalar]])"),
    ]:
        told = message(tmp_path, f"output.variables={names}".replace("'", '"'))
        assert told.startswith("--set: output.variables is ["), f"{names=}"
        assert f", but it must be {rule}" in told, f"{names=}"
    assert case(output={"variables": ["dissipation"]}).output.variables == ("dissipation",)
    with pytest.raises(ValueError, match=r"the case has no \[\[scalar\]\]"):
        case(output={"variables": ["scalar_0"]})


# Another value for every key of a case with one scalar.
CHANGES: dict[str, Any] = {
    "run.end_time": 3.0,
    "checkpoint.at_end": False,
    "checkpoint.every_time": 2.0,
    "checkpoint.every_wall": 60.0,
    "output.align": False,
    "output.every_time": 2.0,
    "output.every_wall": 60.0,
    "output.series_every_time": 2.0,
    "output.series_every_wall": 60.0,
    "output.spectra_every_time": 2.0,
    "output.spectra_every_wall": 60.0,
    "particles.every_time": 2.0,
    "particles.every_wall": 60.0,
    "run.steps": 11,
    "run.precision": "float32",
    "run.seed": 7,
    "run.threads": 2,
    "run.walltime": 60,
    "run.check_every": 1,
    "run.check_memory": False,
    "grid.shape": [16, 16, 18],
    "grid.lengths": [1, 1, 1],
    "grid.decomposition": "pencils",
    "grid.process_grid": [1, 2],
    "model.viscosity": 0.02,
    "model.hyperviscosity": 1e-6,
    "model.hyperviscosity_order": 3,
    "model.drag": 0.1,
    "model.drag_radius": 2.0,
    "model.scheme": "rk4",
    "model.dealias": "none",
    "model.rotation": [0.0, 0.0, 1.0],
    "model.dt": 0.2,
    "model.transpose_variables": 2,
    "model.transpose": {"method": "node"},
    "model.fft": {"effort": "patient"},
    "initial.kind": "abc",
    "initial.velocity": 2.0,
    "initial.waves": 2,
    "initial.A": 2.0,
    "initial.B": 2.0,
    "initial.C": 2.0,
    "initial.spectrum": "von-karman-pao",
    "initial.energy": 1.0,
    "initial.peak_wavenumber": 3.0,
    "initial.low_slope": 2.0,
    "initial.slope": -2.0,
    "initial.kolmogorov_length": 0.1,
    "initial.station": 98,
    "initial.length_cm": 1.0,
    "initial.path": "a",
    "initial.step": 3,
    "forcing.kind": "frozen",
    "forcing.amplitude": 1.0,
    "forcing.correlation_time": 1.0,
    "forcing.shell_radius": 2.0,
    "forcing.coefficient": 1.0,
    "forcing.inner_radius": 1.0,
    "forcing.formula": ["sin(y)", 0, 0],
    "particles.count": 4,
    "particles.placement": "lattice",
    "particles.separation": 0.1,
    "particles.seed": 5,
    "particles.interpolation": "trilinear",
    "particles.sample": ["gradient"],
    "particles.every": 2,
    "particles.path": "q.bp",
    "output.path": "x.bp",
    "output.every": 1,
    "output.initial": True,
    "output.variables": ["pressure"],
    "output.compression": "blosc",
    "output.viewer": "pvd",
    "output.format": "zarr",
    "output.series": "x.csv",
    "output.series_every": 1,
    "output.spectra": "y.bp",
    "output.spectra_every": 1,
    "checkpoint.path": "x",
    "checkpoint.every": 1,
    "checkpoint.keep": 1,
    "checkpoint.ranks_per_file": 1,
    "checkpoint.writers_at_once": 1,
}
OTHER_FLOW = {
    "run.precision",
    "run.seed",
    "grid.shape",
    "grid.lengths",
    "model.dealias",
    "model.viscosity",
    "model.rotation",
    "model.hyperviscosity",
    "model.hyperviscosity_order",
    "model.drag",
    "model.drag_radius",
    "particles.count",
}
# Of one value, or with others.
UNTESTED = {
    "run.model",
    "run.device",
    "model.inviscid",
    "model.courant",
    "model.brunt_vaisala",
    "output.average_from",
    "output.part",
    "callback",
    "recorder",
}


def test_only_flow_and_modes_must_be_the_same_to_go_on() -> None:
    for key in CHANGES:
        section, name = key.split(".")
        changed = case(**{section: {name: CHANGES[key]}})
        assert changed.flatten() != case().flatten(), f"{key=}"
        matters = key in OTHER_FLOW or (section in ("initial", "forcing") and name != "path")
        assert (changed.identity() != case().identity()) == matters, f"{key=}"


def test_where_there_are_particles_all_but_their_output_must_be_the_same() -> None:
    some = {"count": 8, "separation": 0.2}
    for key in (key for key in CHANGES if key.startswith("particles.")):
        changed = case(particles={**some, key.split(".")[1]: CHANGES[key]})
        matters = key.split(".")[1] not in ("sample", "every", "every_time", "every_wall", "path")
        assert (changed.identity() != case(particles=some).identity()) == matters, f"{key=}"


def test_particles_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for overrides, rule in [
        (["particles.count=5", "particles.placement=pairs"], "a multiple of 2 with"),
        (["particles.count=6", "particles.placement=tetrads"], "a multiple of 4 with"),
        (["particles.count=9", "particles.placement=lattice"], "the cube of an integer with"),
        (["particles.count=8", "particles.placement=pairs"], "a number > 0 with particles.placement"),
        (["particles.sample=['gradient', 'gradient']"], "a list that contains each name at most once"),
        (["particles.sample=['charm']"], "a list of gradient, acceleration"),
    ]:
        assert f"must be {rule}" in message(tmp_path, *overrides), f"{overrides=}"


def test_particles_sample_scalars_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"a list without scalars, because the case has no \[\[scalar\]\]"):
        case(particles={"sample": ["scalars"]})


def test_the_data_set_of_particles_is_no_other_output() -> None:
    with pytest.raises(ValueError, match=r"a path that differs from"):
        case(particles={"count": 4, "every": 1, "path": "turbulence.bp"})


def test_every_setting_is_in_the_table_of_changes() -> None:
    keys = {".".join(key.split(".")[:2]) for key in case().flatten() if key != "scalar"}
    assert set(CHANGES) | UNTESTED == keys


def test_scalars_are_part_of_the_flow() -> None:
    one = TurbulenceCase.model_validate({**SMALLEST, "scalar": [{"schmidt": 1.0}]})
    for scalars in ([], [{"schmidt": 2.0}], [{"schmidt": 1.0}, {"schmidt": 1.0}]):
        other = TurbulenceCase.model_validate({**SMALLEST, "scalar": scalars})
        assert other.identity() != one.identity(), f"{scalars=}"


STRATIFIED = ["model.brunt_vaisala=2"]
ROTATING = ["model.rotation=[0,0,1]"]


IMPOSSIBLE_WAVES = [
    (
        [*STRATIFIED, *ROTATING, "scalar.0.schmidt=1", "model.drag=0.1"],
        "--set: model.drag is 0.1, but it must be 0 with both model.rotation and model.brunt_vaisala, because the "
        "integrating factor requires velocity and scalar to decay equally.",
    ),
    (
        [*STRATIFIED, "scalar.0.mean_gradient=[0,0,1]"],
        "--set: scalar.0.mean_gradient is [0, 0, 1], but it must be [0, 0, 0] with model.brunt_vaisala, which is the "
        "mean gradient of the first scalar.",
    ),
    (
        [*STRATIFIED, *ROTATING],
        "case.toml:10: scalar.0.schmidt is 0.7, but it must be 1 with both model.rotation and model.brunt_vaisala, "
        "because the integrating factor requires velocity and scalar to decay equally.",
    ),
    (
        [
            *STRATIFIED,
            *ROTATING,
            "scalar.0.schmidt=1",
            "forcing.kind=linear",
            "forcing.coefficient=1",
        ],
        '--set: forcing.kind is "linear", but it must be a kind other than "linear" with both model.rotation and '
        "model.brunt_vaisala.",
    ),
    (
        [*ROTATING, 'particles.sample=["acceleration"]', "particles.count=8"],
        '--set: particles.sample is ["acceleration"], but it must be a list without acceleration with model.rotation '
        "or model.brunt_vaisala, because their terms would be missing from it.",
    ),
]


def test_waves_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for overrides, expected in IMPOSSIBLE_WAVES:
        assert message(tmp_path, *overrides) == expected, f"{overrides=}"


def test_stratification_needs_a_scalar(tmp_path: Path) -> None:
    told = message(tmp_path, *STRATIFIED, text=GOOD.split("[[scalar]]")[0])
    assert told == (
        "--set: model.brunt_vaisala is 2, but it must be 0 without [[scalar]], because the first scalar is the "
        "buoyancy divided by model.brunt_vaisala."
    )


def test_waves_are_part_of_the_flow_and_a_case_without_them_is_as_before() -> None:
    def stratified(**model: Any) -> TurbulenceCase:
        return TurbulenceCase.model_validate(
            {**SMALLEST, "model": {**SMALLEST["model"], **model}, "scalar": [{"schmidt": 2.0}]}
        )

    assert stratified(brunt_vaisala=1.0).identity() != stratified().identity()
    assert not {"model.rotation", "model.brunt_vaisala"} & set(case().identity())
    averaged = case(output={"spectra_every": 2, "average_from": 4})
    assert averaged.identity() == case().identity()


def test_a_start_that_the_run_would_clear_is_refused(tmp_path: Path) -> None:
    for path, key in [
        ("checkpoints", "checkpoint.path"),
        ("./checkpoints/checkpoint_00000100", "checkpoint.path"),
        ("turbulence.bp", "output.path"),
    ]:
        overrides = ("initial.kind=file", f"initial.path={path}", "checkpoint.every=10")
        text = message(tmp_path, *overrides)
        assert key in text, f"{path=}"
        assert (
            "a path that does not contain initial.path, because a new run moves existing outputs away" in text
        ), f"{path=}"
        if key == "checkpoint.path":  # nothing is moved there by a run that saves nothing of itself
            assert case(initial={"kind": "file", "path": path}).checkpoint.every == 0, f"{path=}"


def test_a_start_beside_what_the_run_writes_is_fine() -> None:
    for path in ("../checkpoints/checkpoint_00000100", "checkpoints_of_128", "old.bp"):
        assert case(initial={"kind": "file", "path": path}).initial.path == path, f"{path=}"


def test_gpus_refuse_what_they_have_no_kernels_for(tmp_path: Path) -> None:
    words = 'is "cuda", but it must be "cpu" with particles.count > 0, because there are no GPU kernels'
    assert words in message(tmp_path, 'run.device="cuda"', "particles.count=10")


def test_gpus_take_flows_with_forcing() -> None:
    settings = {"kind": "eswaran-pope", "amplitude": 0.1, "correlation_time": 1.0}
    found = case(run={"device": "cuda"}, forcing=settings)
    assert found.run.device == "cuda"


def test_gpus_take_flows_with_waves() -> None:
    found = case(run={"device": "cuda"}, model={"rotation": (0, 0, 1)})
    assert (found.run.device, found.waves.n_coupled) == ("cuda", 3)
