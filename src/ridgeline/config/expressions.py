"""Formulas in settings: safe arithmetic of x, y, z and t.

A formula is Python's arithmetic (+ - * / ** %, comparisons, `a if c else b`, and / or / not) of numbers, the
coordinates x, y, z, the time t, the constants pi and e, and the functions in FUNCTIONS. It is parsed once, and every
node of its syntax tree is checked against these lists, so that a formula cannot reach anything else of Python.

A text "file.py:function" stands for a call of that function (`config.user_functions`): its tree is one `UserCall`.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.config.check import nearest
from ridgeline.config.fields import MOST, Problem, toml
from ridgeline.config.user_functions import UserFunction, load_user_function
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.user_code import names_function

Array = NDArray[np.float64]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in (
        *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh"),
        *("exp", "log", "log10", "sqrt", "cbrt", "abs", "sign", "floor", "ceil"),
        *("minimum", "maximum", "where", "hypot", "heaviside"),
    )
}
ARGUMENTS = {"arctan2": 2, "minimum": 2, "maximum": 2, "where": 3, "hypot": 2, "heaviside": 2}
CONSTANTS = {"pi": math.pi, "e": math.e}
VARIABLES = ("x", "y", "z", "t")
MOST_CHARACTERS = 2000
MOST_NODES = 1000
MOST_DEPTH = 200  # of terms in terms: Python evaluates them by calls in calls
_NUMBER = r"0[xXoObB]\w+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?[jJ]?"
_TOKEN = re.compile(rf"(?P<number>{_NUMBER})|(?P<name>\w+)|(?P<sign>\S)")


def _number(truth: Any) -> Any:
    """Return 1.0 for true and 0.0 for false, because NumPy adds booleans by `or` and refuses to subtract them."""
    return np.multiply(truth, 1.0)


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.Mod: np.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: np.positive,
    ast.USub: np.negative,
    ast.Not: lambda a: _number(np.logical_not(a)),
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
_BOOLEAN: dict[type[ast.boolop], Callable[[Any, Any], Any]] = {ast.And: np.logical_and, ast.Or: np.logical_or}


@dataclass(frozen=True)
class Arithmetic:
    """What a checked formula is evaluated with: the operations of some kind of numbers.

    Attributes
    ----------
    number : from a constant to a number
    truth : from what comparisons return to 1 or 0
    binary, unary, compare, boolean : by the node of the syntax tree
    where : of a number (not 0: true) and two others
    functions : by the names of FUNCTIONS
    user : of a function of the user and of the values of its parameters
    product_powers : whether x**2, x**3, ... MOST_FACTORS are products instead of calls of pow
    """

    number: Callable[[float], Any] = float
    truth: Callable[[Any], Any] = _number
    binary: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = field(default_factory=lambda: _BINARY)
    unary: Mapping[type[ast.unaryop], Callable[[Any], Any]] = field(default_factory=lambda: _UNARY)
    compare: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = field(default_factory=lambda: _COMPARE)
    boolean: Mapping[type[ast.boolop], Callable[[Any, Any], Any]] = field(default_factory=lambda: _BOOLEAN)
    where: Callable[[Any, Any, Any], Any] = np.where
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=lambda: FUNCTIONS)
    user: Callable[[UserFunction, Sequence[Any]], Any] = lambda function, values: function(*values)
    product_powers: bool = False


IN_FLOAT64 = Arithmetic()
MOST_FACTORS = 16  # of an integer power that is a product


def arithmetic_in(dtype: DTypeLike) -> Arithmetic:
    """Return NumPy's arithmetic in one precision, to which constants are rounded; small powers are products."""
    number = np.dtype(dtype).type
    one = number(1)

    def truth(value: Any) -> Any:
        return np.multiply(value, one)

    unary = {**_UNARY, ast.Not: lambda a: truth(np.logical_not(a))}
    return Arithmetic(
        number,
        truth,
        unary=unary,
        user=lambda function, values: function.at_points(dtype, *values),
        product_powers=True,
    )


class UserCall(ast.expr):
    """The tree of a text "file.py:function": the function, of the variables that its parameters name."""

    def __init__(self, function: UserFunction) -> None:
        super().__init__()
        self.function = function


class ExpressionError(ValueError):
    """A formula that cannot be used; the message says why and at which character, counted from 1."""


