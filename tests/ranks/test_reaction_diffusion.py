"""Reaction-diffusion on several ranks: the bits of one rank on every process grid, and after a resume."""

import numpy as np
import pytest
from mpi4py import MPI

from reaction_diffusion_cases import EVERYTHING, advance, make_case, start
from ridgeline.parallel.partition import factorizations

RANKS = (2, 3, 4)
QUICK_RANKS = (3,)

SHAPE = (13, 11, 17)
SIDES = {
    "x_min": {"kind": "no-flux"},
    "x_max": {"kind": "fixed", "values": {"A": "0.5 + sin(y*z + t)", "B": "a/2", "C": "0.1*y", "W": 0}},
    "z_min": {"kind": "flux", "values": {"A": "cos(x)*t", "B": "-0.1*t", "C": "0.01*x*y"}},
    "z_max": {"kind": "no-flux"},
}


def whole(comm, model):
    """Return the fields on the whole grid, on every rank."""
    fields = []
    for array in model.state().values():
        field = np.empty(array.shape_global, array.local.dtype)
        for offset, local in comm.allgather((array.offset_global, array.local.copy())):
            field[tuple(slice(o, o + n) for o, n in zip(offset, local.shape))] = local
        fields.append(field)
    return fields


def same(first, second):
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("boundary", [{}, SIDES], ids=["periodic", "sides"])
@pytest.mark.parametrize("sweep", [1, 2])
def test_every_process_grid_gives_the_bits_of_one_rank(comm, boundary, sweep):
    alone = start(make_case(EVERYTHING, SHAPE, boundary=boundary))
    advance(alone, 7)
    expected = whole(MPI.COMM_SELF, alone)
    for grid in factorizations(comm.size):
        case = make_case(
            EVERYTHING,
            SHAPE,
            boundary=boundary,
            grid={"process_grid": grid},
            model={"steps_per_sweep": sweep},
        )
        model = start(case, comm)
        advance(model, 7)
        assert same(whole(comm, model), expected), grid
        assert model.diagnostics() == alone.diagnostics()


def test_a_plane_has_the_bits_of_one_rank_in_sweeps_of_several_steps(comm):
    alone = start(make_case(EVERYTHING, (1, 26, 33)))
    advance(alone, 7)
    expected = whole(MPI.COMM_SELF, alone)
    for grid in factorizations(comm.size):
        if grid[0] == 1:
            sections = {"grid": {"process_grid": grid}, "model": {"steps_per_sweep": 3}}
            model = start(make_case(EVERYTHING, (1, 26, 33), **sections), comm)
            advance(model, 7)
            assert same(whole(comm, model), expected), grid


def test_a_resume_on_other_ranks_has_the_bits_of_a_straight_run(comm):
    case = make_case(EVERYTHING, SHAPE, boundary=SIDES, run={"precision": "float32"})
    straight = start(case)
    advance(straight, 4)
    saved = whole(MPI.COMM_SELF, straight)
    time = straight.time(4)
    advance(straight, 5)
    resumed = start(case, comm, threads=1)
    for array, field in zip(resumed.state().values(), saved):
        place = tuple(slice(o, o + n) for o, n in zip(array.offset_global, array.local.shape))
        array.local[...] = field[place]
    resumed.restored(4, time)
    advance(resumed, 5)
    assert same(whole(comm, resumed), whole(MPI.COMM_SELF, straight))


def test_times_are_met_with_the_same_bits_in_any_sweeps(comm):
    results = []
    for sweep, ranks in ((1, MPI.COMM_SELF), (3, comm)):
        case = make_case(EVERYTHING, SHAPE, model={"steps_per_sweep": sweep})
        model = start(case, ranks)
        step = 0
        while model.time(step) < 0.52:
            step += model.step(100, 0.52)
        assert model.time(step) == 0.52
        results.append((step, whole(ranks, model)))
    assert results[0][0] == results[1][0]
    assert same(results[0][1], results[1][1])
