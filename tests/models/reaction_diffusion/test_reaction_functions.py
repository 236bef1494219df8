"""Functions of the user in the sweep: those of the plain functions, with the same bits in float64."""

import numpy as np
import pytest

from reaction_diffusion_cases import compare_with_reference, make_case

MINE = """\
def made(A, B, t):
    gain = 0.0
    for n in range(3):
        gain = gain * A + B
    return gain / (1.0 + t) if A > B else -A


def raises(A, x):
    if A < 0.0:
        raise ValueError("A is negative")
    return A * x


def spread(x, a):
    return 0.05 * (a + x / 32.0)


def begin(random, y, b):
    return b / (1.0 + y) + 0.1 * random
"""
SPECIES = (
    {"name": "A", "diffusivity": "mine.py:spread", "rate": "mine.py:made", "initial": "mine.py:begin"},
    {"name": "B", "diffusivity": 0.1, "rate": "mine.py:raises", "initial": "1.5"},
)


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 0.0), ("float32", 1e-5)])
def test_the_sweep_computes_the_plain_functions(tmp_path, monkeypatch, precision, tolerance):
    """Numba computes with constants in float64, where NumPy stays in float32."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    species = SPECIES if precision == "float64" else [{**SPECIES[0], "diffusivity": 0}, SPECIES[1]]
    case = make_case(species, (3, 5, 19), run={"precision": precision})
    found, expected = compare_with_reference(case, 5)
    for one, other in zip(found, expected, strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
