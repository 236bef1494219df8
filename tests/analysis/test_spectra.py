"""Pictures of spectra and densities: of a step, as a mean over steps, compensated."""

import numpy as np
import pytest
import xarray as xr

from ridgeline.analysis import plot_command, spectra
from ridgeline.analysis.plot import save_figure
from ridgeline.analysis.plot_command import draw
from ridgeline.runtime.errors import ConfigError

K = 0.5 * np.arange(9)
NU = 0.01
STEPS = (0, 10, 20)


@pytest.fixture
def energy():
    """E(k) at each step: nothing at k = 0, a -5/3 range, an empty last shell."""
    inertial = np.where((K > 0) & (K[-1] > K), np.maximum(K, 0.5) ** (-5 / 3), 0)
    return np.array([4.0, 2.0, 1.0])[:, None] * inertial


@pytest.fixture
def dataset(energy) -> xr.Dataset:
    ratio = np.array([0.1, 1.0, 10.0])
    density = np.array([[0.5, 0.4, 0.0]] * 3)
    columns = {
        "energy_spectrum": (("step", "k"), energy),
        "dissipation_spectrum": (("step", "k"), 2 * NU * K**2 * energy),
        "scalar_0_spectrum": (("step", "k"), 3 * energy),
        "dissipation_density": (("step", "ratio"), density),
        "enstrophy_density": (("step", "ratio"), 2 * density),
    }
    coords = {"step": list(STEPS), "time": ("step", 0.1 * np.array(STEPS)), "k": K, "ratio": ratio}
    return xr.Dataset(columns, coords, {"model.viscosity": NU})


def lines(axes) -> dict:
    """Return (x, y) of the labelled lines."""
    return {line.get_label(): line.get_xydata().T for line in axes.lines if line.get_label()[0] != "_"}


def test_spectrum_its_slope_and_other_steps(dataset, energy):
    figure = spectra.plot_spectra(dataset, 10)
    plain, _ = figure.axes
    drawn = lines(plain)
    np.testing.assert_array_equal(drawn["$E(k)$"], [K[1:-1], energy[1, 1:-1]])
    np.testing.assert_array_equal(drawn["scalar_0"], [K[1:-1], 3 * energy[1, 1:-1]])
    eps = 0.5 * (2 * NU * K**2 * energy[1]).sum()
    np.testing.assert_allclose(
        drawn[r"$1.62\,\varepsilon^{2/3} k^{-5/3}$"], [K[1:-1], 1.62 * eps ** (2 / 3) * K[1:-1] ** (-5 / 3)]
    )
    grey = [line.get_ydata() for line in plain.lines if line.get_color() == "0.8"]
    np.testing.assert_array_equal(grey, energy[[0, 2], 1:-1])
    assert (plain.get_xscale(), plain.get_yscale()) == ("log", "log")
    assert figure.get_suptitle() == "step 10, t = 1"


def test_compensated_spectrum_is_flat_where_the_spectrum_is_a_power_law(dataset, energy):
    _, compensated = spectra.plot_spectra(dataset, -1).axes
    eps = 0.5 * (2 * NU * K**2 * energy[2]).sum()
    eta = (NU**3 / eps) ** 0.25
    x, y = compensated.lines[0].get_xydata().T
    np.testing.assert_allclose(x, K[1:-1] * eta)
    np.testing.assert_allclose(y, 1 / eps ** (2 / 3))
    assert compensated.lines[1].get_ydata()[0] == 1.62


def test_spectrum_without_viscosity(dataset, energy):
    bare = dataset.drop_vars("dissipation_spectrum").assign_attrs({"model.viscosity": 0.0})
    plain, compensated = spectra.plot_spectra(bare, 0).axes
    np.testing.assert_allclose(lines(plain)["$k^{-5/3}$"], [K[1:-1], energy[0, 1:-1]])
    np.testing.assert_allclose(compensated.lines[0].get_ydata(), 4.0)


def test_spectrum_of_a_fluid_at_rest(dataset, tmp_path):
    save_figure(spectra.plot_spectra(dataset * 0, 0), tmp_path / "rest.png")


def test_few_of_many_other_steps_are_drawn(dataset):
    many = xr.concat([dataset.isel(step=0).assign_coords(step=i) for i in range(50)], "step")
    plain, _ = spectra.plot_spectra(many, 49).axes
    assert sum(line.get_color() == "0.8" for line in plain.lines) == spectra.MOST_OTHERS


def test_densities(dataset):
    (axes,) = spectra.plot_densities(dataset, 20).axes
    drawn = lines(axes)
    np.testing.assert_array_equal(drawn["ε / <ε>"], [[0.1, 1.0], [0.5, 0.4]])
    np.testing.assert_array_equal(drawn["Ω / <Ω>"], [[0.1, 1.0], [1.0, 0.8]])
    with pytest.raises(ConfigError, match="no enstrophy_density"):
        spectra.plot_densities(dataset.drop_vars("enstrophy_density"))


