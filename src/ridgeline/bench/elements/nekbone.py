"""Nekbone: 100 iterations of conjugate gradients on a brick of spectral elements, the core of Nek5000.

The problem is that of the public Fortran benchmark: (A + 0.1) u = f on a brick of reference elements, u = 0 on the
boundary. A is the stiffness matrix, whose six geometric factors per point are loaded from memory. There is no
preconditioner, and the number of iterations is fixed. Operations are counted as that benchmark counts them: 12 n + 34
per point and iteration, with n = nx1 per direction. The operator with the shift has 12 n + 19 of them, vectors and
dot products have 15. Copies of shared points are counted like all other points. The right-hand side is white noise
made from the points' numbers, so that it does not depend on the ranks.

The solver is `krylov.cg.one_pass_cg`, the operator that of `elements.one_pass`, or of `elements.device.one_pass_cuda`
on a GPU. The benchmark makes a run for each number of points per direction, and measures STREAM in the same job.

Source: Fischer, Heisey, "NEKBONE: Thermal Hydraulics mini-application", 2013, and its public source (counts).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.elements.elements_options import NEKBONE, NekboneOptions
from ridgeline.bench.node_memory import require_memory
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.mesh import SIDES, BoxMesh, ElementGrid, side_axis
from ridgeline.elements.one_pass import WORDS, OnePassStiffness, find_kinds
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.krylov.cg import one_pass_cg
from ridgeline.limits.stream import StreamLimits, measure_stream
from ridgeline.parallel.devices import require_device_memory, select_device
from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.errors import DeviceError

if TYPE_CHECKING:
    from ridgeline.elements.device.one_pass_cuda import CudaOnePassStiffness
    from ridgeline.parallel.payload import Memory
    from ridgeline.runtime.devices import DeviceInfo


Array = NDArray[np.float64]

SHIFT = 0.1  # of the operator, as in Nekbone
# Words per point in host memory, temporaries of the set-up included: 6 factors, x, r, p, w, numbers. A GPU needs
# fewer on the host: 9.3 were measured during the set-up at nx1 = 8.
_HOST_WORDS, _HOST_WORDS_OF_GPU = 12, 10


_MFLOPS = 1e6
COLUMNS = (
    Column("nx1", "nx1"),
    Column("elements_per_rank", "nelt"),
    Column("ranks", "np"),
    Column("brick", "brick"),
    Column("rate", "Tot MFlops", _MFLOPS, ".4e"),
    Column("rate_per_rank", "MFlops", _MFLOPS, ".4e"),
    Column("seconds", "Solve Time", form=".4e"),
    Column("unknowns_rate", "MDOF it/s", 1e6, ".1f"),
    Column("bandwidth", "GB/s", 1e9, ".1f"),
    Column("fraction_of_stream", "of STREAM"),
    Column("first_residual", "cg: first", form=".4e"),
    Column("last_residual", "last", form=".4e"),
)
GPU_COLUMNS = tuple(
    Column("fraction_of_copy", "of device copy") if column.key == "fraction_of_stream" else column
    for column in COLUMNS
)


def brick(count: int) -> tuple[int, int, int]:
    """Return the three factors (z, y, x) of count, ascending, that have the least sum."""
    best = (1, 1, count)
    for a in range(1, round(count ** (1 / 3)) + 1):
        if count % a == 0:
            rest = count // a
            b = next(b for b in range(math.isqrt(rest), 0, -1) if rest % b == 0)
            low, middle, high = sorted((a, b, rest // b))
            best = min(best, (low, middle, high), key=sum)
    return best


def flops_per_point(n: int) -> int:
    """Return Nekbone's count of operations per point (of every element) and iteration."""
    return 12 * n + 34


