import numpy as np
import pytest

from ridgeline.analysis.pdf import compute_pdf
from ridgeline.runtime.errors import ConfigError, DivergedError


def integral(pdf):
    return pdf.sum("value") * pdf.bin_width


@pytest.mark.parametrize("per", [(), "z", "step", ("step", "z"), ("z", "step")])
def test_every_density_integrates_to_one(dataset, per):
    pdf = compute_pdf(dataset.U, per, bins=13)
    kept = (per,) if isinstance(per, str) else per
    assert pdf.dims == (*kept, "value")
    np.testing.assert_allclose(integral(pdf), 1.0, rtol=1e-14)


def test_density_is_the_histogram(recorded, values, small_slabs):
    u = values[0]
    pdf = compute_pdf(recorded.dataset.U, ("step", "z"), bins=8)
    edges = np.linspace(u.min(), u.max(), 9)
    for step, z in [(0, 0), (2, 5), (3, 1)]:
        np.testing.assert_allclose(pdf[step, z], np.histogram(u[step, z], edges, density=True)[0], rtol=1e-12)
    np.testing.assert_allclose(pdf["value"], 0.5 * (edges[1:] + edges[:-1]), rtol=1e-14)
    np.testing.assert_array_equal(pdf.step, recorded.dataset.step)
    assert max(recorded.reads) == small_slabs


def test_uniform_and_two_valued_fields(dataset):
    ramp = dataset.U[0].copy(data=(np.arange(210) / 210.0).reshape(6, 5, 7))
    np.testing.assert_allclose(compute_pdf(ramp, bins=10), 210.0 / 209.0, rtol=1e-12)
    pair = ramp.copy(data=np.where(np.arange(210).reshape(6, 5, 7) % 3 == 0, 0.0, 2.0))
    np.testing.assert_allclose(compute_pdf(pair, bins=4), [2 / 3, 0, 0, 4 / 3], rtol=1e-14)


@pytest.mark.parametrize("spread", [0.0, 1e-16, 3e-16])
def test_constant_field_has_a_density(dataset, spread):
    field = dataset.U[0].copy(data=np.full((6, 5, 7), 1.0))
    field[0, 0, 0] += spread
    np.testing.assert_allclose(integral(compute_pdf(field)), 1.0)


def test_values_outside_the_range_are_left_out(dataset, values):
    pdf = compute_pdf(dataset.V, bins=5, within=(0.1, 0.2))
    inside = values[1][(values[1] >= 0.1) & (values[1] <= 0.2)]
    np.testing.assert_allclose(pdf, np.histogram(inside, 5, (0.1, 0.2), density=True)[0], rtol=1e-12)
    assert (compute_pdf(dataset.V, bins=5, within=(7.0, 8.0)) == 0).all()


def test_not_finite_is_refused(dataset, values):
    values[0][1, 1, 1, 1] = np.inf
    with pytest.raises(DivergedError, match="U contains NaN or infinity"):
        compute_pdf(dataset.U)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bins": 0}, "bins = 0"),
        ({"per": "w"}, r"per = 'w' is not a dimension of U\. Its dimensions are step, z, y, x"),
        ({"within": (1.0, 1.0)}, "within = "),
        ({"within": (0.0, np.nan)}, "within = "),
    ],
)
def test_bad_arguments(dataset, arguments, message):
    with pytest.raises(ConfigError, match=message):
        compute_pdf(dataset.U, **arguments)
