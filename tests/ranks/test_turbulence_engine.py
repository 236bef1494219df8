"""The engine on every process grid against the np.fft reference on one rank, and what ranks may not change."""

import numpy as np
import pytest

from ridgeline.config.expressions import parse
from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.modes import Modes, Shells
from ridgeline.fourier.transform import FourierTransform
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.models.turbulence import initial
from ridgeline.models.turbulence.engine_cpu import CpuEngine
from ridgeline.models.turbulence.forcing import EswaranPope, Forcing, FrozenShells, LinearForcing
from ridgeline.models.turbulence.formula_force import FormulaForce
from ridgeline.models.turbulence.problem import Damping, FlowParameters, Waves
from ridgeline.models.turbulence.reference import ReferenceSolver
from ridgeline.runtime.errors import ConfigError

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)  # takes more than 5 s
TIMEOUT = 300

SHAPE, LENGTHS = (24, 32, 20), (5.0, 7.0, 4.0)  # 20 planes z and 3 ranks, 11 columns j_x and 4: uneven
FORCINGS = {
    "none": Forcing,
    "linear": lambda modes, comm: LinearForcing(modes, comm, 0.8),
    "frozen": lambda modes, comm: FrozenShells(modes, comm, 3.0),
    "eswaran-pope": lambda modes, comm: EswaranPope(modes, comm, 3.0, 2.0, 0.4, 6),
}
SCALARS = {"schmidt": (0.7, 5.0), "mean_gradients": ((1.0, -0.5, 2.0), (0.0, 0.0, 0.0))}


