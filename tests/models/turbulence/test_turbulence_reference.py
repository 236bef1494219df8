"""The np.fft reference against convolution sums, and what phase shifts do to aliasing."""

import itertools
import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.models.turbulence import initial
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.models.turbulence.random_numbers import phase_shift
from ridgeline.models.turbulence.reference import (
    Wavenumbers,
    courant_rate,
    from_ragged,
    nonlinear,
    step,
    to_ragged,
)
from turbulence_tools import all_modes, make_reference

SHAPE = (12, 8, 10)
LENGTHS = (2.0, 3.0, 5.0)
NO_SHIFT = np.zeros(3)


def random_fields(modes, n_scalars=0, seed=1):
    fields = np.zeros((3 + n_scalars, modes.n_modes), complex)
    n_shells = len(initial.modes_in_shells(modes, MPI.COMM_SELF))
    energies = np.where(np.arange(n_shells) > 0, 1.0, 0.0)
    initial.random_velocity(fields, modes, MPI.COMM_SELF, energies, seed)
    for s in range(n_scalars):
        initial.random_scalar(fields[3 + s], modes, MPI.COMM_SELF, energies, seed, s)
    return fields


def whole(modes, fields):
    return from_ragged(fields, modes.lines, modes.shape)


@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds", "none"])
def test_ragged_fields_and_whole_arrays_hold_the_same(dealias):
    modes = all_modes(SHAPE, dealias, LENGTHS)
    fields = random_fields(modes)
    array = whole(modes, fields)
    np.testing.assert_array_equal(to_ragged(array, modes.lines), fields)
    values = np.fft.ifftn(array, axes=(1, 2, 3))
    assert np.abs(values.imag).max() <= 1e-15 * np.abs(values.real).max()
    box = Wavenumbers(modes)
    assert box.keep.sum() == modes.weight().sum()
    assert not array[:, ~box.keep].any()
    np.testing.assert_allclose(to_ragged(box.k, modes.lines), modes.expand()[::-1], rtol=1e-15)


def convolution(modes, fields, gradients):
    """N by direct sums over pairs of modes: no grid, no aliasing."""
    box = Wavenumbers(modes)
    array = whole(modes, fields)
    places = np.argwhere(box.keep)
    j = {tuple(place): box.j[::-1][(slice(None), *place)].astype(int) for place in places}
    place_of = {tuple(value): key for key, value in j.items()}
    rate = np.zeros_like(array)
    for p, q in itertools.product(j, j):
        target = place_of.get(tuple(j[p] + j[q]))
        if target is not None:
            at = (slice(None), *target)
            advected = (box.k[at] * array[(slice(0, 3), *p)]).sum()
            rate[at] -= 1j * advected * array[(slice(None), *q)]
    rate[:3] = box.project(rate[:3])
    for s, gradient in enumerate(gradients):
        rate[3 + s] -= np.tensordot(gradient, array[:3], 1)
    return to_ragged(rate, modes.lines)


@pytest.mark.parametrize("dealias", ["two-thirds", "phase-shift"])
def test_nonlinear_term_is_the_convolution_sum(dealias):
    """Two thirds need no shift; with phase shifts the mean of two evaluations half a cell apart is exact."""
    modes = all_modes((8, 6, 10), dealias, LENGTHS)
    fields = random_fields(modes, 1)
    gradients = [(1.0, -2.0, 0.5)]
    box, array = Wavenumbers(modes), whole(modes, fields)
    half_cell = np.array([0.05, 0.5 / 6, 0.5 / 8])
    first, second = (
        to_ragged(nonlinear(array, box, gradients, shift), modes.lines)
        for shift in (half_cell * 0.37, half_cell * 1.37)
    )
    wanted = convolution(modes, fields, gradients)
    scale = np.abs(wanted).max()
    assert np.abs((first + second) / 2 - wanted).max() <= 1e-14 * scale
    alone = np.abs(first - wanted).max() / scale
    assert alone <= 1e-14 if dealias == "two-thirds" else alone >= 0.05


