"""Reaction-diffusion on GPUs on several ranks, in numba-cuda's simulator: the bits of the CPU on one rank."""

from simulator import simulate

simulate()

import numpy as np
import pytest
from mpi4py import MPI

from reaction_diffusion_cases import BRUSSELATOR, make_case, owned
from ridgeline.models import create
from ridgeline.models.reaction_diffusion.reference import ReferenceSolver
from ridgeline.parallel.partition import factorizations
from ridgeline.runtime.context import Context

ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}
SIDES = {
    "y_min": {"kind": "flux", "values": {"X": "0.1*x*z - t"}},
    "y_max": {"kind": "fixed", "values": {"X": "1 + 0.1*x*t", "Y": "0.1*z"}},
}


@pytest.mark.parametrize("grid", list(factorizations(MPI.COMM_WORLD.size)), ids=str)
def test_every_process_grid_gives_the_bits_of_numpy(comm, grid):
    noisy = [{**each, "noise": 0.3} for each in BRUSSELATOR]
    case = make_case(noisy, (4, 7, 6), boundary=SIDES, grid={"process_grid": grid}, run={"device": "cuda"})
    model = create("reaction_diffusion")
    model.setup(case, Context(comm, "cuda"))
    model.compile()
    model.initialize()
    begin = [array.offset_global for array in model.state().values()]
    pieces = comm.allgather(list(zip(begin, owned(model))))
    whole = [np.empty(case.grid.shape) for _ in begin]
    for of_rank in pieces:
        for field, (offset, local) in zip(whole, of_rank):
            field[tuple(slice(o, o + n) for o, n in zip(offset, local.shape))] = local
    reference = ReferenceSolver(case, whole)
    for _ in range(3):
        model.step(1)
    reference.advance(3)
    for found, offset, expected in zip(owned(model), begin, reference.fields):
        place = tuple(slice(o, o + n) for o, n in zip(offset, found.shape))
        assert found.tobytes() == expected[place].tobytes()
