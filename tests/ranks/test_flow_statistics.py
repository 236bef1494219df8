"""Statistics of flows whose means and moments are known, over any ranks, and through a checkpoint."""

import numpy as np
import pytest

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mappings import periodic_hill
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.io.checkpoint import CheckpointStore
from ridgeline.models.navier_stokes.flow_statistics import SAMPLED_STEP, Statistics, moment_names

RANKS = (1, 2, 3, 4)
TIMEOUT = 120
LENGTHS = (1.0, 2.0, 3.0)


def make(comm, size=None, order=3, n_scalars=1, start=0.0, mapping=None):
    mesh = BoxMesh.box(
        (2, 3, 2), LENGTHS, distribution=("uniform", "sine", "uniform"), parameter=(1.0, 1.2, 1.0),
        periodic=(True, False, True), mapping=mapping,
    )  # fmt: skip
    grid = ElementGrid(mesh, order, comm.size, comm.rank)
    geometry = ElementGeometry(grid)
    return grid, Statistics(comm, grid, geometry, n_scalars, start)


def flow(grid, t):
    """Velocity, pressure, scalars: polynomials in space times functions of time."""
    _, y, z = grid.coordinates
    u = np.stack([y * (1 + t), y + 2 * t, 0 * z - t])
    return u, y * y + t, (3 * y + t * t)[None]


def test_names_of_the_moments():
    means, moments = moment_names(1)
    assert means == ["velocity_x", "velocity_y", "velocity_z", "pressure", "scalar_0"]
    assert [name for name, _, _ in moments] == [
        "uu", "vv", "ww", "uv", "uw", "vw", "pp", "u_scalar_0", "v_scalar_0", "w_scalar_0", "scalar_0_scalar_0",
    ]  # fmt: skip


def moments_of(values, weights):
    """Mean of each row of [quantities, times] and their covariances."""
    mean = values @ weights / weights.sum()
    return mean, (values * weights) @ values.T / weights.sum() - np.outer(mean, mean)


@pytest.mark.parametrize("homogeneous", [("x", "z"), ("z",)])
def test_profiles_of_means_and_moments(comm, homogeneous):
    """The flow depends on y and t alone: at each y the moments over the samples, each with its time."""
    grid, statistics = make(comm)
    times = np.array([0.0, 0.1, 0.3, 0.4])
    for t in times:
        statistics.sample(0, t, *flow(grid, t))
    assert (statistics.clock.samples, statistics.clock.seconds) == (3, pytest.approx(0.4))
    found = statistics.averages(homogeneous)
    dims = tuple(a for a in "zyx" if a not in homogeneous)
    y = found["y"].values
    assert y.shape == (10,)
    assert found["y"].dims == ("y",)
    assert (y[0], y[-1]) == (0.0, 2.0)
    weights = np.diff(times)
    _, moments = moment_names(1)
    for place, at in enumerate(y):
        values = np.array([[at * (1 + t), at + 2 * t, -t, at * at + t, 3 * at + t * t] for t in times[1:]]).T
        mean, covariance = moments_of(values, weights)
        for i, name in enumerate(moment_names(1)[0]):
            assert found[name].dims == dims
            np.testing.assert_allclose(found[name].values[place], mean[i], atol=1e-13)
        for name, i, j in moments:
            np.testing.assert_allclose(found[name].values[place], covariance[i, j], atol=1e-13)


