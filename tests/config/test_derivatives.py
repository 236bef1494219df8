"""Symbolic derivatives of formulas against central differences, and their limits."""

import numpy as np
import pytest

from ridgeline.config.derivatives import derivative
from ridgeline.config.expressions import ARGUMENTS, FUNCTIONS, ExpressionError, parse

INSIDE = {"arcsin": "x/3", "arccos": "x/3", "log": "x**2 + 1", "log10": "x**2 + 1", "sqrt": "x**2 + y**2 + 1"}
FORMULAS = [
    *(f"{name}({INSIDE.get(name, 'x*y + 0.3*x')})*z" for name in FUNCTIONS if name not in ARGUMENTS),
    *(f"{name}(x*y + 1, 2.5*x - y)" for name in ("arctan2", "minimum", "maximum", "hypot")),
    "where(x > 0.1, x**3, -x*y)",
    "x*x if y > 0 else x*y",
    "heaviside(x - 0.2, 0.5)*x**2",
    "x**2*sin(y) - y**3 + 4*x**1 + x**0 - (-x)",
    "(x**2 + 1)**(y + 0.3*x)",
    "2**x + (x**2 + 1)**-1.5 + (x**2 + 1)**y",
    "x/(1 + x**2) + y/(z**2 + 1)/(x + 5)",
    "(3.3*x) % (1.7 + 0.01*x)",
    "(x > 0 and y > 0)*x + (not x > 0)*y",
    "exp(-((x - 0.3)**2 + y**2)/0.1)*cos(2*pi*x) + e**x",
    "z*t",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_derivatives_are_the_slopes(text):
    generator = np.random.default_rng(1)
    x, y, z = generator.uniform(-1, 1, (3, 200))
    formula, step = parse(text), 1e-6
    values = {"x": x, "y": y, "z": z, "t": 0.7}
    for name in ("x", "y", "z"):
        up, down = (formula.evaluate({**values, name: values[name] + sign * step}) for sign in (1, -1))
        slope = np.broadcast_to((up - down) / (2 * step), x.shape)
        found = np.broadcast_to(derivative(formula, name).evaluate(values), x.shape)
        smooth = np.abs(slope) < 1e3  # a difference across a jump or a kink is left out
        wrong = np.abs(found - slope) > 1e-7 * (1 + np.abs(slope))
        assert (wrong & smooth).sum() <= 2, (text, name, derivative(formula, name).text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x**2*sin(y)", "2 * x * sin(y)"),
        ("3*y + t", "0.0"),
        ("-x", "-1.0"),
        ("0.5*k*x**2", "0.5 * k * (2 * x)"),
        ("cos(2*pi*x)", "-sin(2 * pi * x) * (2 * pi)"),
    ],
)
def test_derivatives_are_short(text, expected):
    formula = parse(text, ("x", "y", "t", "k"))
    found = derivative(formula, "x")
    assert found.text == expected
    assert parse(found.text, ("x", "y", "t", "k")).variables == found.variables


@pytest.mark.parametrize("text", ["*".join(["x"] * 190), "sin(" * 150 + "x" + ")" * 150])
def test_hostile_formulas_stay_harmless(text):
    with pytest.raises(ExpressionError, match=r"derivative by x has more than 4000 terms"):
        derivative(parse(text), "x")


def test_a_python_function_has_no_derivative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def trap(x):\n    return x * x\n")
    with pytest.raises(ExpressionError, match="a Python function has no derivative by x"):
        derivative(parse("mine.py:trap"), "x")
