"""The counted work of a step: flops and least bytes of each pass over this rank's elements, in closed form."""

from __future__ import annotations

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.models.navier_stokes.problem import FlowProblem
from ridgeline.models.navier_stokes.sources import is_kept

WORD = 8.0  # bytes


def buoyancy_counts(n_scalars: int, n_components: int) -> tuple[float, float]:
    """Return (flops, words) per stored point of the buoyancy of n_scalars on n_components of the velocity."""
    return 4.0 * n_scalars * n_components, n_scalars + 2.0 * n_components if n_scalars else 0.0


class StepWork:
    """(flops, bytes) of each pass: fields are read and written once, curved elements also read their geometry."""

    def __init__(self, geometry: ElementGeometry, problem: FlowProblem) -> None:
        self._problem, self._n_elements, self._n = problem, geometry.grid.n_elements, geometry.grid.n
        self._fields = 3 + len(problem.scalars)
        self._points, self._aligned = float(geometry.grid.n_points), geometry.axis_aligned

    def _curved(self, words: float) -> float:
        """Return the words per point that curved elements read beside the fields, 0 for axis-aligned elements."""
        return 0.0 if self._aligned else words

    def advection(self) -> tuple[float, float]:
        """Return the work of the weak rates: fields in, rates out, fine metrics of curved elements."""
        n, c = self._n, self._fields
        m = self._problem.dealias_points or n
        if self._problem.dealias_points:
            to_fine = 2.0 * (m * n**3 + m**2 * n**2 + m**3 * n)  # and back
            derivatives = 2.0 * (2 * m**4 + m**3 * n)
        else:
            to_fine, derivatives = 0.0, 6.0 * n**4
        per_element = c * (2 * to_fine + derivatives + 6 * m**3)
        words = 2 * c + self._curved(9 * (m / n) ** 3)
        return self._n_elements * per_element, WORD * words * self._points

    def right_hand_side(self) -> tuple[float, float]:
        """Return the work of the known side of a step."""
        order, values = self._problem.time_order, self._fields * self._points
        words = (2.0 * order + 1.0) * values + self._curved(self._points)
        return (4.0 * order + 2.0) * values, WORD * words

    def divergence(self) -> tuple[float, float]:
        """Return the work of the divergence of the force."""
        flops = (6.0 * self._n + 4 + self._curved(18)) * self._points
        return flops, WORD * (5 + self._curved(10)) * self._points

    def momentum(self) -> tuple[float, float]:
        """Return the work of the right-hand side of the velocity."""
        flops = (6.0 * self._n + 12 + self._curved(15)) * self._points
        return flops, WORD * (8 + self._curved(10)) * self._points

    def sources(self) -> tuple[float, float]:
        """Return the work of the source terms: fields, places and kept formulas in, rates in and out."""
        words = sum(
            2.0
            + self._curved(1)
            + (term.strength is not None)
            + sum(
                1.0 if is_kept(formula) else len(formula.variables - {"t"}) for _, formula in term.formulas()
            )
            for term in self._problem.source_terms
        )
        return 2.0 * len(self._problem.source_terms) * self._points, WORD * words * self._points

    def variable_diffusion(self) -> tuple[float, float]:
        """Return the work of the diffusion beyond that of the reference coefficients."""
        flops = words = 0.0
        for each in self._problem.variable_coefficients:
            flops += each.count * (12.0 * self._n + 7.0 * each.count + self._curved(33)) * self._points
            formula = 0.0 if each.steady else len(each.formula.variables - {"t"}) + 3.0
            words += formula + 1.0 + 3.0 * each.count + self._curved(10)
        return flops, WORD * words * self._points

    def buoyancy(self) -> tuple[float, float]:
        """Return the work of the force of the scalars on the flow."""
        used = self._problem.buoyancy_factors()[0] != 0.0
        flops, words = buoyancy_counts(int(used.any(axis=0).sum()), int(used.any(axis=1).sum()))
        return flops * self._points, WORD * (words + self._curved(1)) * self._points