def _fail(node: ast.AST, why: str) -> ExpressionError:
    return ExpressionError(f"{why} (character {getattr(node, 'col_offset', 0) + 1})")


def _refuse_other_notation(text: str) -> None:
    """Raise ExpressionError for a power that is written as ^, and for a product without *."""
    ends_factor = False  # whether the text before may be the left side of a product
    for token in _TOKEN.finditer(text):
        word, at = token.group(), token.start() + 1
        if word == "^":
            raise ExpressionError(f"a power is written as **, not as ^ (character {at})")
        is_name = token.lastgroup == "name"
        if ends_factor and (word == "(" or token.lastgroup == "number" or (is_name and not iskeyword(word))):
            raise ExpressionError(
                f"a product is written with *, which is missing before {word} (character {at})"
            )
        ends_factor = word == ")" or token.lastgroup == "number" or word in VARIABLES or word in CONSTANTS


def _operands(node: ast.expr, variables: Sequence[str]) -> Iterator[ast.expr]:
    """Yield the operands of a node. Raises ExpressionError if a formula may not hold such a node."""
    match node:
        case ast.Constant(value=value):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise _fail(node, f"{ast.unparse(node)} is not a number")
            if not abs(value) <= MOST:
                raise _fail(node, f"a number is above {MOST:g}")
        case ast.Name(id=name):
            if name not in variables and name not in CONSTANTS:
                known = ", ".join((*variables, *CONSTANTS))
                if name in FUNCTIONS:
                    raise _fail(node, f"the function {name} has no arguments")
                near = nearest(name, variables)
                hint = f" (did you mean {near}?)" if near else ""
                raise _fail(node, f"{name} is unknown{hint}; the known names are {known}")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            yield from (left, right)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            yield operand
        case ast.BoolOp(values=values):
            yield from values
        case ast.Compare(left=left, ops=ops, comparators=comparators) if all(
            type(o) in _COMPARE for o in ops
        ):
            yield from (left, *comparators)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield from (test, body, orelse)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            if name not in FUNCTIONS:
                raise _fail(node, f"{name} is not a function; the functions are {', '.join(FUNCTIONS)}")
            need = ARGUMENTS.get(name, 1)
            if len(arguments) != need:
                raise _fail(node, f"{name} takes {need} argument{'s' * (need > 1)}, not {len(arguments)}")
            yield from arguments
        case _:
            raise _fail(node, f"{ast.unparse(node)!r} is not arithmetic")


def _check(tree: ast.expr, variables: Sequence[str]) -> frozenset[str]:
    """Return the variables of a formula. Raises ExpressionError if it holds something that it may not."""
    level, names, count, depth = [tree], set(), 0, 0
    while level:
        count, depth = count + len(level), depth + 1
        if count > MOST_NODES:
            raise ExpressionError(f"there are more than {MOST_NODES} terms")
        if depth > MOST_DEPTH:
            raise ExpressionError(f"terms are nested more than {MOST_DEPTH} deep")
        names |= {node.id for node in level if isinstance(node, ast.Name)}
        level = [child for node in level for child in _operands(node, variables)]
    return frozenset(names & set(variables))


def evaluate(node: ast.expr, values: Mapping[str, Any], using: Arithmetic = IN_FLOAT64) -> Any:
    """Return the value of a checked node. Both branches of a condition are computed: they are arrays.

    values: of all names in it, constants included.
    """

    def inner(node: ast.expr) -> Any:
        return evaluate(node, values, using)

    match node:
        case UserCall():
            return using.user(node.function, [values[name] for name in node.function.parameters])
        case ast.Constant(value=value):
            return using.number(float(value))  # type: ignore[arg-type]
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(n))) if (
            using.product_powers and 1 <= n <= MOST_FACTORS
        ):
            return _power(inner(left), n, using.binary[ast.Mult])
        case ast.BinOp(left=left, op=op, right=right):
            return using.binary[type(op)](inner(left), inner(right))
        case ast.UnaryOp(op=op, operand=operand):
            return using.unary[type(op)](inner(operand))
        case ast.BoolOp(op=op, values=items):
            first, *rest = (inner(item) for item in items)
            for item in rest:
                first = using.boolean[type(op)](first, item)
            return using.truth(first)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            sides = [inner(item) for item in (left, *comparators)]
            result: Any = True
            for relation, a, b in zip(ops, sides, sides[1:]):
                result = using.boolean[ast.And](result, using.compare[type(relation)](a, b))
            return using.truth(result)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return using.where(inner(test), inner(body), inner(orelse))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return using.functions[name](*[inner(item) for item in arguments])
    raise AssertionError(ast.dump(node))


