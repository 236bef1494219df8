"""One short run of every GPU path, in numba-cuda's simulator: `make test` shows whether each of them can begin.

What these paths compute is compared in detail by the tests of `make test-gpu`.
"""

from simulator import simulate

simulate()

import numpy as np
import pytest

import ridgeline
from bench_tools import measure
from ridgeline.simulation import report

RANKS = (2,)
QUICK_RANKS = (2,)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}

pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered")

SLABS = {"viscosity": 0.05, "dt": 0.02, "dealias": "two-thirds", "fft": {"effort": "estimate"}}
FUSED = SLABS | {"fft": {"effort": "estimate", "on_gpus": "fused"}}
PENCILS = {"decomposition": "pencils", "process_grid": (2, 1)}
BOX = {"elements": (1, 1, 2), "order": 2, "periodic": (True, True, True)}
FLOW = {"viscosity": 0.1, "dt": 0.05, "dealias_order": "none", "pressure": {"tolerance": 0.1}}
RUNS = {
    "Gray-Scott, one step a launch": ("gray_scott", 2, {"shape": (4, 3, 2)}, {"steps_per_sweep": 1}),
    "Gray-Scott, two steps a launch": ("gray_scott", 3, {"shape": (4, 3, 2)}, {"steps_per_sweep": 2}),
    "turbulence, slabs": ("turbulence", 1, {"shape": (6, 4, 4)}, SLABS),
    "turbulence, pencils": ("turbulence", 1, {"shape": (4, 4, 6), **PENCILS}, SLABS),
    "turbulence, fused passes": ("turbulence", 1, {"shape": (8, 4, 8)}, FUSED),
    "Navier-Stokes": ("navier_stokes", 1, BOX, FLOW),
}
STARTS = {
    "gray_scott": {"half_width": 1},
    "turbulence": {"kind": "taylor_green"},
    "navier_stokes": {"kind": "walsh"},
}


def state_after(model, steps, **settings) -> dict[str, np.ndarray]:
    """Return copies of what this rank holds after some steps of a case, one field of which was set before them."""
    case = ridgeline.Case(model, steps, initial=STARTS[model], **settings)
    name = "U" if model == "gray_scott" else "velocity_x"
    with ridgeline.Simulation(case, progress=False) as simulation:
        simulation.set_fields({name: 0.9 * simulation.fields(name)[name]})
        simulation.advance(steps)
        return {name: part.copy() for name, part in simulation.state().items()}


@pytest.mark.parametrize("name", RUNS)
def test_a_run(comm, folder, monkeypatch, name) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})
    model, steps, grid, parameters = RUNS[name]
    found = state_after(model, steps, grid=grid, parameters=parameters, run={"device": "cuda"})
    assert all(np.isfinite(values).all() for values in found.values())
    if model == "navier_stokes":
        return  # kernels of the CPU for this order, which no other quick test needs, take long to compile
    expected = state_after(model, steps, grid=grid, parameters=parameters)
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=0, atol=1e-12, err_msg=key)


BENCHMARKS = {
    "nekbone": {"points": (2,), "elements": 2, "iterations": 1, "device": "cuda"},
    "hpl": {"n": "8", "nb": "4", "dgemm": False, "device": "cuda"},
    "hpl-mxp": {"n": "8", "nb": "4", "device": "cuda"},
    "transpose": {"shape": (8, 4, 6), "batches": (1,), "cycles": 1, "device": "cuda"},
    "latency": {"sizes": (8, 8), "iterations": 1, "warm_up": 0},
    "bandwidth": {"sizes": (8, 8), "iterations": 1, "warm_up": 0, "window": 2},
    "allreduce": {"sizes": (8, 8), "iterations": 1, "warm_up": 0},
    "alltoall": {"sizes": (8, 8), "iterations": 1, "warm_up": 0},
    "one-sided": {"sizes": (8, 8), "iterations": 1, "warm_up": 0, "window": 2},
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark(comm, name) -> None:
    result = measure(name, comm, memory="cuda-staged", **BENCHMARKS[name])
    assert result.rows
