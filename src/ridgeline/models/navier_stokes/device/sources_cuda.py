"""Source terms in GPU memory: each becomes a kernel, which evaluates its formulas at every point in every step.

`jit.formulas` writes a formula, which `config.expressions` evaluates with NumPy on the host, as a device function of
one point. Formulas of place alone are evaluated on the host, once, and kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda

from ridgeline.config.expressions import Formula
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.helmholtz_cuda import element_of_block
from ridgeline.elements.device.tensor_cuda import launch_bounds, layout_of
from ridgeline.jit.cuda_device import flat, fma, kernel, load, store
from ridgeline.jit.formulas_cuda import CUDA
from ridgeline.models.navier_stokes.device.kernels_cuda import make_mass
from ridgeline.models.navier_stokes.kernels import make_source_function
from ridgeline.models.navier_stokes.problem import FlowProblem
from ridgeline.models.navier_stokes.sources import COMPONENTS, PLACES, SourceTerm, kept_formulas, used_places
from ridgeline.runtime.errors import DeviceError

_REGISTERS = 128  # of a thread: a sine of float64 takes some 40, and formulas keep several values


def make_source(n: int, axis_aligned: bool, term: SourceTerm, places: Sequence[str] = PLACES) -> Any:
    """Return kernel(order, first, end, places, fields, points, time, mass, weights, out), as those of `kernels_cuda`.

    out [points] -= mass term. places: what varies with the place, [k, points]: coordinates and kept formulas, of
    which the names, or the texts, are given here; fields: velocity and scalars, [3 + S, points]. Cost: reads what
    occurs in the formulas (and the mass of curved elements), reads and writes out.
    """
    layout = layout_of(n)
    square, cube, elements = n * n, n**3, layout.elements

    def read(name: str) -> str:
        if name == "t":
            return "time"
        if name in places:
            return f"load(places, {places.index(name)}*points + at)"
        number = COMPONENTS.index(name) if name in COMPONENTS else 3 + int(name.removeprefix("scalar_"))
        return f"load(fields, {number}*points + at)"

    mass_at = make_mass(n, axis_aligned)
    source_at = make_source_function(term, CUDA, "places, fields, points, time, at", read, load=load)

    @kernel(*launch_bounds(n, np.float64, _REGISTERS))
    def source(order, first, end, places, fields, points, time, mass, weights, out):
        i, j = cuda.threadIdx.x, cuda.threadIdx.y
        _, element, mine = element_of_block(order, first, end, 1, elements, cuda.blockIdx.x, cuda.threadIdx.z)
        if mine:
            at = element * cube + j * n + i
            for k in range(n):
                value = source_at(places, fields, points, time, at)
                weight = mass_at(mass, weights, element, k, j, i)
                store(out, at, fma(-weight, value, load(out, at)))
                at += square

    return source


def require_kernels(problem: FlowProblem) -> None:
    """Raise DeviceError, with advice, for sources that are not formulas and for coefficients that are."""
    for coefficient in problem.variable_coefficients:
        raise DeviceError(f"there are no GPU kernels for {coefficient.key}. Run with --device cpu.")
    for i, scalar in enumerate(problem.scalars):
        if scalar.source is not None and not isinstance(scalar.source, Formula):
            raise DeviceError(
                f"scalar.{i} has a source that is not a formula, for which there are no GPU kernels. Pass "
                "config.expressions.parse(text) instead, or run with --device cpu."
            )


class CudaSources:
    """The source terms of a problem which `require_kernels` has checked. Compiled at the first use.

    Memory: the coordinates that occur in formulas that are evaluated in each step, and the kept formulas.
    """

    def __init__(self, geometry: CudaGeometry, problem: FlowProblem) -> None:
        self._geometry, terms = geometry, problem.source_terms
        coordinates, kept = geometry.host.coordinates, kept_formulas(terms)
        at = dict(zip(PLACES, coordinates))
        axes = used_places(terms)
        names = [*(PLACES[axis] for axis in axes), *(formula.text for formula in kept)]
        arrays = [*(coordinates[axis] for axis in axes), *(formula.evaluate(at) for formula in kept)]
        self._sources = [
            (term.field, make_source(geometry.n, geometry.axis_aligned, term, names)) for term in terms
        ]
        self._places = cuda.to_device(np.stack(arrays).reshape(-1)) if arrays else None

    def __bool__(self) -> bool:
        return bool(self._sources)

    def subtract(self, fields: Any, time: float, rates: Any) -> None:
        """Subtract the terms of fields at a time from their weak rates, both [3 + S, E, n, n, n]."""
        geometry, (_, mass, weights) = self._geometry, self._geometry.metric
        layout, count = geometry.layout, geometry.gather.n_elements
        values = flat(fields)
        places = values if self._places is None else self._places
        for i, source in self._sources:
            source[layout.blocks(count), (geometry.n, geometry.n, layout.elements), geometry.stream](
                geometry.gather.order, 0, count, places, values, geometry.points, float(time), mass, weights,
                flat(rates[i]),
            )  # fmt: skip
