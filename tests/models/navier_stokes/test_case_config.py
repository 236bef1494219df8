"""Settings of the Navier-Stokes model: what arrives, and every inconsistency that needs no run to be found."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline.config.load import load_case
from ridgeline.elements.mesh import SIDES
from ridgeline.elements.quadrature import gauss
from ridgeline.models import case_class
from ridgeline.models.navier_stokes.initial import history, initial_scalar, initial_velocity
from ridgeline.models.navier_stokes.mesh_rules import Faces
from ridgeline.models.navier_stokes.problem_of_case import (
    dealias_points,
    mesh_of,
    problem_of,
    velocity_sides,
)
from ridgeline.models.navier_stokes.time_stepping import StepControl
from ridgeline.runtime.errors import ConfigError

TEXT = """\
[run]
model = "navier_stokes"
steps = 10
[grid]
elements = [1, 2, 3]
order = 5
lengths = [1.0, 2.0, 3.0]
periodic = [true, false, false]
[model]
viscosity = 0.1
dt = 0.01
[boundary.x_min]
kind = "inflow"
value = ["y*(2 - y)*1.5", 0, 0.0]
[boundary.x_max]
kind = "outflow"
[boundary.y_min]
kind = "wall"
[boundary.y_max]
kind = "symmetry"
[[scalar]]
diffusivity = 0.2
initial = "x*y"
source = "sin(t)"
mean_gradient = [0, 0, 2]
[scalar.boundary.x_min]
kind = "fixed"
value = "sin(y)*t"
[scalar.boundary.y_min]
kind = "flux"
value = 3
"""


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(*overrides: str, text: str = TEXT) -> Any:
    Path("case.toml").write_text(text)
    return load_case("case.toml", case_class, overrides).case


def faults(*overrides: str, text: str = TEXT) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(*overrides, text=text)
    return str(caught.value).split("\n")


def test_settings_become_a_problem() -> None:
    case = load()
    assert case.grid.points() == (5, 11, 16)
    flat = case.flatten()
    assert flat["boundary.x_min.value"] == ["y*(2 - y)*1.5", "0", "0.0"]
    assert flat["scalar.0.boundary.y_min.value"] == "3"
    problem = problem_of(case, 0.01)
    assert {name: side.kind for name, side in problem.sides.items()} == {
        "x_min": "inflow", "x_max": "outflow", "y_min": "wall", "y_max": "symmetry", "z_min": "periodic",
        "z_max": "periodic",
    }  # fmt: skip
    y = np.array([0.0, 0.5, 1.0])
    value = problem.sides["x_min"].value(0 * y, y, 0 * y, 0.0)
    assert np.allclose(value, [[0, 1.125, 1.5], [0, 0, 0], [0, 0, 0]])
    assert problem.sides["x_min"].steady
    (scalar,) = problem.scalars
    assert [scalar.sides[name].kind for name in SIDES] == [
        "fixed", "adiabatic", "flux", "adiabatic", "periodic", "periodic",
    ]  # fmt: skip
    assert not scalar.sides["x_min"].steady
    assert np.allclose(scalar.sides["x_min"].value(y, y, y, 2.0), 2 * np.sin(y))
    assert scalar.sides["y_min"].value(y, y, y, 0.0).tolist() == [3.0, 3.0, 3.0]
    assert (scalar.diffusivity, scalar.mean_gradient) == (0.2, (0.0, 0.0, 2.0))
    assert initial_scalar(case, 0, y, y, y).tolist() == (y * y).tolist()
    assert (problem.dealias_points, problem.time_order, problem.flow_rate) == (9, 3, None)
    assert problem.pressure.projection == 20


def test_numbers_of_points_for_advection() -> None:
    found = [dealias_points(load(f"model.dealias_order={value}")) for value in ("0", "none", "6", "12")]
    assert found == [9, 0, 6, 12]
    assert dealias_points(load("grid.order=6")) == 11


# Overrides, and the only line of the answer; None: one line about the last of the overrides.
INCONSISTENT = [
    (["grid.order=0"], "grid.order is 0, but it must be an integer >= 1 and <= 31."),
    (["grid.order=32"], "grid.order is 32, but it must be an integer >= 1 and <= 31."),
    (["grid.elements=[1,0,2]"],
     "grid.elements is [1, 0, 2], but it must be three integers >= 1 as [E_z, E_y, E_x]."),
    (["run.threads=2"], "run.threads is 2, but it must be 1."),
    (["run.precision=float32"], 'run.precision is "float32", but it must be "float64".'),
    (["grid.distribution=[uniform,sine,sine]", "grid.distribution_parameter=[1,1,1.6]"], None),
    (["grid.distribution=[uniform,offset-sine,uniform]", "grid.distribution_parameter=[1,1.6,1]"], None),
    (["grid.edges.x=[0,1,1,3]"],
     "grid.edges.x is [0, 1, 1, 3], but it must be a list of at least two increasing numbers."),
    (["grid.edges.y=[2]"], "grid.edges.y is [2], but it must be a list of at least two increasing numbers."),
    (["grid.edges.x=[0,1,3]"],
     "grid.elements is [1, 2, 3], but it must be 2 along x, because grid.edges.x has 3 numbers."),
    (["grid.edges.y=[0,0.5,2.5]"],
     "grid.lengths is [1.0, 2.0, 3.0], but it must be 2.5 along y, because grid.edges.y goes from 0 to 2.5."),
    (["grid.edges.z=[0.25,1.25]"],
     "grid.origin is [0.0, 0.0, 0.0] by default, but it must be 0.25 along z, because grid.edges.z starts there."),
    (["grid.edges.y=[0,0.5,2]", "grid.distribution=[uniform,sine,uniform]"],
     'grid.distribution is ["uniform", "sine", "uniform"], but it must be "uniform" along y, because grid.edges.y '
     "gives the elements."),
    (["grid.mapping=curly"],
     'grid.mapping is "curly", but it must be "none", "wavy", "annulus", "periodic-hill" or "file.py:function".'),
    (["model.dealias_order=5"],
     'model.dealias_order is 5, but it must be 0, an integer >= grid.order + 1 = 6, or "none".'),
    (["model.dt=0"], "model.dt is 0, but it must be a number > 0, or model.courant instead."),
    (["model.courant=0.5"], "model.courant is 0.5, but it must be set if model.dt is left out, and left out if "
     "model.dt is set."),
    (["model.courant=0.9"],
     "model.courant is 0.9, but it must be a number > 0 and <= 0.8, or model.dt instead."),
    (["model.dt_min=0"], "model.dt_min is 0, but it must be a number > 0."),
    (["model.dt_change=1"],
     "model.dt_change is 1, but it must be a number > 1 and <= 1.5."),
    (["model.products=fast"], 'model.products is "fast", but it must be "generated" or "plain".'),
    (["model.overlap=off"], 'model.overlap is "off", but it must be true or false.'),
    (["model.forcing.kind=flow-rate"],
     'model.forcing.bulk_velocity is not set, but it must be a number with model.forcing.kind = "flow-rate".'),
    (["model.forcing.kind=flow-rate", "model.forcing.bulk_velocity=1"],
     'model.forcing.direction is "x" by default, but it must be a periodic direction (grid.periodic).'),
    (["boundary.z_min.kind=wall"],
     'boundary.z_min.kind is "wall", but it must be "periodic" or left out, because '
     "grid.periodic[0] (direction z) is true."),
    (["boundary.y_max.kind=periodic", "scalar.0.boundary.y_max.kind=adiabatic"],
     'boundary.y_max.kind is "periodic", but it must be another kind, unless grid.periodic[1] (direction y) '
     "is true."),
    (["boundary.y_min.kind=moving-wall"],
     'boundary.y_min.value is not set, but it must be three numbers or formulas of x, y, z, t as [x, y, z], or '
     '"exact", with kind = "moving-wall".'),
    (["boundary.x_min.value=[1,0,q]"],
     'boundary.x_min.value is [1, 0, "q"], but it must be formulas of x, y, z, t. In "q", q is unknown; the '
     "known names are x, y, z, t, pi, e (character 1)."),
    (["boundary.x_min.value=exact"],
     'boundary.x_min.value is "exact", but it must be numbers or formulas unless initial.kind is an exact '
     'solution (uniform, taylor_green_2d, abc, walsh, ethier_steinman, kovasznay, duct, channel).'),
    (["scalar.0.boundary.y_min.kind=periodic"],
     'scalar.0.boundary.y_min.kind is "periodic", but it must be "fixed", "flux" or "adiabatic", because '
     'the flow is not periodic here.'),
    (["scalar.0.boundary.z_min.kind=fixed"],
     'scalar.0.boundary.z_min.kind is "fixed", but it must be "periodic" or left out, because the flow is '
     'periodic here.'),
    (["scalar.0.initial=t"],
     'scalar.0.initial is "t", but it must be formulas of x, y, z. In "t", t is unknown; the known '
     "names are x, y, z, pi, e (character 1)."),
    (["initial.kind=duct"], None),
    (["initial.kind=walsh", "initial.velocity=[x,0,0]"],
     'initial.velocity is ["x", 0, 0], but it must be three numbers as [x, y, z] with initial.kind = "walsh".'),
    (["output.variables=[pressure,scalar_1]"], None),
    (["output.variables=[velocity]"], None),
    (["output.homogeneous=[x]"],
     'output.homogeneous is ["x"], but it must be a list of periodic directions (grid.periodic).'),
    (["output.nek5000_every=5"],
     'output.nek5000 is "" by default, but it must be a prefix if an interval of Nek5000 files, such as '
     'output.nek5000_every, is set.'),
    (["boundary.x_max.kind=inflow", "boundary.x_max.value=[1.1,0,0]", "scalar.0.boundary.x_max.kind=adiabatic"],
     'boundary.x_max.value is [1.1, 0, 0], but it must be such that as much fluid enters as leaves through all '
     'sides, unless a side has kind = "outflow". At t = 0 the net outflow is 0.2.'),
    (["boundary.x_max.kind=wall", "scalar.0.boundary.x_max.kind=adiabatic"], None),
    (["boundary.y_min.kind=moving-wall", 'boundary.y_min.value=[1,0.1,0]'],
     'boundary.y_min.value is [1, 0.1, 0], but it must be parallel to the wall, unless kind = "inflow".'),
    (['boundary.x_min.value=["log(-1)",0,0]'],
     'boundary.x_min.value is ["log(-1)", 0, 0], but it must be finite everywhere on the side at t = 0.'),
    (["grid.mapping=periodic-hill", "boundary.y_min.kind=symmetry", "scalar.0.boundary.y_min.kind=adiabatic"],
     'boundary.y_min.kind is "symmetry", but it must be another kind, because a symmetry side must be flat '
     "and perpendicular to x, y or z."),
    (["grid.mapping=here.py:bend"],
     'grid.mapping = "here.py:bend": there is no file here.py here. Give a Python file and a function in it.'),
]  # fmt: skip


def test_an_inflow_through_which_nothing_flows_is_doubted() -> None:
    Path("case.toml").write_text(TEXT)
    for value, closed in (
        ('[0,0,"1.2*y*(0.41-y)"]', True),
        ("[0,0,0]", True),
        ('["t",0,0]', False),
        ('["1e-3*y",1,0]', False),
    ):
        warnings = load_case("case.toml", case_class, [f"boundary.x_min.value={value}"]).warnings
        expected = [
            "--set: boundary.x_min.value: nothing flows through this inflow, because its velocity is 0 or parallel"
        ]
        assert [text[: len(expected[0])] for text in warnings] == expected * closed, f"{value=}"


def test_a_value_of_a_wall_changes_nothing() -> None:
    case = load("boundary.y_min.value=exact", "boundary.y_min.partner=y_max", "model.dt_min=5")
    assert velocity_sides(case)["y_min"] == velocity_sides(load())["y_min"]
    assert case.boundary.periodic_pairs() == ()


def test_inconsistent_settings_are_refused() -> None:
    for overrides, expected in INCONSISTENT:
        lines = faults(*[quoted(o) for o in overrides])
        assert len(lines) == 1, f"{overrides=}"
        if expected is not None:
            line = re.sub(r"^(--set|case\.toml(:\d+)?): ", "", lines[0], count=1)
            assert line == expected, f"{overrides=}"
        else:
            key = overrides[-1].split("=")[0]
            keys = "|".join(map(re.escape, (key, "initial.direction", "boundary.x_min.value")))
            assert re.match(rf"(--set|case\.toml(:\d+)?): ({keys})", lines[0]), f"{overrides=}"


def quoted(override: str) -> str:
    """Quote the bare words in a list, as a shell user would."""
    key, _, value = override.partition("=")
    if not value.startswith("[") or '"' in value:
        return override
    items = value[1:-1].split(",")
    words = [item if item[0] in "-.0123456789" else f'"{item}"' for item in items]
    return f"{key}=[{','.join(words)}]"


def test_a_side_without_a_kind_is_named() -> None:
    told = faults(text=TEXT.replace('[boundary.y_max]\nkind = "symmetry"\n', ""))
    assert told == [
        'case.toml: boundary.y_max.kind is not set, but it must be "wall", "moving-wall", "inflow", "outflow" or '
        '"symmetry" at side y_max, unless grid.periodic[1] is true.',
        'case.toml:19: scalar.0.boundary.y_max.kind is not set, but it must be "fixed", "flux" or "adiabatic" at '
        "side y_max, where the flow is not periodic.",
    ]


def test_all_walls_need_no_pressure_level() -> None:
    text = TEXT.split("[boundary.x_min]")[0] + "".join(
        f'[boundary.{side}]\nkind = "wall"\n' for side in SIDES[:4]
    )
    assert problem_of(load(text=text), 0.1).level_is_free


def test_exact_values_balance_at_their_sides() -> None:
    text = TEXT.split("[boundary.x_min]")[0].replace("true", "false") + "".join(
        f'[boundary.{side}]\nkind = "inflow"\nvalue = "exact"\n' for side in SIDES
    )
    case = load("initial.kind=ethier_steinman", "grid.lengths=[2,2,2]", "grid.origin=[-1,-1,-1]", text=text)
    problem = problem_of(case, 0.1)
    assert not problem.sides["y_min"].steady
    x, y, z = np.random.default_rng(2).uniform(-1, 1, (3, 7))
    at = problem.sides["y_min"].value(x, y, z, 0.02)
    assert np.array_equal(at, initial_velocity(case, x, y, z, 0.02))
    before = history(case, x, y, z, 0.1, 2)
    assert np.array_equal(before[1], initial_velocity(case, x, y, z, -0.2))
    assert history(case.model_copy(update={"scalar": load().scalar}), x, y, z, 0.1, 2) == []


def test_normals_point_outwards_and_close_the_surface() -> None:
    for mapping in ("none", "wavy", "annulus"):
        overrides = [f"grid.mapping={mapping}", "grid.origin=[0.1,0.2,0.3]"]
        if mapping == "annulus":
            text = TEXT.split("[boundary.x_min]")[0].replace("[true, false, false]", "[true, false, true]")
            text += '[boundary.y_min]\nkind = "wall"\n[boundary.y_max]\nkind = "wall"\n'
        else:
            text = TEXT
        mesh = mesh_of(load(*overrides, text=text))
        # The sum of normals over a closed surface is 0, and of x . n three times its volume.
        total, volume = np.zeros(3), 0.0
        for side in SIDES:
            faces = Faces.of(mesh, side, gauss(12))
            total += faces.normal.sum(axis=(1, 2, 3))
            volume += float((faces.places * faces.normal).sum()) / 3
        assert np.abs(total).max() < 1e-10, f"{mapping=}"
        expected = {"none": 6.0, "annulus": np.pi * (2.2**2 - 0.2**2)}.get(mapping, 6.0)
        assert volume == pytest.approx(expected, rel=2e-3 if mapping == "wavy" else 1e-9), f"{mapping=}"


def test_edges_of_elements_are_taken_as_they_are_listed() -> None:
    mesh = mesh_of(load("grid.edges={x=[0, 0.1, 0.75, 3], z=[0, 1]}"))
    assert [edges.tolist() for edges in mesh.edges] == [[0, 1], [0, 1, 2], [0, 0.1, 0.75, 3]]
    case = load()
    assert not any(
        key.startswith("grid.edges") for key in case.identity()
    )  # as in checkpoints of earlier versions
    assert case.identity() != load("grid.edges.x=[0,1,2,3]").identity()


def test_a_streamfunction_needs_flow_in_planes() -> None:
    wanted = ["output.variables=[vorticity_z,streamfunction]"]
    assert load(*map(quoted, wanted)).output.variables == ("vorticity_z", "streamfunction")
    open_ends = TEXT.replace("true, false, false", "false, false, false")
    for end, kind in (("min", "wall"), ("max", "outflow")):
        open_ends += f'[boundary.z_{end}]\nkind = "{kind}"\n'
    wanted.append("scalar.0.boundary.z_min.kind=adiabatic")
    assert load(*map(quoted, wanted), text=open_ends).grid.periodic == (False,) * 3  # planes are apart
    Path("tilt.py").write_text("def tilt(x, y, z):\n    return x, y + 0.1 * z * y, z\n")
    walls = ["boundary.y_max.kind=wall", "scalar.0.boundary.y_max.kind=adiabatic", "boundary.z_max.kind=wall"]
    walls += ["scalar.0.boundary.z_max.kind=adiabatic", "grid.mapping=tilt.py:tilt"]
    (fault,) = faults(*map(quoted, wanted + walls), text=open_ends)
    assert fault == (
        '--set: output.variables is ["vorticity_z", "streamfunction"], but it must be without streamfunction, which '
        "is that of the flow in planes z = const: side y_max is neither along z nor a plane across z."
    )
    Path("bend.py").write_text(
        "import numpy as np\n\n\ndef bend(x, y, z):\n    return x, y, z + 0.02 * np.sin(np.pi * z) * x\n"
    )
    (fault,) = faults(*map(quoted, wanted), "grid.mapping=bend.py:bend", text=open_ends)
    assert "the points of element (z=0, y=0, x=0) do not lie in such planes" in fault


def test_a_mapping_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "bend.py").write_text("def bend(x, y, z):\n    return x, y + 0.1 * x * x, z\nnothing = 3\n")
    mesh = mesh_of(
        load(
            "grid.mapping=bend.py:bend", "boundary.y_max.kind=wall", "scalar.0.boundary.y_max.kind=adiabatic"
        )
    )
    assert mesh.places(np.array([[0, 0, 2]]), np.array([-1.0, 1.0]))[1, 0, 0, 0].tolist() == pytest.approx(
        [0.4, 0.9]
    )
    assert "bend.py has no function nothing. Define it." in faults("grid.mapping=bend.py:nothing")[0]
    (tmp_path / "broken.py").write_text("1/0\n")
    words = "running broken.py failed (ZeroDivisionError: division by zero). Correct that file."
    assert words in faults("grid.mapping=broken.py:f")[0]
    (tmp_path / "flat.py").write_text(
        "def flat(x, y, z):\n    return x, y\ndef end(*xyz):\n    raise SystemExit\n"
    )
    assert 'grid.mapping = "flat.py:flat": mapping ' in faults("grid.mapping=flat.py:flat")[0]
    assert "flat.py:4: grid.mapping" in faults("grid.mapping=flat.py:end")[0]
    assert "failed (SystemExit)" in faults("grid.mapping=flat.py:end")[0]


LINE = "[[probe]]\nplace = [1, 1, 0]\nto = [2, 1, 0]\n"
PROBE = "[[probe]]\nplace = [1, 1, 0]\n"


CONTRADICTIONS = [
    (LINE, "probe.0.points", 'must be an integer >= 2 if "to" is set, and 1 otherwise'),
    ("[[probe]]\nplace = [1, 1]\n", "probe.0.place", "must be three numbers as [x, y, z]"),
    (
        '[output.forces]\nsides = ["z_min"]\n',
        "output.forces.sides",
        "must be a list of sides that are not periodic, which are x_min,",
    ),
    (
        '[output.forces]\nsides = ["y_min", "y_min"]\n',
        "output.forces.sides",
        "contains each side at most once",
    ),
    (
        "[output.forces]\nreference_area = 1.0\n",
        "output.forces.reference_area",
        "must be set if reference_velocity is set",
    ),
    (
        PROBE + '[output.probes]\npath = "series.csv"\n',
        "output.probes.path",
        "must be a path that differs from",
    ),
]


def test_probes_and_forces_that_contradict_themselves() -> None:
    for more, key, rule in CONTRADICTIONS:
        found = faults(text=TEXT + more)
        assert any(f": {key} " in line and rule in line for line in found), found


def test_paths_of_probes_and_forces_are_written_where_there_are_some() -> None:
    keys = {"output.probes.path", "output.forces.path"}
    assert not keys & load().written().keys()
    text = f'{TEXT}{PROBE}[output.forces]\nsides = ["y_min"]\n'
    assert keys <= load(text=text).written().keys()
    assert not keys & load("output.probes.every=0", "output.forces.every=0", text=text).written().keys()


def test_steps_by_the_courant_number() -> None:
    text = TEXT.replace("dt = 0.01", "courant = 0.4")
    case = load("model.dt_max=0.2", "model.dt_change=1.1", text=text)
    problem = problem_of(case, np.nan)
    assert problem.control == StepControl(0.4, 0.0, 0.2, 1.1)
    assert problem_of(load(), 0.01).control is None
    (fault,) = faults("model.dt_max=0.2", "model.dt_min=0.3", text=text)
    assert fault.endswith("--set: model.dt_max is 0.2, but it must be a number >= model.dt_min = 0.3.")
    (fault,) = faults(text=TEXT.replace("dt = 0.01", ""))
    assert "model.courant" in fault
    assert fault.endswith(
        "not set, but it must be set if model.dt is left out, and left out if model.dt is set."
    )
    # Another length of steps is the same flow, as with dt: checkpoints of the one go on with the other.
    assert case.identity() == load().identity()


def test_formulas_are_looked_at_as_far_as_steps_by_the_courant_number_surely_reach() -> None:
    text = TEXT.replace("dt = 0.01", "courant = 0.4").replace("sin(y)*t", "1/(0.05 - t)")
    load(text=text)
    load("model.dt_min=0.001", text=text)
    (fault,) = faults("model.dt_min=0.01", text=text)
    assert "finite everywhere on the mesh" in fault
