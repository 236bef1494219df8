"""Statistics gathered while the flow runs: means and second moments of velocity, pressure and scalars.

    statistics = Statistics(comm, grid, geometry, n_scalars, start)    # zeros: 11 + 5 s numbers for each point
    Statistics(comm, grid, geometry, n_scalars, start, viscosity)      # 25 more, see budgets.py
    compile_kernels(statistics.kernels())
    statistics.sample(step, time, velocity, pressure, scalars)         # every so many steps; one pass
    statistics.state() -> {name: DistributedArray}                     # for Model.state: part of every checkpoint
    statistics.restored(step)                                          # after the arrays of `state` were filled
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
from ridgeline.elements.mesh import ElementGrid
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.models.navier_stokes.statistics.budgets import (
    PRESSURE_VELOCITY,
    add_terms,
    central_terms,
    gradients,
    term_names,
)
from ridgeline.models.navier_stokes.statistics.lines import AverageLines
from ridgeline.models.navier_stokes.statistics.moments import add_moments
from ridgeline.parallel.distributed import DistributedArray

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[np.float64]
ELEMENT_DIMS = ("element", "t", "s", "r")
SAMPLED_STEP = "statistics_step"  # came later than the sums: see Model.later


@dataclass(frozen=True, eq=False)
class Average:
    """An averaged quantity.

    dims: names of the axes. With homogeneous directions values is the whole array, equal on all ranks; without, this
    rank's [n_elements, n, n, n], of dims ELEMENT_DIMS.
    """

    values: Array
    dims: tuple[str, ...]
    description: str


def moment_names(n_scalars: int, budgets: bool = False) -> tuple[list[str], list[tuple[str, int, int]]]:
    """Return the names of the means, and (name, i, j) of the second moments: of means number i and j."""
    means = ["velocity_x", "velocity_y", "velocity_z", "pressure"]
    means += [f"scalar_{i}" for i in range(n_scalars)]
    moments = [("uu", 0, 0), ("vv", 1, 1), ("ww", 2, 2), ("uv", 0, 1), ("uw", 0, 2), ("vw", 1, 2)]
    moments += [("pp", 3, 3)]
    for i in range(n_scalars):
        theta = f"scalar_{i}"
        moments += [(f"{u}_{theta}", axis, 4 + i) for axis, u in enumerate("uvw")]
        moments += [(f"{theta}_{theta}", 4 + i, 4 + i)]
    if budgets:
        moments += PRESSURE_VELOCITY
    return means, moments


class Statistics:
    """Running sums over time at every point of this rank's elements.

    start: model time before which nothing is gathered; viscosity: None, or that of the flow, if terms of budgets are
    gathered too. seconds: model time gathered so far; samples: how many; step, time: of the last call of `sample`, 0
    before the first.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        geometry: ElementGeometry,
        n_scalars: int = 0,
        start: float = 0.0,
        viscosity: float | None = None,
    ) -> None:
        self._comm, self._grid, self._geometry = comm, grid, geometry
        self._start, self._viscosity = start, viscosity
        self._means, self._moments = moment_names(n_scalars, viscosity is not None)
        self._terms = [] if viscosity is None else term_names()
        self._first = np.array([i for _, i, _ in self._moments], np.int64)
        self._second = np.array([j for _, _, j in self._moments], np.int64)
        self._sums = np.zeros((len(self._means) + len(self._moments) + len(self._terms), *grid.shape))
        self._fields = np.empty((4, grid.n_points))
        # Model time gathered, time of the last sample (NaN: none yet), number of samples.
        self._clock = np.array([0.0, np.nan, 0.0])
        self._step = np.array([np.nan])  # of the last sample

    @property
    def seconds(self) -> float:
        """Model time that the sums hold."""
        return float(self._clock[0])

    @property
    def samples(self) -> int:
        """Number of samples in the sums."""
        return int(self._clock[2])

    @property
    def step(self) -> int:
        """Step of the last sample."""
        return int(np.nan_to_num(self._step[0]))

    @property
    def time(self) -> float:
        """Model time of the last sample."""
        return float(np.nan_to_num(self._clock[1]))

    @staticmethod
    def kernels() -> list[Specialisation]:
        """Return the kernel that `sample` calls."""
        return specialise([add_moments])

    def memory(self) -> int:
        """Return the bytes that this holds."""
        return self._sums.nbytes + self._fields.nbytes

    def sample(self, step: int, time: float, velocity: Array, pressure: Array, scalars: Array) -> None:
        """Add the flow of `step`, at model time `time`, for the time since the last call or since `start`.

        Does not communicate.
        velocity: [3, E, n, n, n]; pressure: [E, n, n, n]; scalars: [s, E, n, n, n], float64, contiguous. The first
        call only starts the clock, and so does one at or before `start`.
        Memory: fields read once (velocity and pressure twice, they are put side by side), sums read and written.
        """
        last = self._clock[1]
        self._clock[1], self._step[0] = time, step
        weight = time - max(last, self._start)  # NaN at the first call
        if not weight > 0:
            return
        self._fields[:3] = velocity.reshape(3, -1)
        self._fields[3] = pressure.reshape(-1)
        n_moments = len(self._sums) - len(self._terms)
        sums = self._sums[:n_moments].reshape(n_moments, -1)
        theta = scalars.reshape(len(scalars), self._grid.n_points)
        add_moments(weight, self._fields, theta, self._first, self._second, sums)
        if self._terms:
            add_terms(weight, self._geometry, velocity, pressure, self._sums[n_moments:])
        self._clock[0] += weight
        self._clock[2] += 1

    def state(self) -> dict[str, DistributedArray]:
        """Return what a checkpoint holds: the sums, and on rank 0 the clock and the step of the last sample."""
        shape = (len(self._sums), *self._grid.shape_global)
        found = [DistributedArray("statistics", shape, (0, self._grid.first, 0, 0, 0), self._sums)]
        for name, numbers in (("statistics_clock", self._clock), (SAMPLED_STEP, self._step)):
            here = numbers if self._comm.rank == 0 else numbers[:0]
            found.append(DistributedArray(name, numbers.shape, (0,), here))
        return {array.name: array for array in found}

    def restored(self, step: int) -> None:
        """Continue from what was read into the arrays of `state`. Collective.

        step: of the last sample, if the checkpoint does not tell it, as older ones do not.
        """
        self._clock[:] = self._comm.bcast(self._clock)
        self._step[:] = self._comm.bcast(self._step)
        if np.isnan(self._step[0]) and not np.isnan(self._clock[1]):
            self._step[0] = step

    def averages(self, homogeneous: Sequence[str] = ()) -> dict[str, Average]:
        """Return means, central second moments and, with a viscosity, terms of budgets by name. Collective.

        homogeneous: directions of "x", "y", "z" to average over, none to stay at the points of the elements. The
        other axes are the lattice of the mesh's points, shared ones once; over all three one point is left.
        Without a map of the mesh the coordinates of these axes are among the averages, under the axes' names. With
        one, axes are numbered (k, j, i) and mean places x, y, z are arrays. All is 0 until there is a sample.
        """
        seconds = self._clock[0] or 1.0
        if not homogeneous:
            fields = ((name, values / seconds) for name, values in self._named_sums())
            places = zip("xyz", self._geometry.coordinates)
            found = {name: Average(place, ELEMENT_DIMS, f"place along {name}") for name, place in places}
            return found | self._central(dict(fields), ELEMENT_DIMS)
        lines = AverageLines(self._comm, self._grid, self._geometry, homogeneous)
        means = {name: lines.mean(values) / seconds for name, values in self._named_sums()}
        found = {name: Average(place, dims, what) for name, place, dims, what in lines.places()}
        return found | self._central(means, lines.dims)

    def _named_sums(self) -> Iterator[tuple[str, Array]]:
        names = [*self._means, *(name for name, _, _ in self._moments), *self._terms]
        yield from zip(names, self._sums)
        if self._terms:
            yield from gradients(self._geometry, self._sums[:3])

    def _central(self, fields: Mapping[str, Array], dims: tuple[str, ...]) -> dict[str, Average]:
        """Turn means of products into central moments."""
        found = {name: Average(fields[name], dims, f"mean of {name}") for name in self._means}
        for name, i, j in self._moments:
            a, b = self._means[i], self._means[j]
            values = fields[name] - fields[a] * fields[b]
            found[name] = Average(
                values, dims, f"covariance of {a} and {b}" if i != j else f"variance of {a}"
            )
        if self._viscosity is not None:
            for name, values, description in central_terms(fields, self._viscosity):
                found[name] = Average(values, dims, description)
        return found
