"""Statistics gathered while the flow runs: means and second moments of velocity, pressure and scalars.

    statistics = Statistics(comm, grid, geometry, n_scalars, start)    # zeros: 11 + 5 s numbers for each point
    compile_kernels(statistics.kernels())
    statistics.sample(time, velocity, pressure, scalars)               # every so many steps; one pass
    statistics.state() -> {name: DistributedArray}                     # for Model.state: part of every checkpoint
    statistics.restored()                                              # after the arrays of `state` were filled
    statistics.averages(homogeneous) -> {name: Average}                # collective

A sample stands for the time since the one before it, so that steps of any length count by their length. Averages over
homogeneous directions are integrals along the lines of points in them, by the mesh's own quadrature. Second
moments are central: <a'b'> = <ab> - <a><b>, with <.> over time and these directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid, ElementMesh
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.models.navier_stokes.moments import add_moments
from ridgeline.parallel.distributed import DistributedArray

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[np.float64]
ELEMENT_DIMS = ("element", "t", "s", "r")
AXES = ("z", "y", "x")


@dataclass(frozen=True, eq=False)
class Average:
    """An averaged quantity.

    dims: names of the axes. With homogeneous directions values is the whole array, equal on all ranks; without, this
    rank's [n_elements, n, n, n], of dims ELEMENT_DIMS.
    """

    values: Array
    dims: tuple[str, ...]
    description: str


def moment_names(n_scalars: int) -> tuple[list[str], list[tuple[str, int, int]]]:
    """Return the names of the means, and (name, i, j) of the second moments: of means number i and j."""
    means = ["velocity_x", "velocity_y", "velocity_z", "pressure"]
    means += [f"scalar_{i}" for i in range(n_scalars)]
    moments = [("uu", 0, 0), ("vv", 1, 1), ("ww", 2, 2), ("uv", 0, 1), ("uw", 0, 2), ("vw", 1, 2)]
    moments += [("pp", 3, 3)]
    for i in range(n_scalars):
        theta = f"scalar_{i}"
        moments += [(f"{u}_{theta}", axis, 4 + i) for axis, u in enumerate("uvw")]
        moments += [(f"{theta}_{theta}", 4 + i, 4 + i)]
    return means, moments


class Statistics:
    """Running sums over time at every point of this rank's elements.

    start: model time before which nothing is gathered. seconds: model time gathered so far; samples: how many.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        geometry: ElementGeometry,
        n_scalars: int = 0,
        start: float = 0.0,
    ) -> None:
        self._comm, self._grid, self._geometry = comm, grid, geometry
        self._start = start
        self._means, self._moments = moment_names(n_scalars)
        self._first = np.array([i for _, i, _ in self._moments], np.int64)
        self._second = np.array([j for _, _, j in self._moments], np.int64)
        self._sums = np.zeros((len(self._means) + len(self._moments), *grid.shape))
        self._fields = np.empty((4, grid.n_points))
        # Model time gathered, time of the last sample (NaN: none yet), number of samples.
        self._clock = np.array([0.0, np.nan, 0.0])

    @property
    def seconds(self) -> float:
        """Model time that the sums hold."""
        return float(self._clock[0])

    @property
    def samples(self) -> int:
        """Number of samples in the sums."""
        return int(self._clock[2])

    @staticmethod
    def kernels() -> list[Specialisation]:
        """Return the kernel that `sample` calls."""
        return specialise([add_moments])

    def memory(self) -> int:
        """Return the bytes that this holds."""
        return self._sums.nbytes + self._fields.nbytes

    def sample(self, time: float, velocity: Array, pressure: Array, scalars: Array) -> None:
        """Add the flow at model time `time`, for the time since the last call or since `start`. No communication.

        velocity: [3, E, n, n, n]; pressure: [E, n, n, n]; scalars: [s, E, n, n, n], float64, contiguous. The first
        call only starts the clock, and so does one at or before `start`.
        Memory: fields read once (velocity and pressure twice, they are put side by side), sums read and written.
        """
        last = self._clock[1]
        self._clock[1] = time
        weight = time - max(last, self._start)  # NaN at the first call
        if not weight > 0:
            return
        self._fields[:3] = velocity.reshape(3, -1)
        self._fields[3] = pressure.reshape(-1)
        sums = self._sums.reshape(len(self._sums), -1)
        theta = scalars.reshape(len(scalars), self._grid.n_points)
        add_moments(weight, self._fields, theta, self._first, self._second, sums)
        self._clock[0] += weight
        self._clock[2] += 1

    def state(self) -> dict[str, DistributedArray]:
        """Return what a checkpoint holds: the sums, and the clock on rank 0."""
        shape = (len(self._sums), *self._grid.shape_global)
        clock = self._clock if self._comm.rank == 0 else self._clock[:0]
        return {
            "statistics": DistributedArray("statistics", shape, (0, self._grid.first, 0, 0, 0), self._sums),
            "statistics_clock": DistributedArray("statistics_clock", (3,), (0,), clock),
        }

    def restored(self) -> None:
        """Go on from what was read into the arrays of `state`. Collective."""
        self._clock[:] = self._comm.bcast(self._clock)

    def averages(self, homogeneous: Sequence[str] = ()) -> dict[str, Average]:
        """Return means and central second moments by name. Collective.

        homogeneous: directions of "x", "y", "z" to average over, none to stay at the points of the elements. The
        other axes are the lattice of the mesh's points, shared ones once; over all three one point is left.
        Without a map of the mesh the coordinates of these axes are among the averages, under the axes' names. With
        one, axes are numbered (k, j, i) and mean places x, y, z are arrays. All is 0 until there is a sample.
        """
        seconds = self._clock[0] or 1.0
        if not homogeneous:
            fields = ((name, values / seconds) for name, values in self._named_sums())
            places = zip("xyz", self._geometry.coordinates)
            found = {name: Average(place, ELEMENT_DIMS, "place") for name, place in places}
            return found | self._central(dict(fields), ELEMENT_DIMS)
        return _Lines(self._comm, self._grid, self._geometry, homogeneous).average(self, seconds)

    def _named_sums(self) -> Iterator[tuple[str, Array]]:
        names = [*self._means, *(name for name, _, _ in self._moments)]
        yield from zip(names, self._sums)

    def _central(self, fields: Mapping[str, Array], dims: tuple[str, ...]) -> dict[str, Average]:
        """Turn means of products into central moments."""
        found = {name: Average(fields[name], dims, f"mean of {name}") for name in self._means}
        for name, i, j in self._moments:
            a, b = self._means[i], self._means[j]
            values = fields[name] - fields[a] * fields[b]
            found[name] = Average(
                values, dims, f"covariance of {a} and {b}" if i != j else f"variance of {a}"
            )
        return found