def process_grids(size):
    return [(rows, size // rows) for rows in range(1, size + 1) if size % rows == 0]


def random_start(fields, modes, comm):
    k = Shells(modes).wavenumbers
    energies = np.where((k > 0) & (k < 6), 0.5, 0.0)
    drawn = np.zeros(fields.shape, np.complex128)
    initial.random_velocity(drawn, modes, comm, energies, 4)
    for s in range(len(fields) - 3):
        initial.random_scalar(drawn[3 + s], modes, comm, energies, 4, s)
    fields[...] = drawn


def make_engine(comm, process_grid, flow, dealias, forcing="none", shape=SHAPE, dtype=np.float64, **options):
    grid = PencilGrid(shape, dealias, process_grid, comm.rank)
    engine = CpuEngine(grid, LENGTHS, comm, dtype, flow, TransformTuning(effort="estimate", **options))
    random_start(engine.fields, engine.modes, comm)
    engine.forcing = FORCINGS[forcing](engine.modes, comm)
    engine.forcing.start(engine.fields)
    return engine


def reference(comm, flow, dealias, forcing, steps):
    """Fields of the reference after steps of 0.02, and of the Courant number 0.4 for the last; rank 0 computes."""
    if comm.rank > 0:
        return comm.bcast(None)
    from mpi4py import MPI

    modes = Modes.of(PencilGrid(SHAPE, dealias, (1, 1), 0), LENGTHS)
    fields = np.zeros((3 + len(flow.schmidt), modes.n_modes), complex)
    random_start(fields, modes, MPI.COMM_SELF)
    made = FORCINGS[forcing](modes, MPI.COMM_SELF)
    made.start(fields)
    solver = ReferenceSolver(modes, flow, fields, made)
    advance(solver, steps)
    return comm.bcast((solver.fields, solver.time, solver.last_courant_rate))


def advance(solver, steps=3):
    for _ in range(steps - 1):
        solver.advance(0.02)
    solver.advance(None, 0.4)


def places(modes):
    """Places of a rank's modes among all in canonical order."""
    lines = modes.lines
    return np.concatenate([np.arange(s, s + 2 * m + 1) for s, m in zip(lines.start_global, lines.most)])


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds", "none"])
@pytest.mark.parametrize("forcing", FORCINGS)
def test_every_process_grid_is_the_reference(comm, scheme, dealias, forcing):
    with_scalars = forcing == "eswaran-pope"
    flow = FlowParameters(0.02, scheme, seed=3, **(SCALARS if with_scalars else {}))
    fields, time, rate = reference(comm, flow, dealias, forcing, 3)
    for process_grid in process_grids(comm.size):
        engine = make_engine(comm, process_grid, flow, dealias, forcing)
        advance(engine)
        difference = np.abs(engine.fields - fields[:, places(engine.modes)]).max(1)
        assert (difference <= 1e-12 * np.abs(fields).max(1)).all()
        assert engine.time == pytest.approx(time, rel=1e-12)
        assert engine.last_courant_rate == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
def test_waves_are_the_same_on_every_process_grid(comm, scheme, dtype):
    """One rank is held to the reference in tests/models/turbulence/test_waves.py."""
    from mpi4py import MPI

    flow = FlowParameters(0.02, scheme, (1.0, 5.0), ((0.0,) * 3,) * 2, 3, Waves((0.3, -0.2, 1.5), 2.0))
    alone = make_engine(MPI.COMM_SELF, (1, 1), flow, "phase-shift", "eswaran-pope", dtype=dtype)
    advance(alone)
    tolerance = 1e-6 if dtype == np.float32 else 1e-14
    for process_grid in process_grids(comm.size):
        engine = make_engine(comm, process_grid, flow, "phase-shift", "eswaran-pope", dtype=dtype, threads=2)
        advance(engine)
        difference = np.abs(engine.fields - alone.fields[:, places(engine.modes)]).max(1)
        assert (difference <= tolerance * np.abs(alone.fields).max(1)).all()


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
@pytest.mark.parametrize("texts", [("exp(sin(x))", "0", "y/7"), ("cos(2*t)*sin(y)", "t*exp(cos(z))", "0")])
def test_damping_and_formulas_are_the_same_on_every_process_grid(comm, scheme, texts):
    """One rank is held to the reference in tests/models/turbulence/test_formula_force.py."""
    from mpi4py import MPI

    flow = FlowParameters(0.02, scheme, seed=3, damping=Damping(1e-4, 3, 0.4, 3.0), **SCALARS)

    def run(comm, process_grid):
        engine = make_engine(comm, process_grid, flow, "phase-shift")
        grid = PencilGrid(SHAPE, "phase-shift", process_grid, comm.rank)
        engine.forcing = FormulaForce(engine, grid, comm, tuple(map(parse, texts)))
        advance(engine)
        return engine, engine.forcing.injection(engine.forced_velocity(), 0.0)

    alone, power = run(MPI.COMM_SELF, (1, 1))
    for process_grid in process_grids(comm.size):
        engine, found = run(comm, process_grid)
        difference = np.abs(engine.fields - alone.fields[:, places(engine.modes)]).max(1)
        assert (difference <= 1e-14 * np.abs(alone.fields).max(1)).all()
        assert found == pytest.approx(power, rel=1e-13)


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
def test_batches_threads_and_methods_change_no_bit(comm, scheme):
    flow = FlowParameters(0.02, scheme, seed=3, **SCALARS)
    for process_grid in process_grids(comm.size):
        found = []
        for batch, threads, method in (
            (1, 1, "alltoallv"), (2, 2, "alltoallv"), (3, 3, "ialltoallv"), (4, 1, "alltoall"),
            (1, 2, "shared"),
        ):  # fmt: skip
            options = {"batch": batch, "threads": threads, "method": method, "layout": "strided"}
            engine = make_engine(comm, process_grid, flow, "phase-shift", "eswaran-pope", **options)
            advance(engine)
            found.append(engine.fields)
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])


def test_runs_repeat_their_bits(comm):
    flow = FlowParameters(0.02, "rk2", seed=3)
    fields = []
    for _ in range(2):
        engine = make_engine(comm, (1, comm.size), flow, "phase-shift", layout="packed", threads=2)
        advance(engine)
        fields.append(engine.fields)
    np.testing.assert_array_equal(*fields)