def test_density_of_the_pressure_beside_a_gaussian(dataset):
    deviation = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    dataset["deviation"] = deviation
    dataset["pressure_density"] = ("step", "deviation"), np.array([[0.1, 0.2, 0.4, 0.3, 0.0]] * 3)
    _, beside = spectra.plot_densities(dataset, 20).axes
    drawn = lines(beside)
    np.testing.assert_array_equal(drawn["p / p'"], [deviation[:-1], [0.1, 0.2, 0.4, 0.3]])
    np.testing.assert_array_equal(drawn["Gaussian"][0], [-1.0, 0.0, 1.0])
    np.testing.assert_allclose(drawn["Gaussian"][1], np.exp([-0.5, 0, -0.5]) / np.sqrt(2 * np.pi))
    assert (beside.get_xscale(), beside.get_yscale()) == ("linear", "log")
    empty = dataset.assign(pressure_density=0 * dataset["pressure_density"])
    assert not lines(spectra.plot_densities(empty, 20).axes[1])["p / p'"].size, "a fluid at rest"


def test_command_draws_spectra(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: dataset)
    path = str(tmp_path / "spectra.bp")
    assert draw(path) == [tmp_path / "spectra.png"]
    assert draw(path, pdf=True, step=10) == [tmp_path / "spectra_pdf.png"]
    with pytest.raises(ConfigError, match="step 11 is not in the data set"):
        draw(path, step=11)
    with pytest.raises(ConfigError, match=r"--variable does not apply .* spectra, which are drawn together"):
        draw(path, ["energy_spectrum"])
    with pytest.raises(ConfigError, match=r"--movie does not apply .* spectra, which are drawn together"):
        draw(path, movie="m.gif")
    with pytest.raises(ConfigError, match=r"output\.spectra"):
        spectra.plot_spectra(dataset[["enstrophy_density"]])


def test_compensated_alone_over_the_kolmogorov_length(dataset, energy):
    (axes,) = spectra.plot_spectra(dataset, 10, alone=True).axes
    eps = 0.5 * (2 * NU * K**2 * energy[1]).sum()
    *grey, now, constant = axes.lines
    assert len(grey) == 2
    np.testing.assert_allclose(now.get_xdata(), K[1:-1] * (NU**3 / eps) ** 0.25)
    np.testing.assert_allclose(now.get_ydata(), 2 / eps ** (2 / 3))
    assert constant.get_ydata()[0] == 1.62
    assert axes.get_xlabel() == r"$k\eta$"


def test_means_over_outputs(dataset, energy):
    figure = spectra.plot_spectra(dataset, average="10:")
    plain, compensated = figure.axes
    mean = energy[1:].mean(axis=0)
    np.testing.assert_allclose(lines(plain)["$E(k)$"], [K[1:-1], mean[1:-1]])
    eps = 0.5 * (2 * NU * K**2 * mean).sum()
    np.testing.assert_allclose(compensated.lines[0].get_ydata(), 1.5 / eps ** (2 / 3))
    grey = [line.get_ydata() for line in plain.lines if line.get_color() == "0.8"]
    np.testing.assert_array_equal(grey, energy[1:, 1:-1])
    assert figure.get_suptitle() == "mean of 2 outputs, t = 1 to 2"


@pytest.mark.parametrize(
    ("average", "words"),
    [("10", r"is not a range of time steps\. Write FIRST:LAST, such as 0:20"), ("a:b", "is not a range"),
     ("11:19", r"contains no output\. The data set has the steps 0, 10, 20"), ("20:10", "contains no output")],
)  # fmt: skip
def test_impossible_means(dataset, average, words):
    with pytest.raises(ConfigError, match=words):
        spectra.plot_spectra(dataset, average=average)


def test_running_averages_of_spectra(tmp_path, monkeypatch):
    """The windows lie between outputs, and the curve is at the largest value or at a wavenumber."""
    k, time = np.arange(1.0, 5.0), np.array([0.0, 1.0, 3.0, 4.0])
    values = np.outer([1.0, 2.0, 4.0, 3.0], [1.0, 5.0, 2.0, 0.5])
    coords = {"step": [0, 5, 15, 20], "time": ("step", time), "k": k}
    data = xr.Dataset({"energy_spectrum": (("step", "k"), values)}, coords)
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: data)
    figures = []
    monkeypatch.setattr(plot_command, "save_figure", lambda figure, path: figures.append(figure))
    draw(str(tmp_path / "s.bp"), convergence="energy_spectrum")
    draw(str(tmp_path / "s.bp"), convergence="energy_spectrum", slice="k=0", average="5:")
    (first,), (second,) = (figure.axes for figure in figures)
    assert first.get_title().startswith("energy_spectrum at k = 2: 13.75 ± ")
    np.testing.assert_allclose(first.lines[0].get_ydata(), [7.5, 12.5, 13.75])
    assert second.get_title().startswith("energy_spectrum at k = 1: 3.16667 ± ")
    with pytest.raises(ConfigError, match="--merge requires --convergence for files of this kind"):
        draw(str(tmp_path / "s.bp"), merge=2)
