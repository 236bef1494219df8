"""Power spectra: shapes, the integral of sigma8, and tables with everything that can be wrong in them."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from ridgeline.models.n_body.cosmology import Cosmology
from ridgeline.models.n_body.power_spectra import bbks, from_table, power_law
from ridgeline.runtime.errors import ConfigError

UNIVERSE = Cosmology(0.3, 0.7)
K = np.geomspace(1e-4, 20, 300)


def sigma8(spectrum, limits=(1e-6, 60.0)):
    """By adaptive quadrature, piece by piece between the zeros of the window."""

    def integrand(log_k):
        k = math.exp(log_k)
        x = 8 * k
        window = 3 * (math.sin(x) - x * math.cos(x)) / x**3 if x > 1e-3 else 1.0
        return k**3 * float(spectrum(np.array([k]))[0]) * window**2 / (2 * math.pi**2)

    pieces = np.linspace(math.log(limits[0]), math.log(limits[1]), 60)
    return math.sqrt(sum(quad(integrand, a, b, limit=200)[0] for a, b in pairwise(pieces)))


def test_bbks_has_its_amplitude_its_slopes_and_its_turn():
    spectrum = bbks(UNIVERSE, 0.96, 0.81)
    assert sigma8(spectrum) == pytest.approx(0.81, rel=2e-5)
    slope = np.gradient(np.log(spectrum(K)), np.log(K))
    assert slope[0] == pytest.approx(0.96, abs=0.02)
    assert -2.85 < slope[-1] < -2.5  # k^(n - 4) ln^2 k
    # Equality of matter and radiation: the turn of a spectrum of shape 0.21 is near 0.02 h/Mpc.
    assert 0.01 < K[spectrum(K).argmax()] < 0.025


def test_bbks_meets_the_formula_by_hand():
    """T(1) of Eq. G3, and P over P at two wavenumbers; baryons make the shape smaller, as Sugiyama's."""
    transfer = math.log(3.34) / 2.34 * (1 + 3.89 + 16.1**2 + 5.46**3 + 6.71**4) ** -0.25
    k = np.array([0.21, 0.21e-8])
    high, low = bbks(UNIVERSE, 1.0, 0.8)(k)
    assert high / low == pytest.approx(1e8 * transfer**2, rel=1e-6)
    shape = 0.21 * math.exp(-0.05 * (1 + math.sqrt(1.4) / 0.3))
    high, low = bbks(UNIVERSE, 1.0, 0.8, 0.05)(np.array([shape, shape * 1e-8]))
    assert high / low == pytest.approx(1e8 * transfer**2, rel=1e-6)


@pytest.mark.parametrize("index", [-2.0, -1.0, 0.0])
def test_power_laws_have_their_amplitude(index):
    spectrum = power_law(index, 0.7)
    assert sigma8(spectrum, (1e-8, 300.0)) == pytest.approx(0.7, rel=2e-3)
    np.testing.assert_allclose(spectrum(2 * K) / spectrum(K), 2**index, rtol=1e-12)


def test_a_table_is_interpolated_and_scaled(tmp_path):
    exact = bbks(UNIVERSE, 1.0, 0.9)
    k = np.geomspace(1e-4, 50, 400)
    path = tmp_path / "spectrum.txt"
    rows = [f"{a:.10e}, {b:.10e} 7 # row" for a, b in zip(k, exact(k))]
    path.write_text("\ufeff# k P\n\n" + "\n".join(rows) + "\n")
    np.testing.assert_allclose(from_table(path)(k), exact(k), rtol=1e-8)
    np.testing.assert_allclose(from_table(path)(K), exact(K), rtol=1e-3)
    np.testing.assert_allclose(from_table(path, 0.45)(k), exact(k) / 4, rtol=1e-4)
    for outside in (5e-5, 51.0):
        with pytest.raises(ConfigError, match=r"k from 0\.0001 to 50 h/Mpc"):
            from_table(path)(np.array([0.1, outside]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has 0 lines"),
        ("0.1 1\n", "has 1 lines"),
        ("0.1 1\n0.2\n", ':2: the line "0.2"'),
        ("0.1 one\n", ":1: the line"),
        ("k P\n0.1 1\n", ":1: the line"),
        ("0.1 1\n0.1 2\n", "k = 0.1 after k = 0.1"),
        ("0.2 1\n0.1 2\n", "Sort the lines"),
        ("0.1 -1\n0.2 1\n", "P = -1"),
        ("0 1\n0.2 1\n", "k = 0"),
        ("0.1 nan\n0.2 1\n", "P = nan"),
        ("0.1 1\n0.2 inf\n", "P = inf"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, text, words):
    path = tmp_path / "table"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        from_table(path)


def test_files_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(b"\xff\xfe\x00")
    for wrong in (path, tmp_path, tmp_path / "nothing"):
        with pytest.raises(ConfigError, match="cannot be read"):
            from_table(wrong)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bbks(UNIVERSE, 1.0, 0.0), "sigma8 = 0"),
        (lambda: bbks(UNIVERSE, 1.0, math.nan), "sigma8 = nan"),
        (lambda: bbks(UNIVERSE, 3.0, 0.8), "index = 3"),
        (lambda: bbks(UNIVERSE, 1.0, 0.8, 0.3), "omega_b = 0.3"),
        (lambda: power_law(1.0, 0.8), "index = 1.0"),
        (lambda: power_law(-3.0, 0.8), "index = -3.0"),
    ],
)
def test_impossible_spectra_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()
