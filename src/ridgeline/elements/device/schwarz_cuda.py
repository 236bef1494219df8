"""Hybrid Schwarz multigrid in GPU memory: the twin of `multigrid.cycle.SchwarzMultigrid`, built from that.

    host = SchwarzMultigrid(grid, geometry, comm, ...)
    preconditioner = CudaSchwarzMultigrid(host)
    preconditioner.apply(r, z)      # device arrays

The cycle, its levels, weights and matrices are the host's. All levels except the coarsest are swept on the device.
The coarse problem is small and its solver is bound by latencies, so it stays on the host: the host waits for the
right-hand side in pinned memory, solves, and sends the correction back. Layers and corrections of faces between ranks
travel as on the host, in two exchanges by a gather-scatter of faces, and so do those of all faces of meshes that are
not regular. No kernels overlap with messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter
from ridgeline.elements.device.gather_scatter_cuda import device_bytes as lists_bytes
from ridgeline.elements.device.schwarz_kernels_cuda import (
    THREADS,
    box_tables,
    make_collect,
    make_prolong,
    make_residual,
    make_residual_of_boxes,
    make_restrict,
    make_sweep,
    pack_faces,
    scale_points,
    sweep_layout,
)
from ridgeline.elements.device.tensor_cuda import LEAST_POINTS, MOST_POINTS, shared_box, tables_of
from ridgeline.elements.multigrid.schwarz import SchwarzLevel
from ridgeline.elements.multigrid.schwarz_kernels import face_strides
from ridgeline.jit.cuda_device import DeviceArray, flat
from ridgeline.krylov.operator import timed
from ridgeline.runtime.errors import DeviceError

if TYPE_CHECKING:
    from ridgeline.elements.multigrid.cycle import LevelTransfer, SchwarzMultigrid
    from ridgeline.parallel.partition import Triple

Places = NDArray[np.int64]


def face_places(n: Triple, faces: Places) -> tuple[Places, Places]:
    """Return the flat places of the points of faces, one layer inside in a field, and in ghosts; both [slots, f].

    n: points (z, y, x) of an element; faces: [slots, 2], element and face. Rows of smaller faces are filled with -1.
    """
    counts, strides, layer, last = face_strides(*n)
    most, points = max(a * b for a, b in counts), int(np.prod(n))
    inside, ghosts = (np.full((len(faces), most), -1, np.int64) for _ in range(2))
    for f, ((outer, inner), (slow, fast)) in enumerate(zip(counts, strides)):
        mine = np.flatnonzero(faces[:, 1] == f)
        first = last[f] - layer[f] if f % 2 else layer[f]
        of_face = (np.arange(outer)[:, None] * slow + np.arange(inner) * fast).reshape(-1) + first
        elements = faces[mine, 0]
        inside[mine, : outer * inner] = elements[:, None] * points + of_face
        ghosts[mine, : outer * inner] = (elements[:, None] * 6 + f) * most + np.arange(outer * inner)
    return inside, ghosts


def require_kernels(n: Triple) -> None:
    """Raise DeviceError unless a level of n points (z, y, x) an element has kernels."""
    if not all(LEAST_POINTS <= each <= MOST_POINTS for each in n):
        raise DeviceError(
            f"Schwarz multigrid has no GPU kernel for {n} points (z, y, x) per element. Choose orders from "
            f'{LEAST_POINTS - 1} to {MOST_POINTS - 1}, or run.device = "cpu".'
        )


def device_bytes(host: SchwarzMultigrid) -> int:
    """Return the bytes of the device's twin of a multigrid, without tables of a single element."""
    size = host.dtype.itemsize
    on_levels = 0
    for level in host.levels:
        n, pairs = level.level.n, level.eigenpairs
        face = int(np.prod(n)) // min(n)
        kept = (level.share, level.weight, level.share, level.factors, level.neighbours)
        tables = (pairs.index, pairs.vectors, pairs.values)
        on_levels += sum(array.nbytes for array in (*kept, *tables))
        on_levels += size * face * (6 * level.level.shape[0] + 2 * len(level.faces))
        on_levels += lists_bytes(level.points.plan, 1, host.dtype)
        if level.across is not None:
            on_levels += lists_bytes(level.across.plan, 1, host.dtype) + 16 * face * len(level.faces)
    elements = host.levels[0].level.shape[0]
    below = sum(elements * int(np.prod(np.add(orders, 1))) for orders in host.orders[1:])
    return int(on_levels + 2 * size * below)


