"""What the report of a Navier-Stokes run shows first."""

from ridgeline.models.contract import Figure
from ridgeline.models.navier_stokes.diagnostics import summarise


def test_a_duct_shows_its_flow_friction_and_heat():
    row = {
        "kinetic_energy": 0.6, "mean_velocity_x": 1.0, "bulk_velocity": 1.0, "scalar_0_mean": 2.0,
        "scalar_0_flux": 3.0, "scalar_10_nusselt": 3.6, "courant": 0.3, "force_x": 0.1, "wall_shear": 0.2,
        "f_re": 56.9, "iterations_pressure": 9.0,
    }  # fmt: skip
    assert summarise(row) == {
        "kinetic_energy": Figure(0.6, "length^2/time^2"),
        "bulk_velocity": Figure(1.0, "length/time"),
        "f_re": Figure(56.9),
        "courant": Figure(0.3),
        "scalar_0_mean": Figure(2.0, "scalar"),
        "scalar_10_nusselt": Figure(3.6),
    }
