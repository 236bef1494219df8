"""Pictures of atoms: which of them are in a layer, their colours, Maxwell's speeds, and g(r)."""

import numpy as np
import pytest
import xarray as xr

from ridgeline.analysis import atoms
from ridgeline.analysis.plot_command import draw
from ridgeline.runtime.errors import ConfigError

N = 4000
LENGTHS = np.array([8.0, 9.0, 10.0])


@pytest.fixture(scope="module")
def dataset() -> xr.Dataset:
    generator = np.random.default_rng(1)
    columns = {
        "position": generator.random((2, N, 3)) * LENGTHS,
        "velocity": np.sqrt([[[1.0]], [[0.7]]]) * generator.standard_normal((2, N, 3)),
        "force": generator.standard_normal((2, N, 3)),
        "image": np.zeros((2, N, 3), np.int32),
    }
    fields = {name: (("step", "atom", "axis"), values) for name, values in columns.items()}
    return xr.Dataset(fields, {"step": [0, 50], "time": ("step", [0.0, 0.25])})


@pytest.fixture
def path(dataset, tmp_path, monkeypatch) -> str:
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: dataset)
    return str(tmp_path / "atoms.bp")


def discs(axes):
    return axes.collections[0]


def test_a_layer_has_the_atoms_near_its_middle_coloured_by_speed(dataset):
    figure = atoms.plot_atoms(dataset, ["velocity"], "y=3.5", step=0)
    axes = figure.axes[0]
    place, velocity = (dataset[name].values[0] for name in ("position", "velocity"))
    inside = np.flatnonzero(np.abs(place[:, 1] - 3.5) <= 0.5)
    inside = inside[np.argsort(place[inside, 1])]
    np.testing.assert_array_equal(discs(axes).get_offsets(), place[inside][:, [0, 2]])
    np.testing.assert_allclose(discs(axes).get_array(), np.linalg.norm(velocity[inside], axis=1))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x / σ", "z / σ")
    assert figure.get_suptitle() == "step 0, t = 0, y = 3.5 ± 0.5"


def test_all_vectors_are_drawn_in_the_middle_by_default(dataset):
    figure = atoms.plot_atoms(dataset)
    titles = [axes.get_title() for axes in figure.axes]
    assert [title for title in titles if title] == ["|velocity|", "|force|"]
    bare = atoms.plot_atoms(dataset[["position"]])
    assert discs(bare.axes[0]).get_array() is None
    assert len(discs(bare.axes[0]).get_offsets()) == len(discs(figure.axes[0]).get_offsets())


def test_speeds_are_drawn_beside_maxwells_distribution(dataset):
    axes = atoms.plot_magnitudes(dataset, ["velocity"], step=50).axes[0]
    (line,) = axes.lines
    squares = np.square(dataset["velocity"].values[1]).sum()
    assert line.get_label() == f"Maxwell, T = {squares / (3 * N - 3):.4g}"
    speeds = np.linspace(0, 20, 4001)
    density = atoms.maxwell(speeds, 0.7)
    width = speeds[1]
    assert density.sum() * width == pytest.approx(1, abs=1e-6)
    assert (speeds**2 * density).sum() * width == pytest.approx(3 * 0.7, abs=1e-5)
    counted, edges = np.histogram(np.linalg.norm(dataset["velocity"].values[1], axis=1), 20, density=True)
    np.testing.assert_allclose(counted, atoms.maxwell(0.5 * (edges[1:] + edges[:-1]), 0.7), atol=0.06)
    assert not atoms.maxwell(speeds, 0.0).any()


def test_radial_distributions_show_the_step_and_others_in_grey(tmp_path, monkeypatch):
    r = np.linspace(0.01, 2.49, 125)
    g = np.stack([40.0 * (np.abs(r - 1.2) < 0.01), 1 - np.cos(5 * r) * np.exp(-r)])
    radial = xr.Dataset({"radial_distribution": (("step", "r"), g)}, {"step": [0, 100], "r": r})
    axes = atoms.plot_radial(radial).axes[0]
    grey, now, _ = axes.lines
    np.testing.assert_array_equal(grey.get_ydata(), g[0])
    np.testing.assert_array_equal(now.get_ydata(), g[1])
    assert axes.get_ylim()[1] == pytest.approx(1.2 * g[1].max())
    assert grey.get_label() == "other outputs"
    assert atoms.plot_radial(radial, average="0:").axes[0].lines[0].get_label() == "outputs of the mean"
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: radial)
    assert draw(str(tmp_path / "radial.bp")) == [tmp_path / "radial.png"]
    with pytest.raises(ConfigError, match=r"--pdf does not apply .* radial distribution functions"):
        draw(str(tmp_path / "radial.bp"), pdf=True)


def test_pictures_are_written_by_the_command(path, tmp_path):
    assert draw(path) == [tmp_path / "atoms.png"]
    assert draw(path, ["velocity"], pdf=True) == [tmp_path / "atoms_pdf.png"]


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"slice": "w=mid"}, r"'w=mid' is not a layer of atoms\. Write AXIS=PLACE"),
        ({"slice": "xy=3"}, "is not a layer"),
        ({"slice": "z"}, "is not a layer"),
        ({"slice": "z=here"}, "is not a layer"),
        ({"slice": "z=11"}, r"a place from 0\.\d+ to (9\.\d+|10) sigma"),
        (
            {"variables": ["image"]},
            r"coloured by 'image'\. The data set has position, velocity, force, image, and colours",
        ),
        ({"step": 7}, "step 7 is not in the data set"),
        ({"movie": "m.gif"}, r"--movie does not apply .* a data set of atoms"),
    ],
)
def test_impossible_wishes(path, wish, words):
    with pytest.raises(ConfigError, match=words):
        draw(path, **wish)


def test_atoms_without_places_or_vectors_say_what_is_missing(dataset):
    with pytest.raises(ConfigError, match="no position"):
        atoms.plot_atoms(dataset[["velocity"]])
    with pytest.raises(ConfigError, match="neither velocity nor force"):
        atoms.plot_magnitudes(dataset[["position"]])
