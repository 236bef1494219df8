"""Windows of averages: their sum against direct averages, their errors against exact ones, and what is refused."""

import os

import numpy as np
import pytest
import xarray as xr
from mpi4py import MPI

import ridgeline
from ridgeline.analysis.plot_command import draw
from ridgeline.analysis.windows import add_windows, factors_of, running_windows, windows_between_outputs
from ridgeline.io.bp import BPWriter, Variable
from ridgeline.runtime.errors import ConfigError, OutputError

VISCOSITY = 0.2
LENGTHS = np.array([1.0, 0.5, 2.0, 1.5])
N = 50  # samples of a window


def windows(values: dict, lengths=LENGTHS, begin=0.0, dims=("y",), **attributes) -> xr.Dataset:
    """A data set as a run writes it. values: [windows, ...] by name."""
    n = len(lengths)
    coords = {
        "step": 10 * np.arange(1, n + 1),
        "time": ("step", begin + np.cumsum(lengths)),
        "y": np.arange(2.0),
    }
    arrays = {
        name: (("step", *dims[: np.ndim(each) - 1]), np.asarray(each, float)) for name, each in values.items()
    }
    own = {"averaging_time": (("step", "point"), np.reshape(lengths, (n, 1)))}
    own |= {"samples": (("step", "point"), np.full((n, 1), float(N)))}
    return xr.Dataset(arrays | own, coords, {"model.viscosity": VISCOSITY, "run.seed": 1, **attributes})


def moments(samples: dict, weights) -> dict:
    """Averages of signals [times, points] with weights of the times, as Statistics defines them."""
    share = weights / weights.sum()
    mean = {name: share @ each for name, each in samples.items()}
    off = {name: samples[name] - mean[name] for name in samples}
    u, v, w = (off[f"velocity_{axis}"] for axis in "xyz")
    p, theta = off["pressure"], off["scalar_0"]
    found = dict(mean)
    for name, product in {
        "uu": u * u, "uv": u * v, "vw": v * w, "uw": u * w, "vv": v * v, "pp": p * p, "wp": w * p,
        "v_scalar_0": v * theta, "scalar_0_scalar_0": theta * theta, "uvw": u * v * w, "uuv": u * u * v,
        "pressure_strain_xy": p * (off["mean_gradient_xy"] + off["mean_gradient_yx"]) / 2,
        "dissipation_xy": 2 * VISCOSITY * sum(
            off[f"mean_gradient_x{k}"] * off[f"mean_gradient_y{k}"] for k in "xyz"
        ),
    }.items():  # fmt: skip
        found[name] = share @ product
    return found


NAMES = (
    *(f"velocity_{axis}" for axis in "xyz"),
    "pressure",
    "scalar_0",
    *(f"mean_gradient_{a}{b}" for a in "xy" for b in "xyz"),
)


def signals(seed=0):
    """Random signals [windows, times, points] whose means differ between windows, and weights of the times."""
    random = np.random.default_rng(seed)
    weights = random.uniform(0.5, 1.5, (len(LENGTHS), N))
    weights *= (LENGTHS / weights.sum(axis=1))[:, None]
    shape = len(LENGTHS), N, 2
    return {name: random.normal(size=shape) + 3 * random.normal(size=(4, 1, 2)) for name in NAMES}, weights


def test_windows_of_any_lengths_are_one_long_window():
    samples, weights = signals()
    each = [moments({name: s[i] for name, s in samples.items()}, weights[i]) for i in range(4)]
    data = windows({name: [one[name] for one in each] for name in each[0]})
    whole = moments({name: s.reshape(-1, 2) for name, s in samples.items()}, weights.reshape(-1))
    total = add_windows(data)
    for name, expected in whole.items():
        np.testing.assert_allclose(total[name], expected, rtol=1e-12, atol=1e-13, err_msg=name)
    assert abs(total.uu - data.uu).max() > 1.0, "the windows are not the whole"
    assert (float(total.averaging_time), float(total.samples), int(total.windows)) == (5.0, 4 * N, 4)
    assert (int(total.step), float(total.time)) == (40, 5.0)
    in_two = add_windows([data.isel(step=slice(2)), data.isel(step=slice(2, 4))])
    late = add_windows(data, begin=1.0, end=3.5)
    xr.testing.assert_allclose(in_two, total)
    assert float(late.averaging_time) == 2.5
    middle = {name: s[1:3].reshape(-1, 2) for name, s in samples.items()}
    np.testing.assert_allclose(late.uvw, moments(middle, weights[1:3].reshape(-1))["uvw"], rtol=1e-12)


