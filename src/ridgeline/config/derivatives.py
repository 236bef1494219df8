"""Symbolic derivatives of formulas, for the forces of a potential.

    derivative(parse("x**2*sin(y)"), "x").text == "2 * x * sin(y)"

The rules are those of calculus at points where a formula has a derivative. At jumps and kinks, of `floor`, `sign`,
`abs`, comparisons and choices, the derivative is that of the branch which the formula takes there.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

from ridgeline.config.expressions import MOST_NODES, Expression, ExpressionError, UserCall

MOST_NODES_OF_DERIVATIVE = 4 * MOST_NODES

_ZERO, _ONE, _TWO = (ast.Constant(value) for value in (0.0, 1.0, 2.0))


def derivative(expression: Expression, name: str) -> Expression:
    """Return the derivative of a checked formula by one of its variables; "0.0" if it does not hold that variable.

    Raises ExpressionError if a part cannot be differentiated, or if the result has too many terms.
    """
    try:
        tree = _derivative(expression.tree, name)
        nodes = sum(isinstance(node, ast.expr) for node in ast.walk(tree))
        if nodes > MOST_NODES_OF_DERIVATIVE:
            raise ExpressionError(f"the derivative by {name} has more than {MOST_NODES_OF_DERIVATIVE} terms")
        text = ast.unparse(tree)
    except RecursionError:
        raise ExpressionError(f"terms are nested too deep for a derivative by {name}") from None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return Expression(text, ast.parse(text, mode="eval").body, frozenset(names & expression.variables))


def _value(node: ast.expr) -> float | None:
    """Return the value of a constant, None for anything else."""
    return float(node.value) if isinstance(node, ast.Constant) else None  # type: ignore[arg-type]


def _add(a: ast.expr, b: ast.expr) -> ast.expr:
    if _value(a) == 0:
        return b
    return a if _value(b) == 0 else ast.BinOp(a, ast.Add(), b)


def _negative(a: ast.expr) -> ast.expr:
    value = _value(a)
    return ast.UnaryOp(ast.USub(), a) if value is None else ast.Constant(-value + 0.0)


def _subtract(a: ast.expr, b: ast.expr) -> ast.expr:
    if _value(b) == 0:
        return a
    return _negative(b) if _value(a) == 0 else ast.BinOp(a, ast.Sub(), b)


def _times(a: ast.expr, b: ast.expr) -> ast.expr:
    first, second = _value(a), _value(b)
    if first == 0 or second == 0:
        return _ZERO
    if first == 1:
        return b
    if second == 1:
        return a
    return ast.Constant(first * second) if first and second else ast.BinOp(a, ast.Mult(), b)


def _over(a: ast.expr, b: ast.expr) -> ast.expr:
    return a if _value(a) == 0 or _value(b) == 1 else ast.BinOp(a, ast.Div(), b)


def _power(a: ast.expr, b: ast.expr) -> ast.expr:
    return a if _value(b) == 1 else ast.BinOp(a, ast.Pow(), b)


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _choice(test: ast.expr, yes: ast.expr, no: ast.expr) -> ast.expr:
    both = _value(yes), _value(no)
    return yes if None not in both and both[0] == both[1] else ast.IfExp(test, yes, no)


def _square(a: ast.expr) -> ast.expr:
    return _power(a, ast.Constant(2))


# Of a function of one argument, the factor of the derivative of the argument.
_SLOPES: dict[str, Callable[[ast.expr], ast.expr]] = {
    "sin": lambda a: _call("cos", a),
    "cos": lambda a: _negative(_call("sin", a)),
    "tan": lambda a: _add(_ONE, _square(_call("tan", a))),
    "arcsin": lambda a: _over(_ONE, _call("sqrt", _subtract(_ONE, _square(a)))),
    "arccos": lambda a: _over(ast.Constant(-1.0), _call("sqrt", _subtract(_ONE, _square(a)))),
    "arctan": lambda a: _over(_ONE, _add(_ONE, _square(a))),
    "sinh": lambda a: _call("cosh", a),
    "cosh": lambda a: _call("sinh", a),
    "tanh": lambda a: _subtract(_ONE, _square(_call("tanh", a))),
    "exp": lambda a: _call("exp", a),
    "log": lambda a: _over(_ONE, a),
    "log10": lambda a: _over(ast.Constant(1 / math.log(10)), a),
    "sqrt": lambda a: _over(ast.Constant(0.5), _call("sqrt", a)),
    "cbrt": lambda a: _over(_ONE, _times(ast.Constant(3.0), _square(_call("cbrt", a)))),
    "abs": lambda a: _call("sign", a),
    "sign": lambda a: _ZERO,
    "floor": lambda a: _ZERO,
    "ceil": lambda a: _ZERO,
}


def _of_power(a: ast.expr, b: ast.expr, da: ast.expr, db: ast.expr) -> ast.expr:
    """Return the derivative of a^b."""
    of_base: ast.expr = _ZERO
    if _value(da) != 0:
        if isinstance(b, ast.Constant):
            less = ast.Constant(b.value - 1)  # type: ignore[operator]  # of an integer an integer
            of_base = _times(_times(b, _power(a, less)), da) if b.value else _ZERO
        else:
            of_base = _times(_times(b, _power(a, _subtract(b, _ONE))), da)
    of_exponent = _times(_times(_power(a, b), _call("log", a)), db) if _value(db) != 0 else _ZERO
    return _add(of_base, of_exponent)


def _of_operation(node: ast.BinOp, name: str) -> ast.expr:
    a, b = node.left, node.right
    da, db = _derivative(a, name), _derivative(b, name)
    match node.op:
        case ast.Add():
            return _add(da, db)
        case ast.Sub():
            return _subtract(da, db)
        case ast.Mult():
            return _add(_times(da, b), _times(a, db))
        case ast.Div():
            return _subtract(_over(da, b), _over(_times(a, db), _square(b)) if _value(db) != 0 else _ZERO)
        case ast.Pow():
            return _of_power(a, b, da, db)
        case ast.Mod():
            return _subtract(da, _times(_call("floor", _over(a, b)), db) if _value(db) != 0 else _ZERO)
    raise AssertionError(ast.dump(node))


def _of_call(node: ast.Call, name: str) -> ast.expr:
    function = node.func.id if isinstance(node.func, ast.Name) else ""
    if function == "where":
        test, yes, no = node.args
        return _choice(test, _derivative(yes, name), _derivative(no, name))
    inner = [_derivative(argument, name) for argument in node.args]
    if all(_value(each) == 0 for each in inner):
        return _ZERO
    if function in _SLOPES:
        return _times(_SLOPES[function](node.args[0]), inner[0])
    if len(node.args) == 2:
        (a, b), (da, db) = node.args, inner
        match function:
            case "minimum" | "maximum":
                order = ast.LtE() if function == "minimum" else ast.GtE()
                return _choice(ast.Compare(a, [order], [b]), da, db)
            case "hypot":
                return _over(_add(_times(a, da), _times(b, db)), node)
            case "arctan2":
                return _over(_subtract(_times(b, da), _times(a, db)), _add(_square(a), _square(b)))
            case "heaviside":
                return _choice(ast.Compare(a, [ast.Eq()], [_ZERO]), db, _ZERO)
    raise ExpressionError(f"{ast.unparse(node)!r} cannot be differentiated by {name}")


def _derivative(node: ast.expr, name: str) -> ast.expr:
    match node:
        case ast.Constant() | ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return _ZERO
        case ast.Name(id=own):
            return _ONE if own == name else _ZERO
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _negative(_derivative(operand, name))
        case ast.UnaryOp(operand=operand):
            return _derivative(operand, name)
        case ast.BinOp():
            return _of_operation(node, name)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _choice(test, _derivative(body, name), _derivative(orelse, name))
        case ast.Call():
            return _of_call(node, name)
        case UserCall():
            raise ExpressionError(f"a Python function has no derivative by {name}. Write a formula")
    raise ExpressionError(f"{ast.unparse(node)!r} cannot be differentiated by {name}")
