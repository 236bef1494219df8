"""Parts of the flow on a side of the domain: wall shear with its sign, pressure, heat fluxes, and all outputs there.

    part = SidePart(comm, geometry, case, ...)     # once, collective: a `models.parts.PartFields`

At the points of the faces of elements, in the order of the elements, arrays are [face, s, r] with the fast direction
of a face last. With a mean along an axis they are [arc_length], along the curve of side_curve.py; with a mean over
all axes one number. Means are weighted by area. The names beside those of output.variables are

    wall_shear_x, ...     tau, the traction of the fluid on the side without its normal part: where the fluid at a
                          wall moves towards larger x, wall_shear_x > 0
    normal_x, ...         unit normal out of the fluid
    scalar_0_flux, ...    k dT/dn, the flux into the fluid

Tractions and heat fluxes are those of side_fluxes.py. Points that faces of the side share have the mean of their
values, by area.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.io.store import Variable
from ridgeline.models.navier_stokes.case_sections.output import NORMAL, SHEAR
from ridgeline.models.navier_stokes.problem import Array, FlowState
from ridgeline.models.navier_stokes.side_curve import SideCurve, curve_of
from ridgeline.models.navier_stokes.side_fluxes import KnownSide, SideFluxes
from ridgeline.models.parts import PartVariables, sum_over_groups
from ridgeline.parallel.allreduce import errors_on_all_ranks

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.parts import PartSection
    from ridgeline.models.navier_stokes.settings import NavierStokesCase

FACE_DIMS = ("face", "s", "r")
CURVE = "arc_length"
POINT = "point"
OF_SCALAR = re.compile(r"scalar_(\d+)_flux")


class SidePart:
    """The variables of a part on a side. Made collectively, as all methods are.

    fluxes: with this side among theirs; flow, last_step: return the present flow and the step that led to it; field:
    returns an output of the flow at the points of the elements.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        geometry: ElementGeometry,
        case: NavierStokesCase,
        part: PartSection,
        side: str,
        fluxes: SideFluxes,
        flow: Callable[[], FlowState],
        last_step: Callable[[], KnownSide | None],
        field: Callable[[str], Array],
    ) -> None:
        self._comm, self._fluxes, self._field = comm, fluxes, field
        self._flow, self._last_step = flow, last_step
        self._side = geometry.sides[side]
        self._variables = PartVariables(case, part)
        # The order of the elements, which does not depend on the ranks.
        self._order = np.lexsort((self._side.faces, self._side.elements))
        n = geometry.grid.n
        counts = comm.allgather(len(self._order))
        self._first, self._total, self._n = sum(counts[: comm.rank]), sum(counts), n
        self._gather = GatherScatter(comm, self._side.take(geometry.grid.ids), 3)
        self._area = self._side.area[None].repeat(3, axis=0)
        self._gather.sum(self._area)
        normal = np.ascontiguousarray(self._side.normal_area.swapaxes(0, 1))
        self._gather.sum(normal)
        self._normal = normal / np.sqrt((normal**2).sum(axis=0))
        self._places = self._side.take(geometry.coordinates)[:, self._order]
        self._weight = self._side.area[self._order]

        self._curve: SideCurve | None = None
        self._groups, self._n_groups = np.zeros(self._weight.shape, np.int64), 0
        self._dims: tuple[str, ...] = FACE_DIMS
        if len(part.mean) == 1:
            self._dims = (CURVE,)
            self._set_curve("xyz".index(part.mean[0]))
        elif part.mean:
            self._dims, self._n_groups = (POINT,), 1
        self._step, self._time = 0, 0.0

    def _set_curve(self, axis: int) -> None:
        """Find the curve along which the points lie, on rank 0."""
        parts = self._comm.gather(self._places)
        with errors_on_all_ranks(self._comm):
            if parts is not None:
                self._curve = curve_of(np.concatenate(parts, axis=1), axis)
        here = None
        if self._curve is not None and parts is not None:
            ends = np.cumsum([part.shape[1] for part in parts])[:-1]
            here = np.split(self._curve.groups, ends)
        self._groups = self._comm.scatter(here)
        self._n_groups = self._comm.bcast(None if self._curve is None else self._curve.n_groups)

    def attributes(self) -> Mapping[str, Any]:
        """Return the name of the side."""
        return {"part.side": self._side.name}

    def time(self, step: int) -> float:
        self._step, self._time = step, self._flow().time
        return self._time

    def layout(self) -> list[Variable]:
        shape: tuple[int, ...] = (self._total, self._n, self._n)
        offset: tuple[int, ...] = (self._first, 0, 0)
        here: tuple[int, ...] = self._weight.shape
        if self._n_groups:
            shape = self._comm.bcast((1,) if self._curve is None else self._curve.arc_length.shape)
            offset, here = (0,), shape if self._comm.rank == 0 else (0,)
        variables = self._variables
        needed = [Variable(name, np.float64, shape, offset, here) for name in variables.needed]
        described = [
            Variable(name, variables.dtype, shape, offset, here, unit, words, self._dims)
            for name, unit, words in variables.described(needed)
        ]
        words_of_places = {
            **{axis: f"place along {axis}" for axis in "xyz"},
            "area": "area of the side that a point stands for",
            CURVE: "distance along the side",
            "curve": "number of the curve",
        }
        return described + [
            Variable(name, np.float64, shape, offset, here, "1", words_of_places[name], self._dims, once=True)
            for name in self._coordinates()
        ]

    def _coordinates(self) -> dict[str, NDArray[Any]]:
        """Return the coordinates of what is written, of this rank."""
        if self._dims == FACE_DIMS:
            return {**dict(zip("xyz", self._places)), "area": self._weight}
        if self._dims == (POINT,):
            return {}
        curve = self._curve
        if curve is None:  # not on rank 0
            return dict.fromkeys(("x", "y", "z", CURVE, "curve"), np.empty(0))
        named = {**dict(zip("xyz", curve.places)), CURVE: curve.arc_length, "curve": curve.numbers}
        return {name: np.asarray(values, np.float64) for name, values in named.items()}

    def present(self) -> dict[str, NDArray[Any]]:
        """Return the variables of the present state in the precision of the part."""
        variables, order = self._variables, self._order
        fields = {
            name: np.ascontiguousarray(values[order])
            for name, values in self._values(variables.needed).items()
        }
        fields = variables.with_short_names(fields)
        x, y, z = self._places
        arrays, too_large = self._coordinates(), 0
        for each in variables.variables:
            if self._n_groups:
                here = np.empty(self._weight.shape)
                variables.fill(each, fields, (z, y, x), self._time, here)
                arrays[each.name], more = variables.rounded(self._mean(here))
            else:
                arrays[each.name] = out = np.empty(self._weight.shape, variables.dtype)
                more = variables.fill(each, fields, (z, y, x), self._time, out)
            too_large += more
        variables.warn(self._comm, too_large, self._step)
        return arrays

    def _mean(self, values: Array) -> Array:
        """Return the means of values at the points of faces, in the order of the curve, on rank 0."""
        finite = np.isfinite(values)
        weight = np.where(finite, self._weight, 0.0)
        weighted = np.where(finite, values, 0.0) * weight
        most = self._total * self._n**2
        sums = [
            sum_over_groups(self._comm, part, self._groups, self._n_groups, most)
            for part in (weighted, weight)
        ]
        mean = np.divide(sums[0], sums[1], out=np.full_like(sums[0], np.nan), where=sums[1] > 0)
        return mean if self._curve is None else mean[self._curve.members]

    def _values(self, names: Sequence[str]) -> dict[str, Array]:
        """Return fields at the points of the faces, [f, n, n], in the order of the side."""
        flow, step = self._flow(), self._last_step()
        values: dict[str, Array] = dict(zip(NORMAL, self._normal))
        if any(name in SHEAR for name in names):
            traction = np.negative(self._fluxes.traction(flow, step)[self._side.name].value)
            self._gather.sum(traction)
            traction /= self._area
            along = traction - self._normal * (traction * self._normal).sum(axis=0)
            values |= dict(zip(SHEAR, along))
        for name in names:
            if heat := OF_SCALAR.fullmatch(name):
                flux = self._fluxes.heat(int(heat[1]), flow, step)[self._side.name].value
                values[name] = self._shared(flux)
            elif name not in values:
                values[name] = self._side.take(self._field(name))
        return {name: values[name] for name in names}

    def _shared(self, flux: Array) -> Array:
        """Return a flux times area as a flux, with one value for each point of the side."""
        total = np.zeros(self._area.shape)
        total[0] = flux
        self._gather.sum(total)
        return np.asarray(total[0] / self._area[0])
