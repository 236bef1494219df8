import numpy as np
import pytest

from ridgeline.analysis.slices import get_field, select_step, slabs, take_mean, take_slice, value_range
from ridgeline.runtime.errors import ConfigError

PLANE = 5 * 7 * 8  # bytes of one plane across z


@pytest.mark.parametrize(
    ("spec", "index"),
    [
        ("z=mid", np.s_[:, 3]),
        ("z=0", np.s_[:, 0]),
        ("z=-1", np.s_[:, 5]),
        ("y=mid", np.s_[:, :, 2]),
        ("x=6", np.s_[..., 6]),
        (" x = -7 ", np.s_[..., 0]),
    ],
)
def test_slice_is_the_plane_named(dataset, values, spec, index):
    plane = take_slice(dataset, spec)
    np.testing.assert_array_equal(plane.U.values, values[0][index])
    np.testing.assert_array_equal(take_slice(dataset.V, spec).values, values[1][index])


def test_slice_remembers_where_it_is(dataset):
    assert int(take_slice(dataset.U, "z=-1").z) == 5
    located = dataset.assign_coords(z=0.1 * np.arange(6))
    assert float(take_slice(located.U, "z=mid").z) == pytest.approx(0.3)


@pytest.mark.parametrize("spec", ["", "z", "mid", "w=3", "step=1", "z=", "z=1.5", "z=middle", "z=6", "z=-7"])
def test_bad_slice_says_what_is_allowed(dataset, spec):
    with pytest.raises(ConfigError) as error:
        take_slice(dataset, spec)
    message = str(error.value)
    assert f"'{spec}'" in message
    assert "=mid" in message
    assert "\n" not in message


def test_slice_out_of_range_names_the_range(dataset):
    with pytest.raises(ConfigError, match=r"5 cells in y.*-5 to 4"):
        take_slice(dataset, "y=5")


@pytest.mark.parametrize(("step", "place"), [(0, 0), (10, 1), (40, 3), (-1, 3), (-4, 0)])
def test_step_is_a_step_number_or_counts_from_the_end(dataset, values, step, place):
    at = select_step(dataset, step)
    np.testing.assert_array_equal(at.V.values, values[1][place])
    assert float(at.time) == 2.0 * (0, 10, 20, 40)[place]


@pytest.mark.parametrize("step", [1, 30, 41, -5])
def test_bad_step_names_the_steps_there_are(dataset, step):
    with pytest.raises(ConfigError, match=rf"step {step} .*0, 10, 20, 40.*-1 to -4"):
        select_step(dataset, step)


def test_bad_step_of_many_names_the_ends(dataset):
    many = dataset.isel(step=[0] * 50).assign_coords(step=np.arange(50) * 5)
    with pytest.raises(ConfigError, match="50 steps from 0, 5 to 245"):
        select_step(many, 7)


def test_no_output_yet_is_said(dataset):
    with pytest.raises(ConfigError, match="no output step yet"):
        select_step(dataset.isel(step=[]), -1)


def test_unknown_variable_names_the_nearest(dataset):
    with pytest.raises(ConfigError, match=r"no field 'u'.* Its fields are U, V"):
        get_field(dataset, "u")
    temperature = dataset.rename(U="temperature")
    with pytest.raises(ConfigError, match="Did you mean 'temperature'"):
        get_field(temperature, "temprature")
    with pytest.raises(ConfigError, match="Its fields are none"):
        get_field(dataset[[]], "U")


def test_narrowing_reads_nothing_and_a_plane_reads_a_plane(recorded):
    plane = take_slice(select_step(recorded.dataset, -1), "z=mid").U
    assert recorded.reads == []
    assert plane.values.shape == (5, 7)
    assert recorded.reads == [PLANE]


@pytest.mark.parametrize("most", [1, PLANE, 2 * PLANE, 4 * PLANE, 6 * PLANE, 7 * PLANE, 10**9])
def test_slabs_are_complete_ordered_and_small(recorded, values, most):
    pieces = list(slabs(recorded.dataset.U, most))
    np.testing.assert_array_equal(np.concatenate([p.ravel() for p in pieces]), values[0].ravel())
    assert max(recorded.reads) <= max(most, PLANE)
    # Not smaller than need be either: no two neighbours of one step would fit together.
    per_step = {1: 6, PLANE: 6, 2 * PLANE: 3, 4 * PLANE: 2, 6 * PLANE: 1, 7 * PLANE: 1, 10**9: 0.25}
    assert len(pieces) == 4 * per_step[most]


def test_slabs_of_a_plane_and_of_a_number(dataset):
    plane = dataset.U[0, 0]
    np.testing.assert_array_equal(np.concatenate(list(slabs(plane, 1))), plane.values)
    assert [p.item() for p in slabs(plane[2, 3])] == [plane[2, 3].item()]


@pytest.mark.usefixtures("small_slabs")
def test_value_range(recorded, values):
    u = values[0]
    assert value_range(recorded.dataset.U) == (u.min(), u.max())
    u[1, 2, 3, 4], u[0, 0, 0, 0] = np.nan, -np.inf
    assert np.isnan(value_range(recorded.dataset.U)).all()
    finite = u[np.isfinite(u)]
    assert value_range(recorded.dataset.U, skip_nonfinite=True) == (finite.min(), finite.max())


@pytest.mark.parametrize(("spec", "index"), [("z=0.31", 3), ("z=-0.04", 0), ("z=0.549", 5), ("z=2", 2)])
def test_a_place_is_the_plane_that_is_nearest(dataset, spec, index):
    located = dataset.assign_coords(z=0.1 * np.arange(6))
    assert float(take_slice(located.U, spec).z) == pytest.approx(0.1 * index)


@pytest.mark.parametrize("spec", ["z=0.56", "z=-0.06", "z=1e3", "z=nan", "z=inf"])
def test_a_place_beyond_the_grid_is_refused(dataset, spec):
    with pytest.raises(ConfigError, match="is outside the grid, which has 6 cells in z"):
        take_slice(dataset.assign_coords(z=0.1 * np.arange(6)), spec)


@pytest.mark.parametrize(
    ("average", "places"), [("10:20", [1, 2]), (":10", [0, 1]), ("20:", [2, 3]), (":", [0, 1, 2, 3])]
)
def test_means_are_over_the_outputs_in_the_range(dataset, values, average, places):
    mean, part = take_mean(dataset, average)
    np.testing.assert_allclose(mean.U.values, values[0][places].mean(axis=0))
    assert part.step.values.tolist() == [(0, 10, 20, 40)[place] for place in places]
    assert mean.attrs == dataset.attrs
