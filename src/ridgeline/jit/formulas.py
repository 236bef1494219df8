"""Formulas as compiled functions of one point: one writer for CPUs and GPUs.

    f = point_function(formula, ("x", "y", "t"), CPU)    a function of three numbers, for other kernels to call
    evaluate = FormulaLoop(formula, ("x", "y"), ("t",))  a compiled loop over the points of arrays
    evaluate({"x": x, "y": y, "t": 0.5}, out)

A formula has been checked by `config.expressions.parse`, which evaluates it with NumPy on whole arrays. Here its
syntax tree becomes a Python function of numbers, which Numba compiles. Every value is float64; truths are 1.0 and
0.0. Results are those of NumPy but for rounding, also where they are not finite. The code of the function is part of
the key of each kernel that calls it, and so is the formula. `jit.formulas_cuda.CUDA` is the target for GPUs.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, prange, types
from numpy.typing import NDArray

from ridgeline.config.expressions import CONSTANTS, FUNCTIONS, MOST_FACTORS, Formula, UserCall
from ridgeline.jit.kernel import kernel, subroutine


@dataclass(frozen=True)
class FormulaTarget:
    """What formulas are compiled for. names: what their code calls; declare: makes a function callable by kernels."""

    names: Mapping[str, Any]
    declare: Callable[[Any], Any]


def _sign(a):
    if a > 0.0:
        return 1.0
    if a < 0.0:
        return -1.0
    return 0.0 if a == 0.0 else a


def _heaviside(a, middle):
    if a > 0.0:
        return 1.0
    if a < 0.0:
        return 0.0
    return middle if a == 0.0 else a


def _truth(a):
    return 1.0 if a else 0.0


def _both(a, b):
    return 1.0 if a != 0.0 and b != 0.0 else 0.0


def _either(a, b):
    return 1.0 if a != 0.0 or b != 0.0 else 0.0


def _where(a, b, c):
    return b if a != 0.0 else c


def _make_mod(remainder: Any) -> Callable[..., Any]:
    """Return the remainder with the sign of b. remainder: the one with the sign of a."""

    def mod(a, b):
        rest = remainder(a, b)
        if rest == 0.0:
            return math.copysign(0.0, b)
        return rest + b if (rest < 0.0) != (b < 0.0) else rest

    return mod


def _make_power(n: int) -> Callable[..., Any]:
    """Return a^n as the product (a a) a for n = 3, (a a) (a a) for n = 4."""

    def integer_power(a):
        result, square, left = 1.0, a, n
        while True:
            if left & 1:
                result = result * square
            left >>= 1
            if left == 0:
                return result
            square = square * square

    return integer_power


def names_of_target(declare: Callable[[Any], Any], remainder: Any, **functions: Any) -> dict[str, Any]:
    """Return what the code of formulas calls. functions: those that a target has under a name of its own."""
    own = {"sign": _sign, "heaviside": _heaviside, "truth": _truth, "both": _both, "either": _either}
    powers = {f"power_{n}": _make_power(n) for n in range(1, MOST_FACTORS + 1)}
    helpers = {**own, **powers, "where": _where, "mod": _make_mod(remainder)}
    return {
        **FUNCTIONS,
        "abs": abs,
        "divide": np.divide,
        **{name: declare(function) for name, function in helpers.items()},
        **functions,
    }


def _declare(function: Callable[..., Any]) -> Any:
    return subroutine(error_model="numpy")(function)


CPU = FormulaTarget(names_of_target(_declare, np.fmod, power=math.pow), _declare)

_OPERATORS = {ast.Div: "divide", ast.Pow: "power", ast.Mod: "mod"}


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(_global_name(name), ast.Load()), list(arguments), [])


def _global_name(function: str) -> str:
    """Return the name of a function in the code, which no variable of a formula can have."""
    return f"formula.{function}"


class _OnePoint(ast.NodeTransformer):
    """Writes a checked formula in terms of the names of a target. arguments: names that hide constants."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._constants = {name: value for name, value in CONSTANTS.items() if name not in arguments}

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.Constant(float(node.value))  # type: ignore[arg-type]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self._constants[node.id]) if node.id in self._constants else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left = self.visit(node.left)
        if isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant):
            power = float(node.right.value)  # type: ignore[arg-type]
            if power in range(1, MOST_FACTORS + 1):
                return _call(f"power_{int(power)}", left)
        right = self.visit(node.right)
        name = _OPERATORS.get(type(node.op))
        return _call(name, left, right) if name else ast.BinOp(left, node.op, right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand: ast.expr = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return _call("truth", ast.Compare(operand, [ast.Eq()], [ast.Constant(0.0)]))
        return ast.UnaryOp(node.op, operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        name = "both" if isinstance(node.op, ast.And) else "either"
        result: ast.expr = self.visit(node.values[0])
        for value in node.values[1:]:
            result = _call(name, result, self.visit(value))
        return result

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        sides = [self.visit(side) for side in node.comparators]
        return _call("truth", ast.Compare(self.visit(node.left), node.ops, sides))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return _call("where", *(self.visit(part) for part in (node.test, node.body, node.orelse)))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        assert isinstance(node.func, ast.Name)
        return _call(node.func.id, *(self.visit(argument) for argument in node.args))


def point_function(formula: Formula, arguments: Sequence[str], target: FormulaTarget) -> Any:
    """Return a formula as a compiled function of one point, which kernels of the target call.

    Parameters
    ----------
    formula
        What `config.expressions.parse` returned.
    arguments
        The names of the arguments, in order: at least the variables of the formula.
    target
        `CPU`, or `jit.formulas_cuda.CUDA`.

    Returns
    -------
    callable
        f(*arguments) -> float64, of float64 numbers. Compiled with the kernel that calls it.
    """
    missing = formula.variables.difference(arguments)
    if missing:
        raise ValueError(
            f"the formula {formula.text} holds {', '.join(sorted(missing))}, which is not an argument"
        )
    tree = getattr(formula, "tree", None)
    if isinstance(tree, UserCall):
        tree.function.compiled("float64")  # which says what is wrong with it
        call = f"lambda {', '.join(arguments)}: 1.0 * user({', '.join(tree.function.parameters)})"
        user = target.declare(tree.function.function)
        return target.declare(eval(call, {"__builtins__": {}, "user": user}))
    body = _OnePoint(arguments).visit(ast.parse(formula.text, mode="eval").body)
    names = ast.arguments([], [ast.arg(name) for name in arguments], None, [], [], None, [])
    tree = ast.fix_missing_locations(ast.Expression(ast.Lambda(names, body)))
    functions = {_global_name(name): function for name, function in target.names.items()}
    return target.declare(eval(compile(tree, "<formula>", "eval"), {"__builtins__": {}, **functions}))


def _make_loop(formula: Formula, arrays: Sequence[str], numbers: Sequence[str], parallel: bool) -> Any:
    """Return kernel(arrays, numbers, out), arrays and numbers as tuples in the order of the names."""
    point = point_function(formula, (*arrays, *numbers), CPU)
    values = [f"arrays[{i}][p]" for i in range(len(arrays))] + [f"numbers[{i}]" for i in range(len(numbers))]
    # Numba does not unpack tuples of arrays at a point, so that the call is written out.
    at_point = _declare(
        eval(f"lambda arrays, numbers, p: point({', '.join(values)})", {"__builtins__": {}, "point": point})
    )
    read = types.Array(float64, 1, "C", readonly=True)
    signature = (
        types.Tuple([read] * len(arrays)),
        types.Tuple([float64] * len(numbers)),
        float64[::1],
    )

    @kernel(signature, nogil=True, error_model="numpy", parallel=parallel)
    def formula_loop(arrays, numbers, out):
        for p in prange(out.size):
            out[p] = at_point(arrays, numbers, p)

    return formula_loop


class FormulaLoop:
    """A formula, compiled for arrays of points on the CPU. Compiled at once, or loaded from the cache.

    Parameters
    ----------
    formula
        What `config.expressions.parse` returned.
    arrays
        The names that may have another value at each point.
    numbers
        The names that have one value for all points, such as t.
    parallel
        Whether the points are shared by the threads of Numba; otherwise, one thread does them all.

    Notes
    -----
    Local. Memory: reads the arrays that occur in the formula once, writes out once.
    """

    def __init__(
        self, formula: Formula, arrays: Sequence[str], numbers: Sequence[str] = (), parallel: bool = False
    ) -> None:
        self.arrays = tuple(name for name in arrays if name in formula.variables)
        self.numbers = tuple(name for name in numbers if name in formula.variables)
        self._loop = _make_loop(formula, self.arrays, self.numbers, parallel)

    def __call__(self, values: Mapping[str, Any], out: NDArray[np.float64]) -> None:
        """Set out to the formula at all points.

        values: of the names that occur in the formula, contiguous float64 arrays of out's size, or numbers.
        """
        points = tuple(values[name].reshape(-1) for name in self.arrays)
        if any(each.size != out.size for each in points) or not out.flags.c_contiguous:
            raise ValueError(
                f"{[each.size for each in points]} points do not fit a contiguous out of {out.size}"
            )
        self._loop(points, tuple(float(values[name]) for name in self.numbers), out.reshape(-1))
