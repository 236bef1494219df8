"""The table "The same answer" of docs/restart.md, for each model: what may change between runs, and by how much.

Each run is compared with one of one rank and one thread, at its last step. Distances are of the largest value of a
field; 0 means the same bits.
"""

import numpy as np
import pytest

import ridgeline as package
from attack_cases import CASES

TIMEOUT = 300
GRIDS = {  # of two ranks, other than the one that "auto" takes
    "gray_scott": ("grid.process_grid=[1, 1, 2]",),
    "molecular_dynamics": ("grid.process_grid=[2, 1, 1]",),
    "n_body": ("grid.process_grid=[2, 1]", "grid.decomposition=pencils"),
    "reaction_diffusion": ("grid.process_grid=[1, 1, 2]",),
    "turbulence": ("grid.process_grid=[2, 1]", "grid.decomposition=pencils"),
}
# Ranks, settings and environment, by what differs from the first run.
VARIANTS: dict[str, tuple[int, tuple[str, ...], dict[str, str]]] = {
    "nothing": (1, (), {}),
    "threads": (1, ("run.threads=2",), {}),
    "ranks": (3, (), {}),
    "process grid": (2, (), {}),  # and GRIDS
    "vector width": (1, (), {"RIDGELINE_VECTOR_BYTES": "16"}),
    "FFT library": (1, (), {"RIDGELINE_FFT": "scipy"}),
    "checkpoints": (1, ("checkpoint.every=0",), {}),
    "outputs": (1, ("output.every=60", "output.series_every=60"), {}),
}
# What the table calls rounding. A difference of rounding grows: after 60 steps the largest found was 8e-16 of
# turbulence, 6e-13 of N-body, and 2e-11 of Navier-Stokes, whose solves end at their tolerances.
ALLOWED = {
    "gray_scott": {},
    "molecular_dynamics": {},
    "n_body": dict.fromkeys(("ranks", "process grid", "FFT library"), 1e-10),
    "navier_stokes": dict.fromkeys(("ranks", "vector width"), 1e-9),
    "reaction_diffusion": {},
    "turbulence": dict.fromkeys(("ranks", "process grid", "FFT library", "checkpoints"), 1e-13),
}
WITHOUT = {("navier_stokes", "threads"), ("navier_stokes", "process grid")}  # settings that the model has not


def last_fields(ridgeline, case, name):
    """Run the case as a variant, and return its fields at the last step."""
    ranks, settings, environment = VARIANTS[name]
    words = settings + (GRIDS[case.stem] if name == "process grid" else ())
    path = f"{name.replace(' ', '_')}.bp"
    words += (f"output.path={path}", f"output.series={path}.csv", f"checkpoint.path={path}.checkpoints")
    options = [option for word in words for option in ("--set", word)]
    done = ridgeline("run", case, "-n", ranks, *options, timeout=TIMEOUT, env=environment or None)
    assert done.returncode == 0, done.stderr
    with package.open(ridgeline.path / path) as data:
        assert data.step.values[-1] == 60
        return {name: data[name].values[-1] for name in data.data_vars}


def distance_of(fields, reference):
    assert set(fields) == set(reference)
    return max(
        float(np.abs(fields[name] - reference[name]).max() / (np.abs(reference[name]).max() or 1.0))
        for name in reference
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", CASES)
def test_the_same_answer(ridgeline, model):
    case = ridgeline.path / f"{model}.toml"
    case.write_text(CASES[model][0])
    reference = last_fields(ridgeline, case, "nothing")
    found = {}
    for name in VARIANTS:
        if (model, name) not in WITHOUT:
            found[name] = distance_of(last_fields(ridgeline, case, name), reference)
    allowed = ALLOWED[model]
    assert not {name: far for name, far in found.items() if far > allowed.get(name, 0.0)}, found
