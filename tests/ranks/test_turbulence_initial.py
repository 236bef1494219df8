"""Initial fields and forcing of turbulence on several ranks: every mode as on one rank, bit for bit."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.modes import Modes
from ridgeline.models.turbulence.forcing import make_forcing
from ridgeline.models.turbulence.initial import set_initial_modes
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.runtime.errors import RidgelineError

RANKS = (1, 2, 3, 4)
TIMEOUT = 120
SHAPE = (14, 18, 20)
LENGTHS = (2 * math.pi, 3.0, 5.0)
FORCINGS = [
    {"kind": "none"},
    {"kind": "linear", "coefficient": 0.3},
    {"kind": "frozen", "shell_radius": 5.0},
    {"kind": "eswaran-pope", "shell_radius": 5.0, "amplitude": 0.4, "correlation_time": 0.3},
]


def make_case(kind="spectrum", precision="float64", dealias="phase-shift", forcing=FORCINGS[0]):
    return TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": 1, "seed": 8, "precision": precision},
            "grid": {"shape": list(SHAPE), "lengths": list(LENGTHS)},
            "model": {"viscosity": 0.01, "dt": 0.01, "dealias": dealias},
            "initial": {"kind": kind, "peak_wavenumber": 5.0},
            "scalar": [{"schmidt": 1.0, "variance": 2.0}, {"schmidt": 0.7, "variance": 0.5}],
            "forcing": forcing,
        }
    )


def process_grids(size):
    return [(rows, size // rows) for rows in range(1, size + 1) if size % rows == 0]


def share(case, process_grid, rank):
    grid = PencilGrid(SHAPE, case.model.dealias, process_grid, rank)
    return grid, Modes.of(grid, LENGTHS)


def start_fields(comm, case, modes, grid):
    dtype = np.complex64 if case.run.precision == "float32" else np.complex128
    fields = np.full((3 + len(case.scalar), modes.n_modes), np.nan, dtype)
    set_initial_modes(fields, case, modes, grid, None, comm, None)
    return fields


def whole(comm, modes, fields):
    """All ranks' modes in canonical order, [n, all modes], on every rank."""
    lines = modes.lines
    gathered = np.zeros((len(fields), modes.truncation.n_modes), fields.dtype)
    counts = np.diff(lines.start)
    places = np.repeat(lines.start_global - lines.start[:-1], counts) + np.arange(lines.n_modes)
    for theirs, values in comm.allgather((places, fields)):
        gathered[:, theirs] = values
    return gathered


@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["spectrum", "taylor_green", "taylor_green_2d", "abc"])
def test_initial_modes_do_not_depend_on_ranks(comm, kind, precision, dealias):
    case = make_case(kind, precision, dealias)
    grid, modes = share(case, (1, 1), 0)
    alone = start_fields(MPI.COMM_SELF, case, modes, grid)
    for process_grid in process_grids(comm.size):
        grid, modes = share(case, process_grid, comm.rank)
        found = whole(comm, modes, start_fields(comm, case, modes, grid))
        assert found.tobytes() == alone.tobytes(), process_grid


def follow(comm, case, process_grid):
    """Forces, powers and fields of some steps in which fields only decay and are forced."""
    grid, modes = share(case, process_grid, comm.rank)
    fields = start_fields(comm, case, modes, grid)
    forcing = make_forcing(case, modes, comm)
    forcing.start(fields)
    powers = []
    for step in range(4):
        dt = 0.01 * (1 + step)
        forcing.begin_step(step, dt)
        fields[:3] *= math.exp((forcing.factor_rate - 0.3) * dt)
        fields[:3, forcing.indices] += dt * forcing.values
        forcing.end_step(fields)
        powers.append(forcing.injection(fields[:3, forcing.indices], 1.5))
    return whole(comm, modes, fields), powers, forcing.state()


@pytest.mark.parametrize("forcing", FORCINGS, ids=lambda forcing: forcing["kind"])
def test_forcing_does_not_depend_on_ranks(comm, forcing):
    case = make_case(forcing=forcing)
    fields, powers, state = follow(MPI.COMM_SELF, case, (1, 1))
    assert (forcing["kind"] == "none") == (not any(powers))
    for process_grid in process_grids(comm.size):
        found, power, saved = follow(comm, case, process_grid)
        assert found.tobytes() == fields.tobytes(), process_grid
        assert power == powers, process_grid
        assert saved.keys() == state.keys()
        assert all(saved[name].tobytes() == state[name].tobytes() for name in state)


def test_an_unresolved_start_is_refused_on_all_ranks(comm):
    case = make_case("taylor_green")
    case = case.model_copy(update={"initial": case.initial.model_copy(update={"waves": 7})})
    grid, modes = share(case, (1, comm.size), comm.rank)
    with pytest.raises(RidgelineError, match=r"initial.waves = 7 .* \[14, 18, 20\]"):
        start_fields(comm, case, modes, grid)
    assert comm.allreduce(1) == comm.size