def test_errors_are_those_of_values_about_the_means_of_all_windows():
    samples, weights = signals()
    each = [moments({name: s[i] for name, s in samples.items()}, weights[i]) for i in range(4)]
    data = windows({name: [one[name] for one in each] for name in each[0]})
    whole = moments({name: s.reshape(-1, 2) for name, s in samples.items()}, weights.reshape(-1))
    off = {name: s - whole[name] for name, s in samples.items()}
    product = off["velocity_x"] * off["velocity_y"]
    for merge, parts in ((1, [[0], [1], [2], [3]]), (3, [[0, 1, 2], [3]])):
        lengths = np.array([LENGTHS[part].sum() for part in parts])
        batch = np.array(
            [
                (weights[part][..., None] * product[part]).sum(axis=(0, 1)) / length
                for part, length in zip(parts, lengths)
            ]
        )
        square = (lengths[:, None] * (batch - whole["uv"]) ** 2).sum(axis=0) / (len(parts) - 1) / 5.0
        np.testing.assert_allclose(add_windows(data, merge=merge).uv_error, np.sqrt(square), rtol=1e-10)
    assert np.isnan(add_windows(data, merge=4).uv_error).all()
    assert np.isnan(add_windows(data.isel(step=[0])).uv_error).all()


@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_batch_means_against_the_exact_error_of_a_known_signal(memory):
    """White noise, and x_t = a x_(t-1) + noise: the mean of n has nearly the variance 1/(n (1 - a)^2)."""
    runs, n, length = 400, 4000, 100
    random = np.random.default_rng(5)
    x = random.normal(size=runs) / np.sqrt(1 - memory**2)
    sums = np.zeros((n // length, runs))
    for t in range(n):
        sums[t // length] += x
        x = memory * x + random.normal(size=runs)
    lags = np.arange(1, n)
    rho = memory**lags if memory else 0 * lags
    exact = np.sqrt((1 + 2 * ((1 - lags / n) * rho).sum()) / (1 - memory**2) / n)
    data = windows({"velocity_x": sums / length}, np.full(n // length, float(length)), dims=("run",))
    total = add_windows(data)
    assert total.velocity_x.std() == pytest.approx(exact, rel=0.08), "the scatter of the runs' means"
    found = np.sqrt((total.velocity_x_error**2).mean())
    # Batches of 100 lose correlation at their ends: variance less by 1 - 2 a / ((1 - a^2) length) nearly.
    kept = np.sqrt(1 - 2 * memory / ((1 - memory**2) * length))
    assert found == pytest.approx(exact * kept, rel=0.02)
    inside = abs(total.velocity_x) < 2 * total.velocity_x_error
    assert 0.92 < inside.mean() < 0.98


def test_short_windows_understate_the_error_until_they_are_merged():
    random = np.random.default_rng(6)
    x, signal = np.zeros(200), []
    for _ in range(2000):
        x = 0.9 * x + random.normal(size=200)
        signal.append(x)
    data = windows({"velocity_x": np.array(signal)}, np.ones(2000), dims=("run",))
    exact = 10 / np.sqrt(2000)
    errors = [float(np.sqrt((add_windows(data, merge=n).velocity_x_error ** 2).mean())) for n in (1, 10, 100)]
    assert errors[0] < 0.3 * exact
    assert errors[0] < errors[1] < errors[2]
    assert errors[2] == pytest.approx(exact, rel=0.08)


def test_running_averages_end_with_the_total():
    samples, weights = signals()
    each = [moments({name: s[i] for name, s in samples.items()}, weights[i]) for i in range(4)]
    data = windows({name: [one[name] for one in each] for name in each[0]})
    total = add_windows(data)
    for name in ("velocity_x", "uvw", "pressure_strain_xy", "dissipation_xy"):
        running = running_windows(data, name)
        largest = int(np.argmax(abs(total[name].values)))
        assert float(running.y) == largest
        assert running.time.values.tolist() == [1.0, 1.5, 3.5, 5.0]
        assert float(running[name][-1]) == pytest.approx(float(total[name][largest]))
        assert float(running[name + "_error"][-1]) == pytest.approx(float(total[name + "_error"][largest]))
        assert np.isnan(running[name + "_error"][0])
        first_two = add_windows(data.isel(step=slice(2)))[name]
        assert float(running[name][1]) == pytest.approx(float(first_two[largest]))
    assert float(running_windows(data, "uvw", "y=0").y) == 0.0
    many = windows({"velocity_x": np.arange(300.0)}, np.ones(300))
    assert running_windows(many, "velocity_x").sizes["step"] == 100


def test_windows_between_outputs_are_the_trapezoidal_rule():
    """And a profile uu of these is the mean of a product, about no mean."""
    time = np.array([0.0, 1.0, 3.0, 3.5])
    values = np.array([1.0, 3.0, 7.0, 5.0])
    arrays = {"velocity_x": ("step", values), "uu": ("step", values**2), "mean_uu": ("step", values)}
    data = xr.Dataset(arrays, {"step": [0, 5, 10, 15], "time": ("step", time)})
    found = windows_between_outputs(data)
    assert "mean_uu" not in found
    assert found.step.values.tolist() == [5, 10, 15]
    total = add_windows(found)
    assert float(total.velocity_x) == pytest.approx(np.trapezoid(values, time) / 3.5)
    assert float(total.uu) == pytest.approx(np.trapezoid(values**2, time) / 3.5)
    with pytest.raises(ConfigError, match="fewer than two outputs"):
        windows_between_outputs(data.isel(step=[0]))


def test_factors_of_moments():
    assert factors_of("uvw") == ("velocity_x", "velocity_y", "velocity_z")
    assert factors_of("wp") == ("velocity_z", "pressure")
    assert factors_of("u_scalar_12") == ("velocity_x", "scalar_12")
    assert factors_of("scalar_1_scalar_1") == ("scalar_1", "scalar_1")
    assert factors_of("pressure_strain_xz") == ("pressure", "mean_gradient_xz", "mean_gradient_zx")
    for name in ("velocity_x", "pressure", "scalar_0", "mean_gradient_xy", "energy_spectrum"):
        assert factors_of(name) == ()


def plain(**attributes):
    return windows({"velocity_x": np.ones((4, 2)), "uu": np.ones((4, 2))}, **attributes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: plain().drop_vars("averaging_time"), "has no windows, because it has no averaging_time"),
        (lambda: (plain(), {"begin": 9.0}), "no window lies between these times"),
        (lambda: (plain(), {"merge": 0}), "merge is 0, but it must be an integer >= 1"),
        (lambda: [plain(), plain()], r"from 0 to 1 of data set 1 and from 0 to 1 of data set 2 are of the same flow"),
        (lambda: [plain(), plain(begin=4.9)], r"from 3.5 to 5 of data set 1 and from 4.9 to 5.9 of data set 2"),
        (lambda: [plain(), plain(begin=5.0).drop_vars("uu")], "data set 2 have other averages"),
        (lambda: [plain(), plain(begin=5.0).isel(y=[0])], "data set 2 are on another mesh"),
        (lambda: [plain(), plain(begin=5.0).assign_coords(y=[0.0, 2.0])], "data set 2 are on another mesh"),
        (lambda: [plain(), plain(**{"model.viscosity": 0.5})], "viscosity of data set 2 is 0.5, .* first is 0.2"),
        (lambda: plain().drop_vars("velocity_x"), "have no velocity_x, without which uu cannot be added up"),
    ],
)  # fmt: skip
def test_refusals(make, words):
    made = make()
    data, options = made if isinstance(made, tuple) else (made, {})
    with pytest.raises(ConfigError, match=words):
        add_windows(data, **options)


def test_files_of_one_run_in_a_row_and_of_several_runs_at_the_same_time():
    assert int(add_windows([plain(), plain(begin=5.0)]).windows) == 8
    assert int(add_windows([plain(), plain(**{"run.seed": 2})]).windows) == 8
    assert int(add_windows([plain(), plain(begin=5.0)], begin=5.0).windows) == 4
    empty = plain()
    empty["averaging_time"][-1] = 0.0
    assert int(add_windows(empty).windows) == 3, "one without samples does not count"
    with pytest.raises(ConfigError, match="have no 'uv'"):
        running_windows(plain(), "uv")


@pytest.fixture
def path(tmp_path):
    """A data set of three windows on disk."""
    names = ("velocity_x", "uu")
    variables = [Variable(name, np.float64, (9,), (0,), (9,), dims=("y",)) for name in ("y", *names)]
    variables += [
        Variable(name, np.float64, (1,), (0,), (1,), dims=("point",))
        for name in ("averaging_time", "samples")
    ]
    with BPWriter(tmp_path / "s.bp", MPI.COMM_SELF, variables, {"grid.order": 4}) as out:
        for n in (1, 2, 3):
            arrays = {name: n + np.arange(9.0) for name in names} | {"y": np.linspace(0, 1, 9)}
            out.write(n, float(n), arrays | {"averaging_time": np.ones(1), "samples": np.ones(1)})
    return tmp_path / "s.bp"


def test_a_file_round_trip(path):
    with ridgeline.open(path) as data:
        total = add_windows(data)
    np.testing.assert_allclose(total.velocity_x, 2 + np.arange(9.0))
    np.testing.assert_allclose(total.uu, 2 + np.arange(9.0) + 2 / 3)
    np.testing.assert_allclose(total.velocity_x_error, np.sqrt(1 / 3))


@pytest.mark.parametrize(("file", "kept"), [("data.0", 0.5), ("md.idx", 0.5), ("md.0", 0.5)])
def test_a_damaged_file_is_one_sentence(path, file, kept):
    os.truncate(path / file, int(kept * (path / file).stat().st_size))
    with pytest.raises(OutputError, match=r"s\.bp") as error:
        draw(str(path))
    assert "\n" not in str(error.value)
