"""Formulas as compiled functions are those of NumPy, at any point and with any names."""

from pathlib import Path

import numpy as np
import pytest

from cuda_tools import run_simulated
from formulas import FORMULAS, SPECIAL
from ridgeline.config.expressions import VARIABLES, parse
from ridgeline.jit.formulas import CPU, FormulaLoop, point_function


def points():
    """Return x, y and z: random, and pairs of all numbers that are special."""
    pairs = np.stack(np.meshgrid(SPECIAL, SPECIAL), -1).reshape(-1, 2)
    x, y, z = np.random.default_rng(1).uniform(-2, 2, (3, 40 + len(pairs)))
    x[: len(pairs)], y[: len(pairs)] = pairs.T
    return x, y, z


@pytest.mark.parametrize("text", FORMULAS)
def test_values(text) -> None:
    x, y, z = points()
    formula, out = parse(text), np.empty_like(x)
    FormulaLoop(formula, "xyz", "t")({"x": x, "y": y, "z": z, "t": 0.7}, out)
    np.testing.assert_allclose(out, formula(x, y, z, 0.7), rtol=1e-14, atol=0)


def test_any_names() -> None:
    """Names of variables may be those that the code has for its own functions, or hide a constant."""
    names = ("mod", "where", "power_2", "e", "u_t")
    values = dict(zip(names, np.random.default_rng(2).uniform(1, 2, (5, 3, 4))))
    values["u_t"] = 0.25
    formula, out = parse("mod**2/where + power_2 % e - u_t*pi", names), np.empty((3, 4))
    values["mod"].flags.writeable = False
    FormulaLoop(formula, names[:4], names[4:], parallel=True)(values, out)
    np.testing.assert_allclose(out, formula.evaluate(values), rtol=1e-14)


def test_the_formula_is_part_of_the_key() -> None:
    """Formulas of equal code with other constants, names or functions have kernels of their own."""
    x = np.full(3, 0.5)
    expected = {"2*x": 1.0, "3*x": 1.5, "y*x": 2.0, "sin(x)": np.sin(0.5), "cos(x)": np.cos(0.5)}
    for text, value in expected.items():
        out = np.empty(3)
        FormulaLoop(parse(text), ("x",), ("y",))({"x": x, "y": 4.0}, out)
        np.testing.assert_allclose(out, value, rtol=1e-15)


def test_hostile_formulas_stay_harmless() -> None:
    """What `parse` lets pass is compiled in moderate time, whatever it is; huge powers are numbers out of range."""
    x, out = np.array([0.5, 2.0]), np.empty(2)
    deep = "1 <" + " (1 <" * 60 + "x" + " <= 1)" * 60 + " <= 1"
    powers = ("x**1e30", "x**1000000", "x**-1e30", "(1/0)**0.5")
    for text in (deep, "sin(" * 60 + "x" + ")" * 60, "-" * 150 + "x", *powers):
        formula = parse(text)
        FormulaLoop(formula, ("x",))({"x": x}, out)
        np.testing.assert_allclose(out, formula(x, x, x, 0.0), rtol=1e-13)


def test_refused_arrays() -> None:
    with pytest.raises(ValueError, match="the formula x \\+ t holds t, which is not an argument"):
        point_function(parse("x + t"), VARIABLES[:3], CPU)
    loop = FormulaLoop(parse("x"), ("x",))
    for size, out in ((3, np.empty(4)), (3, np.empty((3, 2))[:, 0])):
        with pytest.raises(ValueError, match=r"\[3\] points do not fit"):
            loop({"x": np.zeros(size)}, out)


@pytest.mark.gpu
def test_in_the_simulator() -> None:
    pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')
    run_simulated(Path(__file__).with_name("simulated_formulas_cuda.py"))