class CudaSchwarzLevel:
    """One level with its smoother on the device: the twin of `SchwarzLevel`.

    Memory: 3 words a point (share, weight, residual), 6 points of each face, and the factors of curved elements.
    """

    def __init__(self, host: SchwarzLevel, device_buffers: bool, stream: Any) -> None:
        level, dtype = host.level, host.dtype
        self.n, self.elements, self.stream = level.n, level.shape[0], stream
        self.work = host.work()
        require_kernels(self.n)
        size = int(np.prod(level.shape))
        self._point_blocks = -(-size // THREADS)
        self.points = CudaGatherScatter(
            host.points.comm, host.points.plan, device_buffers, dtype=dtype, stream=stream
        )
        pairs = host.eigenpairs
        self._tables = tuple(
            cuda.to_device(array) for array in (pairs.index.reshape(-1), pairs.vectors, pairs.values)
        )
        self._neighbours = cuda.to_device(host.neighbours.reshape(-1))
        self.share, self._weight = cuda.to_device(host.share), cuda.to_device(host.weight)
        self.left = cuda.device_array(size, dtype)
        self._factors = cuda.to_device(host.factors.reshape(-1))
        if level.mesh.axis_aligned:
            tables = box_tables(host.lines[:3], level.weights)
            self._residual = make_residual_of_boxes(self.n, dtype)
        else:
            tables, starts = tables_of(host.lines[:3])
            self._residual = make_residual(self.n, starts, dtype)
        self._lines = cuda.to_device(tables.astype(dtype))
        self._threads = sweep_layout(self.n, dtype).box.threads
        self._sweep, self._collect = make_sweep(self.n, dtype), make_collect(self.n)

        # Faces: ghosts of all elements, and the exchange of faces between ranks.
        nz, ny, nx = self.n
        face = max(nz * ny, nz * nx, ny * nx)
        self._ghosts = cuda.device_array(self.elements * 6 * face, dtype)
        self._mine, self._total = (cuda.to_device(np.zeros(len(host.faces) * face, dtype)) for _ in range(2))
        self._across = None
        if host.across is not None:
            self._across = CudaGatherScatter(
                host.across.comm, host.across.plan, device_buffers, dtype=dtype, stream=stream
            )
            self._layer_places, self._ghost_places = (
                cuda.to_device(places.reshape(-1)) for places in face_places(self.n, host.faces)
            )

    def _exchange(self, places: DeviceArray, values: DeviceArray) -> None:
        """Add up the values at both sides of the faces between ranks."""
        assert self._across is not None
        if places.size:
            pack_faces[-(-places.size // THREADS), THREADS, self.stream](
                places, values, self._mine, self._total
            )
        self._across.sum(self._total)

    def smooth(self, r: DeviceArray, z: DeviceArray) -> None:
        """Set z = sum_e R_e^T K_e^-1 R_e r, assembled, not yet weighted."""
        if self._across is not None:
            self._exchange(self._layer_places, r)
        self._sweep[self.elements, self._threads, self.stream](
            r, self._neighbours, self._mine, self._total, *self._tables, z, self._ghosts
        )
        if self._across is not None:
            self._exchange(self._ghost_places, self._ghosts)
        self._collect[self._point_blocks, THREADS, self.stream](
            self._neighbours, self._ghosts, self._mine, self._total, z
        )
        self.points.sum(z)

    def residual(self, r: DeviceArray, z: DeviceArray) -> DeviceArray:
        """Weight z in place and return the unassembled r / multiplicity - K z, overwritten by the next call."""
        _, ny, nx = self.n
        self._residual[self.elements, (nx, ny), self.stream](
            r, self._weight, self.share, self._factors, self._lines, z, self.left
        )
        return self.left

    def make_continuous(self, z: DeviceArray) -> None:
        """Replace all copies of a point by their mean, in place."""
        self.points.sum(z)
        scale_points[self._point_blocks, THREADS, self.stream](self.share, z)

    def free(self) -> None:
        """Free the requests of messages."""
        self.points.free()
        if self._across is not None:
            self._across.free()


class CudaTransfer:
    """J and J^T between two levels on the device."""

    def __init__(self, host: LevelTransfer, elements: int, stream: Any) -> None:
        matrices = host.lines[:3]
        (nz, cz), (ny, cy), (nx, cx) = (j.shape for j in matrices)
        fine, coarse = (nz, ny, nx), (cz, cy, cx)
        dtype = matrices[0].dtype
        self._launch = elements, shared_box(fine).threads, stream
        self.flops = host.flops
        self._tables = cuda.to_device(np.concatenate([j.reshape(-1) for j in matrices]))
        self._restrict, self._prolong = make_restrict(fine, coarse, dtype), make_prolong(fine, coarse, dtype)

    def restrict(self, left: DeviceArray, below: DeviceArray) -> None:
        """Set below = J^T left, unassembled."""
        self._restrict[self._launch](left, self._tables, below)

    def prolong(self, below: DeviceArray, z: DeviceArray) -> None:
        """Add J below to z."""
        self._prolong[self._launch](below, self._tables, z)


class CudaSchwarzMultigrid:
    """z ~ K^-1 r for device arrays: a `krylov.operator.Preconditioner` with the cycle of `host`.

    The host waits for the coarse right-hand side, and on several ranks for messages. The regions of `host` are
    charged as by the host's cycle; "coarse" includes the copies of the coarse problem. Construction does not
    communicate; apply() allocates nothing.

    Parameters
    ----------
    device_buffers : give device memory to MPI, which must be GPU-aware
    stream : of all kernels

    Raises
    ------
    DeviceError
        For levels that no kernel supports.
    """

    def __init__(self, host: SchwarzMultigrid, device_buffers: bool = False, stream: Any = 0) -> None:
        self.host, self.dtype, self.stream = host, host.dtype, stream
        self.levels = [CudaSchwarzLevel(level, device_buffers, stream) for level in host.levels]
        elements = self.levels[0].elements
        self._transfers = [CudaTransfer(transfer, elements, stream) for transfer in host.transfers]
        sizes = [elements * int(np.prod(np.add(orders, 1))) for orders in host.orders[1:]]
        self._r, self._z = ([cuda.device_array(size, self.dtype) for size in sizes] for _ in range(2))
        self._residual, self._correction = (cuda.pinned_array(sizes[-1], self.dtype) for _ in range(2))

    def apply(self, r: DeviceArray, z: DeviceArray) -> None:
        """Set z = M r. r: float64 device array [E, n, n, n], assembled; z: of `dtype` and that shape, continuous.

        Communication: neighbours, five exchanges a level, and that of the coarse solver.
        """
        z = flat(z)
        self._descend(0, flat(r), z)
        if not self.host.regular:
            # Elements with different axes round the corrections of lower orders differently.
            self.levels[0].make_continuous(z)

    def _descend(self, place: int, r: DeviceArray, z: DeviceArray) -> None:
        if place == len(self.levels):
            with timed(self.host.regions, "coarse"):
                r.copy_to_host(self._residual, stream=self.stream)
                if self.stream:
                    self.stream.synchronize()
                self.host.coarse.solve(self._residual, self._correction)
                z.copy_to_device(self._correction, stream=self.stream)
            return
        level, transfer, below = self.levels[place], self._transfers[place], self._r[place]
        regions, flops, word = self.host.regions, transfer.flops, self.dtype.itemsize
        with timed(regions, "schwarz", *level.work):
            level.smooth(r, z)
            left = level.residual(r, z)
        with timed(regions, "transfer", flops, word * (left.size + below.size)):
            transfer.restrict(left, below)
            if place + 1 < len(self.levels):
                self.levels[place + 1].points.sum(below)
        self._descend(place + 1, below, self._z[place])
        with timed(regions, "transfer", flops, word * (2 * left.size + below.size)):
            transfer.prolong(self._z[place], z)

    def describe(self) -> str:
        """Return one line that names the orders, the smoother and the coarse solver."""
        return f"{self.host.describe()} on the host"

    def free(self) -> None:
        """Free the requests of messages now rather than with the object, which cannot be used afterwards."""
        for level in self.levels:
            level.free()