def two_modes(modes):
    """u_y = cos 6x and u_x = sin(6x + z): their product is sin(12x + z), which 16 points take for sin(-4x + z)."""
    fields = np.zeros((3, modes.n_modes), complex)
    jz, jy, jx = modes.lines.expand()
    fields[1, (jx == 6) & (jy == 0) & (jz == 0)] = 0.5
    at = (jx == 6) & (jy == 0) & (jz == 1)
    fields[0, at] = -0.5j
    fields[2, at] = 3j  # k.u = 0
    return whole(modes, fields)


def test_phase_shifts_remove_the_aliasing_of_two_modes():
    modes = all_modes((16, 16, 16), "phase-shift")
    box, array = Wavenumbers(modes), two_modes(modes)
    alias = (1, 15, 0, 4)  # u_y at k = (4, 0, -1), the conjugate of (-4, 0, 1)
    shift = phase_shift(3, 0, modes.shape)
    plain = nonlinear(array, box, (), NO_SHIFT)
    pair = [nonlinear(array, box, (), s) for s in (shift, shift + 0.5 / 16)]
    assert abs(plain[alias]) > 0.1
    assert abs(pair[0][alias]) == pytest.approx(abs(plain[alias]), rel=1e-12)
    assert abs(pair[0][alias] + pair[1][alias]) <= 1e-14


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
def test_a_step_with_shifts_has_aliasing_of_second_order_only(scheme):
    """Against the same modes on a grid of twice as many points, where nothing aliases onto what is compared."""
    modes, fine = all_modes((16, 16, 16), "phase-shift"), all_modes((32, 32, 32), "none")
    start = two_modes(modes)
    flow = FlowParameters(0.01, scheme)
    shift = phase_shift(3, 0, modes.shape)

    def aliasing(dt, shift):
        found = to_ragged(step(start, Wavenumbers(modes), flow, dt, shift), modes.lines)
        doubled = from_ragged(to_ragged(start, modes.lines), modes.lines, fine.shape)
        exact = to_ragged(step(doubled, Wavenumbers(fine), flow, dt), modes.lines)
        return np.abs(found - exact)[1].max()

    assert aliasing(1e-4, None) > 0.4 * aliasing(2e-4, None) > 1e-6
    assert math.log2(aliasing(2e-4, shift) / aliasing(1e-4, shift)) == pytest.approx(2, abs=0.1)


def test_courant_rate_is_the_largest_bracket():
    modes = all_modes((8, 8, 16), "none", LENGTHS)
    fields = np.zeros((3, modes.n_modes), complex)
    initial.add_waves(fields, modes, 0, 3.0, ("1", "cos", "1"))
    initial.add_waves(fields, modes, 2, -2.0, ("1", "1", "1"))
    rate = courant_rate(whole(modes, fields), Wavenumbers(modes), NO_SHIFT)
    assert rate == pytest.approx(3 / (5 / 16) + 2 / (2 / 8), rel=1e-14)
    shifted = courant_rate(whole(modes, fields), Wavenumbers(modes), np.array([0, 1 / 16, 0]))
    assert shifted == pytest.approx(3 * math.cos(math.pi / 8) / (5 / 16) + 2 / (2 / 8), rel=1e-14)


def test_time_step_follows_the_courant_number():
    solver = make_reference((8, 8, 8), FlowParameters(0.1), initial.taylor_green, "phase-shift")
    first = solver.advance(courant=0.4)
    assert first == pytest.approx(0.4 / solver.last_courant_rate)
    assert solver.time == first
    assert solver.step_index == 1


def test_shifts_lie_within_a_cell_and_differ_by_step_and_seed():
    shifts = np.array([phase_shift(seed, n, (4, 8, 16)) for seed in (0, 1) for n in range(500)])
    assert len(np.unique(shifts[:, 0])) == 1000
    cells = shifts * [16, 8, 4]
    assert 0 <= cells.min() < 0.01
    assert 0.99 < cells.max() < 1
    np.testing.assert_allclose(cells.mean(0), 0.5, atol=5 / math.sqrt(12 * 1000))