def test_variation_along_a_homogeneous_direction_counts_as_fluctuation(comm):
    """u = cos(2 pi x / 3) at rest: its mean over x is 0, its variance 1/2."""
    grid, statistics = make(comm, order=9)
    x, _, _ = grid.coordinates
    u = np.stack([np.cos(2 * np.pi * x / 3), 0 * x, 0 * x])
    for t in (0.0, 1.0):
        statistics.sample(0, t, u, 0 * x, 0 * x[None])
    profile = statistics.averages(("x", "z"))
    np.testing.assert_allclose(profile["velocity_x"].values, 0.0, atol=1e-8)
    np.testing.assert_allclose(profile["uu"].values, 0.5, atol=1e-8)
    points = statistics.averages()
    np.testing.assert_allclose(points["velocity_x"].values, u[0], atol=1e-15)
    np.testing.assert_allclose(points["uu"].values, 0.0, atol=1e-15)
    assert points["uu"].dims == ("element", "t", "s", "r")
    volume = statistics.averages(("x", "y", "z"))
    assert volume["uu"].values == pytest.approx(0.5)
    assert volume["uu"].dims == ("point",)


def test_places_on_a_mapped_mesh_are_averaged_too(comm):
    grid, statistics = make(comm, order=5, mapping=periodic_hill((0, 0, 0), LENGTHS, 0.2))
    x, y, z = grid.coordinates
    for t in (0.0, 1.0):
        statistics.sample(0, t, np.stack([x, y, z]), x * y, x[None])
    found = statistics.averages(("z",))
    assert found["velocity_x"].dims == found["x"].dims == ("j", "i")
    assert "z" not in found
    np.testing.assert_allclose(found["velocity_x"].values, found["x"].values, atol=1e-13)
    np.testing.assert_allclose(found["pressure"].values, found["x"].values * found["y"].values, atol=1e-13)
    np.testing.assert_allclose(found["velocity_z"].values, 0.5, atol=1e-13)


def test_nothing_is_gathered_before_the_start(comm):
    grid, statistics = make(comm, start=0.25)
    for t in (0.0, 0.2, 0.3, 0.5):
        statistics.sample(0, t, *flow(grid, t))
    assert (statistics.clock.samples, statistics.clock.seconds) == (2, pytest.approx(0.25))
    found = statistics.averages(("x", "z"))["velocity_z"].values
    np.testing.assert_allclose(found, -(0.05 * 0.3 + 0.2 * 0.5) / 0.25)
    _, untouched = make(comm)
    assert not untouched.averages(("x", "z"))["uu"].values.any()


def test_averages_do_not_depend_on_ranks(comm):
    alone = comm.Split(comm.rank)
    results = []
    for on in (comm, alone):
        grid, statistics = make(on)
        for t in (0.0, 0.5, 0.7):
            statistics.sample(0, t, *flow(grid, t))
        results.append(statistics.averages(("x",)))
    for name, average in results[0].items():
        np.testing.assert_allclose(average.values, results[1][name].values, rtol=1e-13, atol=1e-14)
    alone.Free()


@pytest.mark.parametrize("left_out", [(), (SAMPLED_STEP,)], ids=["now", "before"])
def test_a_resumed_run_has_the_same_sums(comm, folder, left_out):
    """Saved on all ranks, gone on with in another object: the same bits. Older checkpoints lack the step."""
    grid, whole = make(comm)
    _, before = make(comm)
    assert (before.clock.step, before.clock.time) == (0, 0.0)
    for step, t in enumerate((0.0, 0.1)):
        for statistics in (whole, before):
            statistics.sample(4 * step, t, *flow(grid, t))
    _, after = make(comm)
    saved = {name: array for name, array in before.state().items() if name not in left_out}
    with CheckpointStore(comm, folder / "saved") as store:
        store.save(saved, step=5, time=0.12, identity={})
        store.load(after.state(), {}, later=(SAMPLED_STEP,))
    after.restored(3)
    assert (after.clock.step, after.clock.time) == (3 if left_out else 4, 0.1)
    for step, t in ((8, 0.15), (12, 0.4)):
        for statistics in (whole, after):
            statistics.sample(step, t, *flow(grid, t))
    for name, array in whole.state().items():
        np.testing.assert_array_equal(array.local, after.state()[name].local)
    assert (
        (after.clock.samples, after.clock.seconds)
        == (whole.clock.samples, whole.clock.seconds)
        == (3, pytest.approx(0.4))
    )
