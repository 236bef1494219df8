"""Passes of the Navier-Stokes step on GPUs in numba-cuda's simulator; test_ns_operators_cuda.py runs this file."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI
from numba import cuda

from element_problems import Problem
from navier_stokes_tools import all_sides
from ridgeline.config.expressions import parse
from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.models.navier_stokes.device.engine_cuda import CudaElementKernels
from ridgeline.models.navier_stokes.device.sources_cuda import CudaSources
from ridgeline.models.navier_stokes.engine_cpu import ElementKernels
from ridgeline.models.navier_stokes.problem import FlowProblem, TransportedScalar
from ridgeline.models.navier_stokes.sources import Sponge, source_names, values_of
from ridgeline.models.navier_stokes.time_stepping import StepCoefficients, TimeLevels
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"

SCALAR = TransportedScalar(0.1, {}, expansion=0.7, reference=0.3)
PROBLEM = FlowProblem(
    0.1, 0.01, all_sides("wall"),
    scalars=(SCALAR, replace(SCALAR, expansion=0.0), replace(SCALAR, expansion=-2.0)),
    gravity=(0.0, -1.5, 9.81), filter_weight=0.3, filter_modes=2,
)  # fmt: skip
SHAPES = [(1, False), (2, False), (2, True), (3, True)]  # order, curved


class Both:
    """The operators of host and device, on one rank's elements."""

    def __init__(self, order, curved, problem=PROBLEM):
        whole = Problem(MPI.COMM_SELF, order, curved, 1.0, 0.0)
        self.grid, self.geometry = whole.grid, whole.geometry
        self.host = ElementKernels(self.grid, self.geometry, problem)
        gather = CudaGatherScatter(MPI.COMM_SELF, whole.gather_scatter.plan, False, fields=6)
        self.device = CudaElementKernels(CudaGeometry(self.geometry, gather), problem)
        self.rng = np.random.default_rng(order)

    def fields(self, *leading):
        return self.rng.standard_normal((*leading, *self.grid.shape))

    def agree(self, found, expected, untouched=()):
        found = found.copy_to_host()
        assert (found[:, list(untouched)] == 7.0).all()
        rest = np.setdiff1d(np.arange(self.grid.n_elements), untouched)
        atol = 1e-12 * abs(expected[:, rest]).max()
        np.testing.assert_allclose(found[:, rest], expected[:, rest], rtol=0, atol=atol)


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def both(request):
    return Both(*request.param)


def sevens(expected):
    return cuda.to_device(np.full_like(expected, 7.0))


def test_force_divergence(both) -> None:
    force, inverse_mass = both.fields(3), both.rng.uniform(1, 2, both.grid.shape)
    expected = np.empty((1, *both.grid.shape))
    both.host.force_divergence(force, inverse_mass, expected[0])
    out = sevens(expected)
    both.device.force_divergence(cuda.to_device(force), cuda.to_device(inverse_mass), out[0])
    both.agree(out, expected)


def test_momentum_of_some_elements(both) -> None:
    p, force, share = both.fields(), both.fields(3), both.rng.uniform(0.1, 1, both.grid.shape)
    expected = np.empty_like(force)
    both.host.momentum(both.host.elements, p, force, share, expected)
    out = sevens(expected)
    both.device.momentum((2, both.grid.n_elements - 1), *map(cuda.to_device, (p, force, share)), out)
    both.agree(out, expected, untouched=(0, 1, both.grid.n_elements - 1))


@pytest.mark.parametrize("order", [1, 3])
def test_the_known_side_of_a_step(both, order) -> None:
    """The levels that an order does not have are not looked at, though they may hold anything."""
    levels = TimeLevels(order, lambda: np.zeros((4, *both.grid.shape)))
    for level in (*levels.fields, *levels.rates):
        level[...] = both.fields(4)
    at = StepCoefficients.of([0.01 * (1 + step) for step in range(order)])
    force = np.array([0.3, -0.2, 0.1, 0.0])
    expected = np.empty_like(levels.fields[0])
    coefficients = at.a, at.b
    both.host.right_hand_side(both.host.elements, coefficients, force, levels.fields, levels.rates, expected)
    fields, rates = ([cuda.to_device(level) for level in each] for each in (levels.fields, levels.rates))
    out = sevens(expected)
    last = both.grid.n_elements - 1
    both.device.right_hand_side((0, last), coefficients, cuda.to_device(force), fields, rates, out)
    both.agree(out, expected, untouched=(last,))


def test_buoyancy_of_three_scalars(both) -> None:
    """Gravity has no part along x, the second scalar no expansion."""
    fields, rates = both.fields(6), both.fields(6)
    fields[4] = np.nan
    on_device = cuda.to_device(rates)
    both.device.subtract_buoyancy(cuda.to_device(fields), on_device)
    before = rates.copy()
    both.host.subtract_buoyancy(fields, rates)
    assert (before[1:3] != rates[1:3]).all()
    np.testing.assert_array_equal(on_device.copy_to_host()[[0, 3, 4, 5]], before[[0, 3, 4, 5]])
    both.agree(on_device, rates)


def test_courant_number(both) -> None:
    velocity = both.fields(3)
    expected = both.host.courant(velocity)
    assert both.device.courant(cuda.to_device(velocity)) == pytest.approx(expected, rel=1e-14)
    for place in (0, velocity[0].size - 1):
        broken = velocity.copy()
        broken[1].flat[place] = np.nan
        assert np.isnan(both.device.courant(cuda.to_device(broken)))
    assert both.device.courant(cuda.to_device(np.zeros_like(velocity))) == 0.0


def test_filter(both) -> None:
    fields = both.fields(2)
    out = cuda.to_device(fields)
    both.device.filter(out)
    both.host.filter(fields)
    both.agree(out, fields)


def test_sources(both) -> None:
    """Of momentum, of the first and the third of three scalars, and a sponge; the other rates stay."""
    names = source_names(3)
    texts = ("u*scalar_2 + x*y", "sin(x) + t*z", "2", "exp(-y)")
    pull, hot, cold, strength = (parse(text, names) for text in texts)
    problem = replace(
        PROBLEM,
        scalars=(replace(SCALAR, source=hot), SCALAR, replace(SCALAR, source=cold)),
        source=(None, pull, None),
        sponges=(Sponge(strength, (), (parse("t*x"),)), Sponge(parse("z"), (), (parse("y**2"),))),
    )
    fields, rates = both.fields(6), both.fields(6)
    on_device = cuda.to_device(rates)
    CudaSources(both.device.geometry, problem).subtract(cuda.to_device(fields), 0.7, on_device)
    before = rates.copy()
    values = values_of(both.geometry.coordinates, 0.7, fields)
    for term in problem.source_terms:
        rates[term.field] -= both.geometry.mass * term.evaluate(values, fields)
    both.agree(on_device, rates)
    np.testing.assert_array_equal(on_device.copy_to_host()[[0, 2, 4]], before[[0, 2, 4]])
    assert (before[[1, 3, 5]] != rates[[1, 3, 5]]).all()
    assert not CudaSources(both.device.geometry, PROBLEM)