def _power(base: Any, n: int, multiply: Callable[[Any, Any], Any]) -> Any:
    """Return base^n as a product: (x x) x for 3, (x x) (x x) for 4."""
    if n == 1:
        return base
    half = _power(base, n // 2, multiply)
    square = multiply(half, half)
    return multiply(square, base) if n % 2 else square


@runtime_checkable
class Formula(Protocol):
    """What may stand where a formula may: an `Expression`, which says what each part is."""

    @property
    def text(self) -> str: ...

    @property
    def variables(self) -> frozenset[str]: ...

    @property
    def steady(self) -> bool: ...

    def evaluate(self, values: Mapping[str, Any]) -> Array: ...


@dataclass(frozen=True)
class Expression:
    """A checked formula. variables: those that it holds, of x, y, z, t or of the other names that it may hold."""

    text: str
    tree: ast.expr
    variables: frozenset[str]

    @property
    def steady(self) -> bool:
        """Whether it does not depend on time."""
        return "t" not in self.variables

    @property
    def source(self) -> str:
        """The digest of the file of a function, "" for a formula."""
        return self.tree.function.digest if isinstance(self.tree, UserCall) else ""

    def __call__(self, x: Array, y: Array, z: Array, t: float) -> Array:
        """Return the values at points of any shape, float64, at time t; not finite where the formula is undefined."""
        return np.broadcast_to(self.evaluate({"x": x, "y": y, "z": z, "t": t}), np.shape(x)).astype(
            np.float64
        )

    def evaluate(self, values: Mapping[str, Any]) -> Array:
        """Return the value with numbers or arrays for all names that the formula may hold, float64.

        The arrays broadcast; so does the result, which is a single number for a formula without arrays.
        """
        with np.errstate(all="ignore"):
            return np.asarray(evaluate(self.tree, {**CONSTANTS, **values}), np.float64)


def parse(text: str, variables: Sequence[str] = VARIABLES) -> Expression:
    """Return the formula of a text, or the function that it names. Raises ExpressionError, which names the fault.

    variables: the names that it may hold beside constants, those of x, y, z, t by default.
    """
    if names_function(text):
        try:
            function = load_user_function(text, variables)
        except ConfigError as error:
            raise ExpressionError(str(error).rstrip(".")) from error
        return Expression(function.text, UserCall(function), frozenset(function.parameters))
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(f"there are more than {MOST_CHARACTERS} characters")
    stripped = text.strip()
    _refuse_other_notation(stripped)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns about syntax that is refused below
            tree = ast.parse(stripped, mode="eval").body
        return Expression(stripped, tree, _check(tree, variables))
    except SyntaxError as error:
        raise ExpressionError(f"{error.msg} (character {error.offset or len(stripped) + 1})") from None
    except ExpressionError:
        raise
    except (ValueError, RecursionError, MemoryError):
        raise ExpressionError("this is not a formula (character 1)") from None


def is_number(text: str) -> bool:
    """Say whether a formula is a plain number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def is_zero(text: str) -> bool:
    """Say whether a formula is the number 0."""
    return is_number(text) and float(text) == 0.0


def constant(text: str) -> float:
    """Return the value of a formula without variables; nan if the text is not one."""
    zero = np.zeros(1)
    try:
        if names_function(text):
            return math.nan
        return float(parse(text, ())(zero, zero, zero, 0.0)[0])
    except ExpressionError:
        return math.nan


def faults(
    key: str, texts: Sequence[str], steady: bool = False, variables: Sequence[str] = VARIABLES
) -> Iterator[Problem]:
    """Yield the faults of the formulas of a setting.

    steady: whether they must not depend on time. variables: the names that they may hold, if it is not x, y, z, t.
    """
    variables = [name for name in variables if not (steady and name == "t")]
    for text in texts:
        try:
            parse(text, variables)
        except ExpressionError as error:
            yield Problem(key, f"formulas of {', '.join(variables)}. In {toml(text.strip())}, {error}")
