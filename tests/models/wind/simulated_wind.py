"""Wind on a GPU in numba-cuda's simulator, against the CPU's engine; test_wind_cuda.py runs this file."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.cartesian import decompose
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.models import create
from ridgeline.models.contract import Context
from ridgeline.models.wind.device.engine_cuda import CudaEngine
from ridgeline.models.wind.engine_cpu import CpuEngine
from ridgeline.models.wind.problem import PLM, UNLIMITED, FlowSide, SideField
from ridgeline.models.wind.settings import WindCase
from simulator import ON_GPU
from wind_flows import BOX, NO_FLUX, start_of

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"

SMALL = replace(BOX, shape=(6, 7, 9))
CHANNEL = {
    "z_min": FlowSide.wall(0, (SideField(False, 0.05), SideField(True, 0.5)), (0.5, 0.1, 0.0)),
    "z_max": FlowSide.slip(0, (NO_FLUX, NO_FLUX)),
    "x_min": FlowSide.wall(2, (NO_FLUX, NO_FLUX)),
    "x_max": FlowSide.wall(2, (SideField(True, 1.0), NO_FLUX), (0.0, 0.0, 0.3)),
}
FLOWS = {
    "periodic": SMALL,
    "walls": replace(SMALL, sides=CHANNEL, reconstruction=PLM),
    "lines": replace(SMALL, godunov=False, reconstruction=UNLIMITED, scalars=(), diffusivities=()),
}


def advanced(engine, problem, dt=0.02):
    engine.compile()
    for q, start in zip(engine.fields, start_of(problem)):
        q.owned[...] = start
    engine.start()
    engine.guess_pressure(dt)
    engine.advance(dt)
    return engine


@pytest.mark.parametrize("name", FLOWS)
def test_a_step_is_that_of_the_cpu(name) -> None:
    problem = FLOWS[name]
    cartesian, block = decompose(MPI.COMM_SELF, problem.shape, (1, 1, 1), problem.periodic, 3)
    context = Context(MPI.COMM_SELF)
    host = advanced(CpuEngine(problem, cartesian, block, context, None, 1e-3), problem)
    device = advanced(CudaEngine(problem, cartesian, block, context, None, 1e-3, device_cells=1), problem)
    for number, (found, expected) in enumerate(zip(device.fields, host.fields)):
        scale = abs(expected.owned).max()
        np.testing.assert_allclose(
            found.owned, expected.owned, rtol=0, atol=1e-11 * scale, err_msg=problem.names[number]
        )
    p = device.pressure.owned - device.pressure.owned.mean()
    expected = host.pressure.owned - host.pressure.owned.mean()
    np.testing.assert_allclose(p, expected, rtol=0, atol=1e-10 * abs(expected).max())
    assert device.speeds() == pytest.approx(host.speeds(), rel=1e-12)
    assert device.largest_divergence() == pytest.approx(host.largest_divergence(), rel=1e-6)


LAYER = {
    "grid": {"shape": (6, 7, 9), "lengths": (600.0, 700.0, 900.0)},
    "model": {"dt": 2.0, "viscosity": 0.1, "tolerance": 1e-4},
    "boundary": {"z_min": {"kind": "surface"}, "z_max": {"kind": "slip"}},
    "surface": {"roughness": 0.1, "heat": "flux", "heat_flux": 0.05},
    "temperature": {"enabled": True, "reference": 300.0, "heights": [0.0, 600.0], "values": [300.0, 303.0]},
    "rotation": {"parameter": 1e-4},
    "driving": {"kind": "geostrophic", "geostrophic_wind": [8.0, 1.0]},
    "damping": {"depth": 250.0, "time": 50.0, "velocity": "all", "temperature": True},
    "initial": {"kind": "uniform", "velocity": [8.0, 0.0, 0.0], "perturbation": 0.5},
}
CLOSURES = {
    "smagorinsky": {"kind": "smagorinsky", "wall_damping": True},
    "one-equation": {"kind": "one-equation"},
}


def layer_model(device, closure):
    run = {"model": "wind", "steps": 3, "device": device, "seed": 5}
    case = WindCase.model_validate({"run": run, "subgrid": CLOSURES[closure], **LAYER})
    model = create("wind")
    model.setup(case, Context(MPI.COMM_SELF, device))
    model.compile()
    return model


def state_of(model):
    return {name: np.array(part.local) for name, part in model.state().items()}


@pytest.mark.parametrize("closure", CLOSURES)
def test_a_layer_over_the_ground_is_that_of_the_cpu(closure) -> None:
    """Closure, ground, damping, rotation and buoyancy; then the device goes on from what the host restores."""
    host, device = layer_model("cpu", closure), layer_model("cuda", closure)
    for model in (host, device):
        model.initialize()
        model.step(1)
    expected, found = state_of(host), state_of(device)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        if name == "node_pressure":
            values, found[name] = values - values.mean(), found[name] - found[name].mean()
        scale = abs(values).max()
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-9 * scale, err_msg=name)
    assert device.diagnostics() == pytest.approx(host.diagnostics(), rel=1e-8)
    assert device.outputs(("pressure",))["pressure"].local.shape == (6, 7, 9)
    resumed = layer_model("cuda", closure)
    for name, part in resumed.state().items():
        part.local[...] = state_of(device)[name]
    resumed.restored(1, device.time(1))
    for model in (device, resumed):
        model.step(1)
    for name, values in state_of(device).items():
        assert state_of(resumed)[name].tobytes() == values.tobytes(), name
