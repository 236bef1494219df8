"""Correlations along paths against plain loops over pairs of outputs, and the picture of them."""

import numpy as np
import pytest
import xarray as xr

from ridgeline.analysis.paths import autocorrelation, has_paths, plot_paths
from ridgeline.analysis.plot_command import draw
from ridgeline.runtime.errors import ConfigError

RNG = np.random.default_rng(5)
STEPS, N = 9, 40


def particles(n_steps=STEPS, axis="particle"):
    """Particles whose velocity and dissipation change slowly, at times that are not even."""
    slow = np.cumsum(RNG.standard_normal((n_steps, N, 4)), axis=0)
    return xr.Dataset(
        {
            "position": (("step", axis, "axis"), slow[..., :3]),
            "velocity": (("step", axis, "axis"), slow[..., :3] + 4.0),
            "dissipation": (("step", axis), np.exp(0.3 * slow[..., 3])),
            "constant": (("step", axis), np.ones((n_steps, N))),
        },
        {"step": 10 * np.arange(n_steps), "time": ("step", np.cumsum(0.1 + RNG.random(n_steps)))},
    )


def plain(values, lag):
    """The definition, pair by pair and number by number."""
    both = first = second = 0.0
    for i in range(len(values) - lag):
        a, b = (values[k] - values[k].mean(axis=0) for k in (i, i + lag))
        both, first, second = both + (a * b).sum(), first + (a * a).sum(), second + (b * b).sum()
    return both / np.sqrt(first * second)


@pytest.mark.parametrize("n_steps", [2, 3, STEPS])
@pytest.mark.parametrize("name", ["velocity", "dissipation"])
def test_it_is_the_mean_over_all_pairs_of_outputs(name, n_steps):
    data = particles(n_steps)
    found = autocorrelation(data, name)
    assert found.sizes == {"lag": n_steps // 2 + 1}
    expected = [plain(data[name].values, lag) for lag in range(n_steps // 2 + 1)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    time = data.time.values
    np.testing.assert_allclose(found.lag[1], np.diff(time).mean(), rtol=1e-13)
    assert (float(found.lag[0]), float(found[0])) == (0.0, pytest.approx(1.0))


def test_some_particles_stand_for_all():
    data = particles()
    found = autocorrelation(data, "dissipation", most=15)
    few = autocorrelation(data.isel(particle=slice(None, None, 3)), "dissipation")
    np.testing.assert_allclose(found, few, rtol=1e-12)


def test_what_does_not_vary_has_none():
    assert (autocorrelation(particles(), "constant") == 0.0).all()


def test_impossible_wishes():
    with pytest.raises(
        ConfigError, match=r"'position' cannot be correlated .*: velocity, dissipation, constant\."
    ):
        autocorrelation(particles(), "position")
    with pytest.raises(ConfigError, match="has 1 output, but a correlation in time requires at least two"):
        plot_paths(particles(1))


def test_atoms_have_paths_too():
    assert has_paths(particles(axis="atom"))


def test_the_command_draws_particles(tmp_path, monkeypatch):
    data = particles()
    assert has_paths(data)
    assert not has_paths(data.drop_vars("velocity"))
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda path: data)
    assert draw(str(tmp_path / "p.bp")) == [tmp_path / "p.png"]
    (axes,) = plot_paths(data, ["dissipation"]).axes
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), autocorrelation(data, "dissipation"))
    with pytest.raises(
        ConfigError, match=r"--pdf does not apply .* correlations along their paths are drawn"
    ):
        draw(str(tmp_path / "p.bp"), pdf=True)
