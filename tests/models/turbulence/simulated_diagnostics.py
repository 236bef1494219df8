"""Tests of diagnostics on GPUs in numba-cuda's simulator; test_diagnostics_cuda.py runs this file."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.models.turbulence.device.engine_cuda import CudaEngine
from ridgeline.models.turbulence.forcing import EswaranPope, Forcing, LinearForcing
from ridgeline.models.turbulence.problem import FlowParameters
from simulator import ON_GPU, only_simulated
from turbulence_on_devices import ROUNDING, compare_diagnostics, diagnostics_of, no_field_is_copied
from turbulence_tools import make_engine, random_start

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"

COMM = MPI.COMM_SELF
SHAPE = (4, 6, 6)
LENGTHS = (5.0, 7.0, 4.0)
GRADIENTS = (1.0, -0.5, 2.0), (0.0, 0.0, 0.0)


def pair(dealias="phase-shift", schmidt=(), dtype=np.float64, scheme="rk2", shape=SHAPE, start=random_start):
    """An engine of the host and one of the device with the same fields."""
    flow = FlowParameters(0.02, scheme, schmidt, GRADIENTS[: len(schmidt)], 3)
    host = make_engine(shape, flow, start, dealias, LENGTHS, dtype=dtype)
    engine = CudaEngine(PencilGrid(shape, dealias, (1, 1), 0), LENGTHS, COMM, dtype, flow)
    engine.fields[...] = host.fields
    engine.commit()
    return host, engine


@pytest.mark.parametrize(
    ("dealias", "schmidt", "dtype", "scheme", "shape"),
    [
        ("phase-shift", (0.7, 5.0), np.float64, "rk2", SHAPE),
        ("two-thirds", (), np.float64, "rk4", (4, 4, 10)),
        ("none", (0.7,), np.float32, "rk2", (4, 6, 4)),
    ],
)
def test_all_diagnostics_equal_the_host_s(dealias, schmidt, dtype, scheme, shape) -> None:
    """After a step, which sets phases of its own, and whose state is not changed by what came before."""
    host, engine = pair(dealias, schmidt, dtype, scheme, shape)
    engine.passes.velocity_points(engine.stored[:3], 0.5 if dealias == "phase-shift" else 0.0)
    for each in (engine, host):
        each.advance(0.01)
    difference = np.abs(engine.fields - host.fields).max(1)
    assert (difference <= ROUNDING[dtype] * np.abs(host.fields).max(1)).all()
    compare_diagnostics(engine, host, COMM)


@only_simulated
def test_sums_of_lines_are_the_host_s_bit_for_bit() -> None:
    """Without fused multiply-adds, which the simulator has not: the order within a line is the host's."""
    host, engine = pair(schmidt=(0.7,))
    np.testing.assert_array_equal(
        engine.passes.sum_modes(engine.stored)[0], host.passes.sum_modes(host.stored)[0]
    )


def test_the_host_s_copy_stays_as_old_as_it_is() -> None:
    _, engine = pair(schmidt=(0.7,))
    engine.advance(0.01)
    with no_field_is_copied():
        engine.passes.sum_modes(engine.stored)
        engine.forced_velocity()
        assert not engine._host_is_present
        with pytest.raises(AssertionError, match="a field was copied"):
            _ = engine.fields


def test_a_fluid_at_rest_has_figures() -> None:
    def rest(fields, modes):
        fields[...] = 0

    found = [diagnostics_of(engine, COMM)[0] for engine in pair(start=rest)]
    assert found[1] == found[0]


def test_what_is_no_number_is_said() -> None:
    found = []
    for engine in pair():
        engine.fields[1, 7] = np.nan
        engine.commit()
        found.append(diagnostics_of(engine, COMM)[0])
    said, wanted = ({name for name, value in each.items() if np.isnan(value)} for each in found)
    assert said == wanted >= {"energy", "courant", "dissipation_moment_2", "pressure_variance"}


@pytest.mark.parametrize(
    "make",
    [Forcing, lambda m, c: LinearForcing(m, c, 0.8), lambda m, c: EswaranPope(m, c, 3.0, 2.0, 0.4, 6)],
)
def test_the_power_of_a_forcing(make) -> None:
    found = []
    for engine in pair():
        engine.forcing = make(engine.modes, COMM)
        engine.forcing.start(engine.fields)
        engine.advance(0.01)
        found.append(engine.forcing.injection(engine.forced_velocity(), 1.5))
    assert found[1] == pytest.approx(found[0], rel=1e-13)


def test_sums_are_counted() -> None:
    _, engine = pair(schmidt=(0.7,))
    assert engine.memory()["sums"] == engine.passes._sums.nbytes