class _Lines:
    """Sums along lines of points, onto the lattice of the other directions."""

    def __init__(
        self, comm: MPI.Comm, grid: ElementGrid, geometry: ElementGeometry, homogeneous: Sequence[str]
    ) -> None:
        self._comm, self._grid, self._geometry = comm, grid, geometry
        self._along = tuple(1 + AXES.index(name) for name in AXES if name in homogeneous)
        self._kept = tuple(a for a in range(3) if AXES[a] not in homogeneous)
        assert isinstance(grid.mesh, ElementMesh)  # config.py: homogeneous directions are those of a box
        self._mesh = grid.mesh
        # Ends of a periodic direction stay apart: each point has one place.
        self._shape = tuple(grid.mesh.elements[a] * grid.order + 1 for a in self._kept) or (1,)
        index = np.zeros((grid.n_elements, *(grid.n,) * len(self._kept)), np.int64)
        for place, a in enumerate(self._kept):
            line = grid.positions[:, a, None] * grid.order + np.arange(grid.n)
            form = [grid.n_elements] + [grid.n if other == place else 1 for other in range(len(self._kept))]
            index = index * self._shape[place] + line.reshape(form)
        self._index = index.reshape(-1)
        self._weight = self._gather(np.ones(1))

    def _gather(self, values: Array) -> Array:
        """Return the integral of point values over each line, the same on all ranks."""
        mass = self._geometry.mass
        integral = np.empty(len(self._index)).reshape(len(mass), -1)
        for e in range(len(mass)):  # element by element, in the caches
            product = mass[e] * (values[e] if values.ndim == 4 else values)
            integral[e] = product.sum(axis=tuple(a - 1 for a in self._along)).reshape(-1)
        size = int(np.prod(self._shape, dtype=np.int64))
        mine = np.bincount(self._index, integral.reshape(-1), size)
        total = np.empty(size)
        self._comm.Allreduce(mine, total)
        return total.reshape(self._shape)

    def average(self, statistics: Statistics, seconds: float) -> dict[str, Average]:
        aligned = self._grid.mesh.axis_aligned
        dims = tuple(AXES[a] if aligned else "kji"[a] for a in self._kept) or ("point",)
        fields = {
            name: self._gather(values) / self._weight / seconds for name, values in statistics._named_sums()
        }
        found = {}
        if aligned:
            for a in self._kept:
                found[AXES[a]] = Average(self._places(a), (AXES[a],), "place")
        else:
            for a in self._kept:
                mean = self._gather(self._geometry.coordinates[2 - a]) / self._weight
                found[AXES[a]] = Average(mean, dims, "mean place")
        return found | statistics._central(fields, dims)

    def _places(self, axis: int) -> Array:
        """Return the places of the lattice's points along an axis of a mesh without a map."""
        edges = self._mesh.edges[axis]
        xi = gauss_lobatto(self._grid.n)[0]
        inside = edges[:-1, None] * (1 - xi) / 2 + edges[1:, None] * (1 + xi) / 2
        return np.asarray(np.append(inside[:, :-1].reshape(-1), edges[-1]), np.float64)
