import numpy as np
import pytest

from ridgeline.analysis.series import compute_series, compute_statistics
from ridgeline.runtime.errors import ConfigError


def test_series_equals_numpy(recorded, values, small_slabs):
    series = compute_series(recorded.dataset)
    assert dict(series.sizes) == {"step": 4, "statistic": 4}
    for name, array in zip("UV", values):
        by_step = array.reshape(4, -1)
        for statistic in ("min", "max", "mean", "std"):
            expected = getattr(by_step, statistic)(axis=1)
            np.testing.assert_allclose(series[name].sel(statistic=statistic), expected, rtol=1e-14)
    assert max(recorded.reads) == small_slabs


@pytest.mark.usefixtures("small_slabs")
def test_variance_of_a_nearly_uniform_field_does_not_cancel(dataset):
    offset = 1e8 + 1e-3 * np.arange(6 * 5 * 7, dtype=np.float64).reshape(6, 5, 7)
    statistics = compute_statistics(dataset.U[0].copy(data=offset))
    np.testing.assert_allclose(statistics[3], offset.std(), rtol=1e-6)


@pytest.mark.usefixtures("small_slabs")
def test_single_precision_is_summed_in_double(dataset):
    field = dataset.U[0].copy(data=np.full((6, 5, 7), 0.1, np.float32))
    lowest, highest, mean, std = compute_statistics(field)
    assert lowest == highest == np.float32(0.1)
    assert mean == pytest.approx(float(np.float32(0.1)), rel=1e-15)
    assert std < 1e-15


def test_series_keeps_provenance_and_time(dataset):
    series = compute_series(dataset, ["V"])
    assert list(series.data_vars) == ["V"]
    assert series.attrs == dataset.attrs
    np.testing.assert_array_equal(series.time, dataset.time)
    np.testing.assert_array_equal(series.step, dataset.step)


def test_nan_shows_at_its_step_only(dataset, values):
    values[1][2, 0, 0, 0] = np.nan
    series = compute_series(dataset)
    np.testing.assert_array_equal(np.isnan(series.V).all("statistic"), [False, False, True, False])
    assert not np.isnan(series.U).any()


def test_no_steps_give_an_empty_series(dataset):
    assert dict(compute_series(dataset.isel(step=[])).sizes) == {"step": 0, "statistic": 4}


def test_unknown_variable_is_refused(dataset):
    with pytest.raises(ConfigError, match="'W'"):
        compute_series(dataset, ["W"])
