"""What the report of a Navier-Stokes run shows first."""

import pytest

import ridgeline
from ridgeline.io.series import read_series
from ridgeline.models.contract import Metric
from ridgeline.models.navier_stokes.diagnostics import summarise
from ridgeline.simulation import report


def test_a_duct_shows_its_flow_friction_and_heat():
    row = {
        "kinetic_energy": 0.6, "mean_velocity_x": 1.0, "bulk_velocity": 1.0, "scalar_0_mean": 2.0,
        "scalar_0_flux": 3.0, "scalar_10_nusselt": 3.6, "courant": 0.3, "force_x": 0.1, "wall_shear": 0.2,
        "f_re": 56.9, "re_tau": 180.0, "iterations_pressure": 9.0,
    }  # fmt: skip
    found = {
        "kinetic_energy": Metric(0.6, "length^2/time^2"),
        "bulk_velocity": Metric(1.0, "length/time"),
        "courant": Metric(0.3),
        "scalar_0_mean": Metric(2.0, "scalar"),
        "scalar_10_nusselt": Metric(3.6),
    }
    assert summarise(row, between_walls=False) == found
    assert summarise(row, between_walls=True) == found | {"re_tau": Metric(180.0), "f_re": Metric(56.9)}


@pytest.mark.parametrize("recorded", [False, True])
def test_a_cavity_shows_the_forces_on_its_walls_and_no_friction(tmp_path, monkeypatch, recorded):
    """Those that output.forces records, else those on all walls: the numbers of a row of that file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})
    walls = ("x_min", "x_max", "y_min", "y_max")
    forces = {"sides": ["y_max"], "reference_velocity": 2.0, "reference_area": 0.5} if recorded else {}
    case = ridgeline.Case(
        "navier_stokes",
        2,
        grid={"elements": (1, 2, 2), "order": 3, "periodic": [True, False, False]},
        parameters={"viscosity": 0.05, "dt": 0.01},
        boundary={side: {"kind": "wall"} for side in walls[:3]}
        | {"y_max": {"kind": "moving-wall", "value": ["1", "0", "0"]}},
        output={"forces": forces},
    )
    with ridgeline.Simulation(case, progress=False) as simulation:
        found = simulation.run()["summary"]
    assert not {"re_tau", "friction_factor", "f_re"} & found.keys()
    shown = {
        f"{side}_force_{what}"
        for side in (walls[3:] if recorded else walls)
        for what in ("x", "y", "z", "difference")
    }
    assert {name for name in found if "_force_" in name} == shown
    assert found["y_max_force_x"]["unit"] == "length^4/time^2"
    assert found["y_max_force_x"]["value"] < 0  # against the motion of the lid
    if recorded:
        rows = read_series("forces.csv")
        assert found["y_max_force_x"]["value"] == rows["y_max_force_x"][-1]
        assert found["y_max_coefficient_x"] == {"value": rows["y_max_coefficient_x"][-1], "unit": ""}
