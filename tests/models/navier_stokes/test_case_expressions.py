"""Formulas: what they compute, what they refuse, and where they say it is."""

import numpy as np
import pytest

from ridgeline.config.expressions import FUNCTIONS, ExpressionError, faults, is_number, parse

X, Y, Z = np.random.default_rng(1).uniform(0.1, 0.9, (3, 2, 5))


VALUES = [
    ("1", np.ones_like(X)),
    (" 2*x - y/z ", 2 * X - Y / Z),
    ("-x**2 + 5 % 3", -(X**2) + 2),
    ("sin(pi*x)*exp(-t)", np.sin(np.pi * X) * np.exp(-0.5)),
    ("log(e) + sqrt(abs(x - 1))", 1 + np.sqrt(1 - X)),
    ("1 if x < 0.5 else y", np.where(X < 0.5, 1, Y)),
    ("where(0.2 < x <= 0.6 and not y > z, 1, 0)", ((X > 0.2) & (X <= 0.6) & (Y <= Z)) * 1.0),
    ("x > 0.5 or y > 0.5", ((X > 0.5) | (Y > 0.5)) * 1.0),
    ("arctan2(y, x) + maximum(x, y)", np.arctan2(Y, X) + np.maximum(X, Y)),
    ("(x > 0.2) + (x > 0.4) - (y < 0.5)", 1.0 * (X > 0.2) + (X > 0.4) - (Y < 0.5)),
    ("-(x > 0.5) + (not y > 0.5)", 1.0 * (Y <= 0.5) - (X > 0.5)),
    ("+(x > 0.5 or y > 0.5) * 2", 2.0 * ((X > 0.5) | (Y > 0.5))),
    ("1/(x - x)", np.full_like(X, np.inf)),
]


def test_values():
    for text, expected in VALUES:
        found = parse(text)(X, Y, Z, 0.5)
        assert (found.shape, found.dtype) == (X.shape, np.float64), text
        assert found.flags.writeable, text
        assert np.allclose(found, expected, rtol=1e-15, atol=0), text


def test_variables():
    assert parse("x + sin(t)").variables == {"x", "t"}
    assert not parse("x + sin(t)").steady
    assert parse("pi*y").steady
    assert not parse("e + 1").variables
    assert [is_number(text) for text in ("1.5", "-2e3", "nan", "pi", "")] == [True, True, False, False, False]


def test_every_function_can_be_called():
    for name in FUNCTIONS:
        arguments = {"where": "x, y, z", "arctan2": "x, y", "minimum": "x, y", "maximum": "x, y"}
        arguments |= {"hypot": "x, y", "heaviside": "x, y"}
        assert np.isfinite(parse(f"{name}({arguments.get(name, 'x')})")(X, Y, Z, 0.0)).all()


NO_FORMULAS = [
    ("x +", "invalid syntax (character 4)"),
    ("", "invalid syntax (character 1)"),
    ("x + q", "q is unknown; the known names are x, y, z, t, pi, e (character 5)"),
    ("2*sin", "the function sin has no arguments (character 3)"),
    ("sinn(x)", "sinn is not a function; the functions are sin, "),
    ("1 + sin(x, y)", "sin takes 1 argument, not 2 (character 5)"),
    ("where(x, y)", "where takes 3 arguments, not 2 (character 1)"),
    ("__import__('os').system('ls')", "is not arithmetic (character 1)"),
    ("x.real", "'x.real' is not arithmetic (character 1)"),
    ("[x for x in (1, 2)]", "is not arithmetic (character 1)"),
    ("(lambda: 1)()", "a product is written with *, which is missing before ( (character 12)"),
    ("0.41^2", "a power is written as **, not as ^ (character 5)"),
    ("1 + (x + y) ^ 2", "a power is written as **, not as ^ (character 13)"),
    ("0.3(0.41 - y)", "a product is written with *, which is missing before ( (character 4)"),
    ("(1 - y)(1 + y)", "a product is written with *, which is missing before ( (character 8)"),
    ("2.5e-1 x", "a product is written with *, which is missing before x (character 8)"),
    ("2sin(pi x)", "a product is written with *, which is missing before sin (character 2)"),
    ("x(1 - y)", "a product is written with *, which is missing before ( (character 2)"),
    ("2 * 'a'", "'a' is not a number (character 5)"),
    ("1 + True", "True is not a number (character 5)"),
    ("1j", "1j is not a number (character 1)"),
    ("sin(x, out=y)", "is not arithmetic (character 1)"),
    ("x @ y", "'x @ y' is not arithmetic (character 1)"),
    ("x; y", "invalid syntax (character 2)"),
    ("(y := x)", "is not arithmetic (character"),
    ("x" + "<x" * 999, "more than 1000 terms"),
    ("x" + "+x" * 999, "terms are nested more than 200 deep"),
    ("not " * 400 + "x", "terms are nested more than 200 deep"),
    ("9" * 400, "a number is above 1e+30 (character 1)"),
    ("x + 1e400", "a number is above 1e+30 (character 5)"),
    ("x" * 2001, "more than 2000 characters"),
    ("(" * 300 + "x" + ")" * 300, "(character"),
]


def check_refusal(text, why):
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert why in str(caught.value)


def test_what_is_no_formula_is_refused_with_its_place():
    for text, why in NO_FORMULAS:
        check_refusal(text, why)


def test_the_deepest_formulas_have_values_and_deeper_ones_do_not_end_the_interpreter():
    for deep in ("-" * 190 + "x", "+".join("x" * 190), "sin(" * 90 + "x" + ")" * 90):
        assert np.isfinite(parse(deep)(X, Y, Z, 0.0)).all(), deep[:20]
    for deeper in ("-" * 1900 + "x", "x if " * 300 + "x else x" * 300, "x.y" * 500, "[" * 999):
        check_refusal(deeper, "")


def test_faults_name_the_formula():
    (problem,) = faults("value", ("1", "2*q", "t"))
    assert problem.key == "value"
    assert (
        problem.rule
        == 'formulas of x, y, z, t. In "2*q", q is unknown; the known names are x, y, z, t, pi, e (character 3)'
    )
    (problem,) = faults("value", ("x + t",), steady=True)
    assert (
        problem.rule
        == 'formulas of x, y, z. In "x + t", t is unknown; the known names are x, y, z, pi, e (character 5)'
    )