@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds"])
@pytest.mark.parametrize("batch", [1, 4])
def test_memory_is_within_the_papers(comm, dealias, batch):
    """Eq. 9: (8 + 2 Q + 1/2) N^3 / 2P complex numbers, on slabs and pencils, all that the engine holds counted."""
    n = 96  # beside fields and buffers a rank works in about 1.5 MB
    for process_grid in process_grids(comm.size):
        grid = PencilGrid((n, n, n), dealias, process_grid, comm.rank)
        engine = CpuEngine(
            grid,
            LENGTHS,
            comm,
            np.float32,
            FlowParameters(0.1),
            TransformTuning("alltoallv", batch, effort="estimate"),
        )
        held = engine.memory()
        assert held["fields"] == engine.fields.nbytes
        bound = (8 + 2 * batch + 0.5) * n**3 / (2 * comm.size) * 8
        assert sum(held.values()) <= bound


def test_last_transpose_moves_071_of_the_papers_bytes(comm):
    """Lines without a retained mode are left out, and of T only four combinations leave the planes."""
    n = 128
    grid = PencilGrid((n, n, n), "phase-shift", (1, comm.size), comm.rank)
    tuning = TransformTuning("alltoallv", effort="estimate", layout="strided")
    column = FourierTransform(grid, LENGTHS, comm, np.float32, tuning).column
    sent = comm.allreduce(column.forward.bytes_sent(4) + column.inverse.bytes_sent(3))
    held = comm.allreduce(column.forward.bytes_held(4) + column.inverse.bytes_held(3))
    full = (4 + 3) * n * n * (n // 2) * 8  # bytes of N^3/2 modes
    assert held <= 0.71 * full
    blocks = sum(
        PencilGrid(grid.shape, "phase-shift", (1, comm.size), r).lines.n_lines for r in range(comm.size)
    )
    assert held == 7 * 8 * n * blocks
    assert (sent == 0) == (comm.size == 1)
    assert sent <= held


def test_step_is_timed_by_columns(comm):
    engine = make_engine(comm, (comm.size, 1), FlowParameters(0.02), "two-thirds")
    advance(engine)
    seconds = engine.seconds
    assert list(seconds) == ["fft", "pack", "row all-to-all", "column all-to-all", "other"]
    assert min(seconds["fft"], seconds["pack"], seconds["other"]) > 0.0
    assert (seconds["row all-to-all"] > 0.0) == (comm.size > 1)
    engine.reset_timings()
    assert sum(engine.seconds.values()) == 0.0


def test_exchanged_bytes_are_those_of_eq_13(comm):
    rows = comm.size
    shared = make_engine(comm, (rows, 1), FlowParameters(0.02), "none", method="shared")
    assert shared.exchanged() == {"row": (0.0, 0.0), "column": (0.0, 0.0)}  # nothing is sent
    engine = make_engine(comm, (rows, 1), FlowParameters(0.02), "none", method="alltoallv")
    exchanged = engine.exchanged()
    assert exchanged["column"] == (0.0, 0.0)
    held, message = exchanged["row"]
    if comm.size == 1:
        assert (held, message) == (0.0, 0.0)
        return
    grid = engine.transform.grid
    assert engine.transform.row.n_planes * 4 == SHAPE[1]  # four whole groups of planes
    columns, n_columns = len(grid.columns_of(grid.row)), grid.truncation.n_columns
    z = grid.z_range[1]
    assert held == 2 * 16 * SHAPE[1] * (5 * z * n_columns + 3 * SHAPE[0] * columns)
    assert 0 < message < held


def test_fluid_at_rest_has_no_courant_number(comm):
    engine = make_engine(comm, (1, comm.size), FlowParameters(0.02), "two-thirds")
    engine.fields[...] = 0
    with pytest.raises(ConfigError, match=r"model\.courant = 0\.4 .* at rest"):
        engine.advance(None, 0.4)
    engine.advance(0.1)
    assert not engine.fields.any()
