"""Find the Rayleigh number at which convection begins, from growth rates 0.5 % below and above the exact one.

    python examples/rayleigh_benard/onset.py

Weak rolls of the critical wavelength decay below and grow above. The rate is taken from the kinetic energy, once all
other modes have died out, and its zero by a straight line. Sources: Chandrasekhar, Hydrodynamic and Hydromagnetic
Stability, Oxford 1961, Chapter II: 1707.762 at the wavenumber 3.117 between plates; Rayleigh, Phil. Mag. 32 (1916)
529: 27 pi^4/4 at pi/sqrt(2) between sides without shear.
"""

import math
import tempfile
from pathlib import Path

import ridgeline

SETTINGS = Path(__file__).with_name("settings.toml")
PRANDTL = 0.71
STEP = 0.003  # in diffusion times of the height
STEPS = 150  # until the rolls are alone, and then for the rate
EXACT = {
    "plates": ("wall", 3.117, 1707.762),
    "sides without shear": ("symmetry", math.pi / math.sqrt(2), 27 * math.pi**4 / 4),
}


def growth_rate(kind: str, wavenumber: float, rayleigh: float) -> float:
    """Return the growth rate of weak rolls, in diffusion times of the height."""
    fall = math.sqrt(rayleigh * PRANDTL)  # a diffusion time in times of free fall
    changes = {
        "run.steps": 2 * STEPS,
        "grid.elements": [1, 1, 2],
        "grid.order": 9,
        "grid.lengths": [0.5, 1.0, 2 * math.pi / wavenumber],
        "model.viscosity": PRANDTL / fall,
        "model.dt": STEP * fall,
        "boundary.y_min.kind": kind,
        "boundary.y_max.kind": kind,
        "scalar.0.diffusivity": 1 / fall,
        "scalar.0.initial": f"1 - y + 1e-4*sin(pi*y)*cos({wavenumber!r}*x)",
        "output.every": 0,
        "output.series_every": 0,
        "checkpoint.every": 0,
    }
    energies = []
    with tempfile.TemporaryDirectory() as folder:  # for the report of the run
        case = ridgeline.Case.read(SETTINGS, changes | {"output.path": f"{folder}/onset.bp"})
        with ridgeline.Simulation(case, progress=False) as simulation:
            for _ in range(2):
                simulation.advance(STEPS)
                energies.append(simulation.diagnostics()["kinetic_energy"])
    return math.log(energies[1] / energies[0]) / (2 * STEPS * STEP)


for between, (kind, wavenumber, exact) in EXACT.items():
    numbers = (0.995 * exact, 1.005 * exact)
    low, high = (growth_rate(kind, wavenumber, number) for number in numbers)
    found = numbers[0] + (numbers[1] - numbers[0]) * low / (low - high)
    print(f"growth rates {low:+.6f} and {high:+.6f} between {between}")
    print(f"onset at Ra = {found:.4f}   exact {exact:.4f}   relative error {abs(found / exact - 1):.1e}")
