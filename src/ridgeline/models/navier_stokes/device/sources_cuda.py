"""Sources of scalars in GPU memory: each formula becomes a kernel, which is evaluated at every point in every step.

`make_formula` writes a formula, which `config.expressions` evaluates with NumPy on the host, as a device function of
one point. Every value is float64; truths are 1.0 and 0.0. Functions that Numba has for GPUs under NumPy's names are
taken from there, and the others are defined here. Results are those of NumPy but for rounding.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import libdevice

from ridgeline.config.expressions import CONSTANTS, FUNCTIONS, VARIABLES, Expression
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.helmholtz_cuda import element_of_block
from ridgeline.elements.device.tensor_cuda import launch_bounds, layout_of
from ridgeline.jit.cuda_device import SIMULATED, device_function, flat, fma, kernel, load, store
from ridgeline.models.navier_stokes.device.kernels_cuda import make_mass
from ridgeline.models.navier_stokes.device_memory import axes_of_sources
from ridgeline.models.navier_stokes.problem import TransportedScalar
from ridgeline.runtime.errors import DeviceError

_REGISTERS = 128  # of a thread: a sine of float64 takes some 40, and formulas keep several values

# Those of Python raise where numbers leave their range, so that the simulator has NumPy's.
_BARE: dict[str, Any] = (
    {
        "exp": np.exp,
        "sqrt": np.sqrt,
        "cbrt": np.cbrt,
        "floor": np.floor,
        "ceil": np.ceil,
        "power": np.power,
    }
    if SIMULATED
    else {
        "exp": math.exp,
        "sqrt": math.sqrt,
        "cbrt": libdevice.cbrt,
        "floor": math.floor,
        "ceil": math.ceil,
        "power": math.pow,
    }
)
_remainder: Any = np.fmod if SIMULATED else math.fmod


@device_function
def _sign(a):
    if a > 0.0:
        return 1.0
    return -1.0 if a < 0.0 else a


@device_function
def _heaviside(a, middle):
    if a == 0.0:
        return middle
    return _truth(a > 0.0) if a == a else a


@device_function
def _mod(a, b):
    """Return the remainder with the sign of b."""
    rest = _remainder(a, b)
    return rest + b if rest != 0.0 and (rest < 0.0) != (b < 0.0) else rest


@device_function
def _truth(a):
    return 1.0 if a else 0.0


@device_function
def _both(a, b):
    return 1.0 if a != 0.0 and b != 0.0 else 0.0


@device_function
def _either(a, b):
    return 1.0 if a != 0.0 or b != 0.0 else 0.0


@device_function
def _where(a, b, c):
    return b if a != 0.0 else c


_NAMES = {
    **FUNCTIONS,
    **_BARE,
    "abs": abs,
    "sign": _sign,
    "heaviside": _heaviside,
    "where": _where,
    "mod": _mod,
    "divide": np.divide,
    "truth": _truth,
    "both": _both,
    "either": _either,
}
_OPERATORS = {ast.Div: "divide", ast.Pow: "power", ast.Mod: "mod"}


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


class _OnePoint(ast.NodeTransformer):
    """Writes a checked formula in terms of `_NAMES`."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.Constant(float(node.value))  # type: ignore[arg-type]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(CONSTANTS[node.id]) if node.id in CONSTANTS else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = self.visit(node.left), self.visit(node.right)
        name = _OPERATORS.get(type(node.op))
        return _call(name, left, right) if name else ast.BinOp(left, node.op, right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return _call("truth", ast.Compare(operand, [ast.Eq()], [ast.Constant(0.0)]))
        return ast.UnaryOp(node.op, operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        name = "both" if isinstance(node.op, ast.And) else "either"
        result, *rest = (self.visit(value) for value in node.values)
        for value in rest:
            result = _call(name, result, value)
        return result

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        sides = [self.visit(side) for side in (node.left, *node.comparators)]
        result, *rest = (
            _call("truth", ast.Compare(a, [relation], [b]))
            for relation, a, b in zip(node.ops, sides, sides[1:])
        )
        for value in rest:
            result = _call("both", result, value)
        return result

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return _call("where", *(self.visit(part) for part in (node.test, node.body, node.orelse)))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return ast.Call(node.func, [self.visit(argument) for argument in node.args], [])


def make_formula(formula: Expression) -> Any:
    """Return the device function f(x, y, z, t) of a formula. Its syntax tree has been checked by `parse`."""
    body = ast.fix_missing_locations(
        ast.Expression(_OnePoint().visit(ast.parse(formula.text, mode="eval").body))
    )
    text = f"lambda {', '.join(VARIABLES)}: {ast.unparse(body)}"
    return device_function(eval(text, {"__builtins__": {}, **_NAMES}))


def make_source(n: int, axis_aligned: bool, formula: Expression) -> Any:
    """Return kernel(order, first, end, x, y, z, time, mass, weights, out), arguments as in `kernels_cuda`.

    out -= mass f(x, y, z, time). x, y, z: coordinates of all points, [E, n, n, n]; for an axis that does not occur in
    the formula, any array of that size, which is not read. Cost: reads the coordinates that occur (and the mass of
    curved elements), reads and writes out.
    """
    layout = layout_of(n)
    square, cube, elements = n * n, n**3, layout.elements
    mass_at, source_at = make_mass(n, axis_aligned), make_formula(formula)

    @kernel(*launch_bounds(n, np.float64, _REGISTERS))
    def source(order, first, end, x, y, z, time, mass, weights, out):
        i, j = cuda.threadIdx.x, cuda.threadIdx.y
        _, element, mine = element_of_block(order, first, end, 1, elements, cuda.blockIdx.x, cuda.threadIdx.z)
        if mine:
            at = element * cube + j * n + i
            for k in range(n):
                value = source_at(load(x, at), load(y, at), load(z, at), time)
                weight = mass_at(mass, weights, element, k, j, i)
                store(out, at, fma(-weight, value, load(out, at)))
                at += square

    return source


def require_formulas(scalars: Sequence[TransportedScalar]) -> None:
    """Raise DeviceError, with advice, for sources that are not formulas."""
    for i, scalar in enumerate(scalars):
        if scalar.source is not None and not isinstance(scalar.source, Expression):
            raise DeviceError(
                f"scalar.{i} has a source that is not a formula, for which there are no GPU kernels. Pass "
                "config.expressions.parse(text) instead, or run with --device cpu."
            )


class CudaSources:
    """The sources of a flow's scalars, which `require_formulas` has checked. Compiled at the first use.

    Memory: the coordinates that occur in the formulas.
    """

    def __init__(self, geometry: CudaGeometry, scalars: Sequence[TransportedScalar]) -> None:
        self._geometry = geometry
        self._sources: list[tuple[int, Any]] = [
            (i, make_source(geometry.n, geometry.axis_aligned, scalar.source))
            for i, scalar in enumerate(scalars, start=3)
            if isinstance(scalar.source, Expression)
        ]
        self._axes: dict[int, Any] = {
            axis: cuda.to_device(geometry.host.coordinates[axis].reshape(-1))
            for axis in axes_of_sources(scalars)
        }

    def __bool__(self) -> bool:
        return bool(self._sources)

    def subtract(self, time: float, rates: Any) -> None:
        """Subtract the sources at a time from the weak rates [3 + S, E, n, n, n]."""
        geometry, (_, mass, weights) = self._geometry, self._geometry.metric
        layout, count = geometry.layout, geometry.gather.n_elements
        for i, source in self._sources:
            out = flat(rates[i])
            x, y, z = (self._axes.get(axis, out) for axis in range(3))
            source[layout.blocks(count), (geometry.n, geometry.n, layout.elements), geometry.stream](
                geometry.gather.order, 0, count, x, y, z, float(time), mass, weights, out
            )