@dataclass(frozen=True)
class NekboneFigures:
    """The figures of one run.

    Attributes
    ----------
    points, unique : points of all elements, with copies and with copies counted once
    seconds : of the slowest rank, for all iterations
    flops, bytes : counted, of all ranks
    residuals : sqrt(r.c.r) before the first iteration and after each
    device : "cpu", or the GPU of rank 0
    """

    nx1: int
    ranks: int
    elements: int
    brick: tuple[int, int, int]
    points: int
    unique: int
    iterations: int
    seconds: float
    flops: float
    bytes: float
    residuals: list[float]
    device: str = "cpu"

    @property
    def rate(self) -> float:
        """The operations per second of all ranks, Nekbone's "Tot MFlops"."""
        return self.flops / self.seconds

    @property
    def unknowns_rate(self) -> float:
        """Points, copies counted once, times iterations over seconds: the figure of CEED's bake-off problem BP5."""
        return self.unique * self.iterations / self.seconds

    @property
    def bandwidth(self) -> float:
        """Counted bytes over seconds, in B/s of all ranks."""
        return self.bytes / self.seconds


class Nekbone:
    """The problem on this rank: the brick, its operator, its right-hand side. Construction is collective.

    Parameters
    ----------
    n : GLL points per direction, nx1
    elements : elements per rank on average; all ranks together form the brick
    memory : "host" to compute on the cores of each rank; otherwise its GPU computes, and `memory` says how messages
        leave it

    The attribute `ids` has the numbers of the points, int64 [E, n, n, n], `operator` is an `OnePassOperator`.

    Raises
    ------
    ConfigError : for too little memory
    DecompositionError : for too few elements
    DeviceError : if there is no GPU, too little memory on it, or no kernel for n
    """

    def __init__(self, comm: MPI.Comm, n: int, elements: int, memory: Memory = "host") -> None:
        self.comm, self.n = comm, n
        self.brick = brick(elements * comm.size)
        self._device = None if memory == "host" else _select_device(comm, n)
        self.device_name = "cpu" if self._device is None else str(self._device)
        words = _HOST_WORDS if memory == "host" else _HOST_WORDS_OF_GPU
        require_memory(comm, elements * n**3 * words * 8, "these elements require", "Use fewer --elements")
        mesh = BoxMesh.box(self.brick, (1.0, 1.0, 1.0))
        self.grid = ElementGrid(mesh, n - 1, comm.size, comm.rank)
        # Row by row, a neighbour in x is still in cache: its face has as many cache lines as it has points.
        rows = np.argsort(self.grid.ids[:, 0, 0, 0])
        self.ids = self.grid.ids[rows]
        self._on_boundary = self._find_boundary()[rows]
        # r and p are 0 on the boundary, so that w needs no sums there.
        gather_scatter = GatherScatter(comm, np.where(self._on_boundary, -1, self.ids), max_fields=1)
        kinds = find_kinds(gather_scatter, self._on_boundary)
        self.operator: OnePassStiffness | CudaOnePassStiffness
        if self._device is None:
            self.operator = OnePassStiffness(gather_scatter, kinds, self._factors(), SHIFT)
            return
        from ridgeline.elements.device.one_pass_cuda import CudaOnePassStiffness, device_parts

        parts = device_parts(gather_scatter, kinds)
        require_device_memory(comm, self._device, parts, "use fewer --elements or more GPUs (-n)")
        self.operator = CudaOnePassStiffness(gather_scatter, kinds, self._factors(), SHIFT, memory == "cuda")

    def solve(self, iterations: int) -> tuple[float, list[float]]:
        """Run conjugate gradients from x = 0; return the seconds on this rank, and the residuals. Collective.

        The residuals are sqrt(r.c.r) before the first iteration and after each.
        """
        self.operator.start(self.right_side(), iterations)
        self.comm.Barrier()
        start = time.perf_counter()
        residuals = one_pass_cg(self.operator, iterations)
        return time.perf_counter() - start, residuals

    def solution(self) -> Array:
        """Return x [E, n, n, n] of the last `solve`."""
        return self.operator.solution()

    @property
    def unique_points(self) -> int:
        """The points of all ranks, copies counted once, those on the boundary included."""
        return math.prod(count * (self.n - 1) + 1 for count in self.brick)

    def _find_boundary(self) -> NDArray[np.bool_]:
        """Return which points [E, n, n, n] lie on the boundary of the brick."""
        on = np.zeros(self.grid.ids.shape, bool)
        for side in SIDES:
            axis, upper = side_axis(side)
            index: list[Any] = [self.grid.side_elements(side), slice(None), slice(None), slice(None)]
            index[1 + axis] = -1 if upper else 0
            on[tuple(index)] = True
        return on

    def _factors(self) -> Array:
        """Return G_rr ... G_tt of a reference element [1, 6, n, n, n]: quadrature weights, zeros off the diagonal."""
        _, weights = gauss_lobatto(self.n)
        factors = np.zeros((1, 6, self.n, self.n, self.n))
        factors[:, [0, 3, 5]] = weights[:, None, None] * weights[:, None] * weights
        return factors

    def right_side(self) -> Array:
        """Return f [E, n, n, n]: numbers in [-1, 1) made from the points' numbers, 0 on the boundary."""
        bits = (self.ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        noise = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
        return np.asarray(np.where(self._on_boundary, 0.0, noise))


def _select_device(comm: MPI.Comm, n: int) -> DeviceInfo:
    """Make this rank's GPU the current one and return it. Collective. Raises DeviceError without a kernel for n."""
    # Imported here, because only a GPU needs numba-cuda.
    from ridgeline.elements.device.tensor_cuda import LEAST_POINTS, MOST_POINTS

    if not LEAST_POINTS <= n <= MOST_POINTS:
        raise DeviceError(
            f"--nx1 {n}: there is no GPU kernel for this number of points. Choose --nx1 from {LEAST_POINTS} to "
            f"{MOST_POINTS}, or use --device cpu."
        )
    return select_device(comm)


def run_nekbone(
    comm: MPI.Comm,
    n: int,
    elements: int,
    iterations: int = 100,
    memory: Memory = "host",
    progress: Phases | None = None,
) -> NekboneFigures:
    """Run the benchmark as Nekbone does: once to warm up, once timed. Collective, the same on all ranks.

    The parameters are those of `Nekbone`.
    """
    progress = progress or silent()
    progress.begin(f"nx1 = {n}: set-up and compiling")
    problem = Nekbone(comm, n, elements, memory)
    progress.begin(f"nx1 = {n}: {iterations} iterations to warm up")
    problem.solve(iterations)
    progress.begin(f"nx1 = {n}: {iterations} iterations, timed")
    seconds, residuals = problem.solve(iterations)
    count = problem.grid.n_elements_global
    points = count * n**3
    problem.operator.free()
    return NekboneFigures(
        nx1=n,
        ranks=comm.size,
        elements=count,
        brick=problem.brick,
        points=points,
        unique=problem.unique_points,
        iterations=iterations,
        seconds=float(comm.allreduce(seconds, MPI.MAX)),
        flops=float(flops_per_point(n)) * points * iterations,
        bytes=float(comm.allreduce(problem.operator.bytes_per_iteration())) * iterations,
        residuals=residuals,
        device=comm.bcast(problem.device_name),
    )


@dataclass(frozen=True)
class DeviceCopies:
    """The bandwidth at which the GPU of each rank copies its own memory, in B/s, all at the same time."""

    by_rank: list[float]

    def share(self, bandwidth: float) -> float:
        """Return a bandwidth in B/s as a share of the sum over ranks."""
        return bandwidth / sum(self.by_rank)


def measure_nekbone(
    comm: MPI.Comm, options: NekboneOptions, memory: Memory = "host", progress: Phases | None = None
) -> Result:
    """Run Nekbone for each number of points per direction. Collective over comm, the same on all ranks.

    memory: as for `Nekbone`. extra["residuals"] has the residuals of every iteration, by nx1. Raises what `Nekbone`
    raises.
    """
    progress = progress or silent()
    figures = [
        run_nekbone(comm, n, options.elements, options.iterations, memory, progress) for n in options.points
    ]
    limits: StreamLimits | DeviceCopies | None = None
    if options.stream:
        progress.begin("memory bandwidth")
        if memory == "host":
            limits = measure_stream(comm, 1)
        else:
            from ridgeline.limits.limits_cuda import measure_device_copy  # only here is numba-cuda needed

            comm.Barrier()
            limits = DeviceCopies(comm.allgather(measure_device_copy()))
    return to_result(figures, limits, memory)


def to_result(
    figures: Sequence[NekboneFigures], limits: StreamLimits | DeviceCopies | None, memory: Memory = "host"
) -> Result:
    """Return what Nekbone prints for each nx1, and the counted bytes beside STREAM or the copies of GPUs."""
    first = figures[0]
    average = sum(figure.rate for figure in figures) / len(figures)
    notes = [f"Avg MFlops = {average / _MFLOPS:.4e}"]
    if isinstance(limits, StreamLimits):
        notes[0] += f"; STREAM {limits.best / 1e9:.1f} GB/s ({limits.best_name})"
    elif limits is not None:
        notes[0] += (
            f"; the GPUs copy at {sum(limits.by_rank) / 1e9:.1f} GB/s, where a GPU counts once for every rank on it"
        )
    bytes_counted = f"{8 * WORDS} per point and iteration"
    if memory != "host":
        bytes_counted += ", and 20 per copy of a point that elements share"
        path = "GPU-aware MPI" if memory == "cuda" else "pinned host memory"
        notes.append(f"Device: {first.device}" + f"; messages through {path}" * (first.ranks > 1))
    return Result(
        benchmark=NEKBONE.name,
        pattern="conjugate gradients on a brick of spectral elements, with a gather-scatter and an allreduce in each "
        "iteration",
        formula=f"operations: 12 nx1 + 34 per point and iteration; bytes: {bytes_counted}; rates: both / t",
        statistic=f"t of the slowest rank in one run of {first.iterations} iterations, after a run to warm up",
        ranks=first.ranks,
        columns=COLUMNS if memory == "host" else GPU_COLUMNS,
        rows=[_row(figure, limits) for figure in figures],
        settings={"iterations": first.iterations, "elements": first.elements, "memory": memory},
        extra={
            "average_rate": average,
            "stream": limits.to_dict() if isinstance(limits, StreamLimits) else None,
            "device_copies": limits.by_rank if isinstance(limits, DeviceCopies) else None,
            "residuals": {str(figure.nx1): figure.residuals for figure in figures},
        },
        notes=notes,
        plot=Plot("nx1", ("rate",), x_label="nx1", y_label="GFLOP/s of all ranks", y_scale=1e9, log_x=False),
    )


def _row(figure: NekboneFigures, limits: StreamLimits | DeviceCopies | None) -> dict[str, Any]:
    share = None if limits is None else limits.share(figure.bandwidth)
    return {
        "nx1": figure.nx1,
        "elements": figure.elements,
        "elements_per_rank": figure.elements // figure.ranks,
        "ranks": figure.ranks,
        "brick": " x ".join(map(str, figure.brick)),
        "device": figure.device,
        "points": figure.points,
        "unique_points": figure.unique,
        "flops": figure.flops,
        "bytes": figure.bytes,
        "rate": figure.rate,
        "rate_per_rank": figure.rate / figure.ranks,
        "seconds": figure.seconds,
        "unknowns_rate": figure.unknowns_rate,
        "bandwidth": figure.bandwidth,
        "fraction_of_stream": None if isinstance(limits, DeviceCopies) else share,
        "fraction_of_copy": share if isinstance(limits, DeviceCopies) else None,
        "first_residual": figure.residuals[0],
        "last_residual": figure.residuals[-1],
    }
