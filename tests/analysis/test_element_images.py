"""Element fields seen on a grid: right values at right places, nothing read that a plane does not cross."""

import numpy as np
import pytest
import xarray as xr
from xarray.core import indexing

from recording_array import RecordingArray
from ridgeline.analysis import plot_command
from ridgeline.analysis.element_images import ELEMENT_DIMS, on_grid
from ridgeline.analysis.plot import blank_figure
from ridgeline.analysis.plot_command import draw
from ridgeline.analysis.slices import take_slice
from ridgeline.elements.mappings import annulus, wavy
from ridgeline.elements.mesh import BoxMesh, ElementGrid

ORDER = 3
LENGTHS = (1.0, 2.0, 4.0)  # z, y, x


def element_dataset(mesh, fields, reads=None, order=ORDER) -> xr.Dataset:
    """Return what `ridgeline.open` gives of element fields: functions of (x, y, z), at step 5 doubled."""
    x, y, z = ElementGrid(mesh, order).coordinates
    columns = {}
    for name, function in fields.items():
        values = np.stack([function(x, y, z), 2 * function(x, y, z)])
        lazy = values if reads is None else indexing.LazilyIndexedArray(RecordingArray(values, reads))
        columns[name] = (("step", *ELEMENT_DIMS), lazy, {"units": "m/s"})
    coords = {"step": [0, 5], "time": ("step", [0.0, 0.5])}
    coords |= {name: (ELEMENT_DIMS, places) for name, places in zip("xyz", (x, y, z))}
    return xr.Dataset(columns, coords, {"model": "navier_stokes"})


def box(elements=(2, 3, 4), mapping=None, origin=(0.0, 0.0, 0.0)) -> BoxMesh:
    return BoxMesh.box(elements, LENGTHS, origin, mapping=mapping)


def test_polynomials_are_exact_in_boxes():
    def cubic(x, y, z):
        return x**3 - 2 * y * z + y**2 * x

    images = on_grid(element_dataset(box(), {"u": cubic}), 41)
    assert images.u.dims == ("step", "z", "y", "x")
    assert images.sizes == {"step": 2, "z": 41, "y": 41, "x": 41}
    assert images.u.attrs == {"units": "m/s"}
    assert images.attrs == {"model": "navier_stokes"}
    z, y, x = (images[name].values for name in "zyx")
    for places, length in zip((z, y, x), LENGTHS):
        np.testing.assert_allclose(places, length * (np.arange(41) + 0.5) / 41)
    right = cubic(x[None, None, :], y[None, :, None], z[:, None, None])
    np.testing.assert_allclose(images.u.isel(step=0).values, right, atol=1e-12)
    np.testing.assert_allclose(images.u.isel(step=1, y=20).values, 2 * right[:, 20], atol=1e-12)
    np.testing.assert_allclose(
        images.u.isel(step=0, z=[30, 2], y=7, x=slice(5, 9)).values, right[[30, 2], 7, 5:9]
    )


def test_cells_are_as_long_as_wide_but_thin_sides_have_enough():
    assert dict(on_grid(element_dataset(box(), {})).sizes) == {"step": 2, "z": 101, "y": 201, "x": 401}
    thin = BoxMesh.box((1, 1, 2), (0.01, 1.0, 10.0))
    assert dict(on_grid(element_dataset(thin, {})).sizes) == {"step": 2, "z": 65, "y": 65, "x": 401}


def test_planes_to_look_at_are_sharper_and_their_index_stays():
    """A hole's side is smooth in a picture: along both axes of the plane are more points, across it the same."""
    data = element_dataset(box(), {"u": lambda x, y, z: z + x})
    sharp, plain = on_grid(data, 21, sharp=("y", "x")), on_grid(data, 21)
    assert dict(sharp.sizes) == {"step": 2, "z": 21, "y": 63, "x": 63}
    np.testing.assert_array_equal(sharp.z, plain.z)
    np.testing.assert_allclose(sharp.x[1::3], plain.x)
    plane = take_slice(sharp, "z=3").isel(step=0)
    np.testing.assert_allclose(plane.u.values, np.broadcast_to(plane.z + plane.x, (63, 63)), atol=1e-12)


@pytest.mark.parametrize(
    ("wishes", "shape"), [({}, (603, 1203)), ({"slice": "x=1"}, (303, 603)), ({"pdf": True}, (201, 401))]
)
def test_the_command_draws_sharp_planes_and_counts_plain_ones(tmp_path, monkeypatch, wishes, shape):
    monkeypatch.setattr(
        "ridgeline.io.dataset.open", lambda path: element_dataset(box(), {"u": lambda x, y, z: x})
    )
    shapes = []

    def look(data, names, spec, step, *_):
        shapes.append(take_slice(data.u, spec).shape[1:])
        return blank_figure(1, 1)

    for name in ("plot_slices", "plot_pdf"):
        monkeypatch.setattr(plot_command, name, look)
    draw(str(tmp_path / "a.bp"), **wishes)
    assert shapes == [shape]


def test_places_are_exact_in_curved_elements_and_nothing_is_outside_them():
    curved = box((2, 2, 2), wavy((0.0, 0.0, 0.0), LENGTHS, 0.04))
    data = element_dataset(curved, {"place": lambda x, y, z: x - 3 * y + 2 * z})
    plane = take_slice(on_grid(data, 21), "z=mid").isel(step=0)
    right = plane.x.values[None, :] - 3 * plane.y.values[:, None] + 2 * float(plane.z)
    np.testing.assert_allclose(plane.place.values, right, atol=1e-9)


def test_a_ring_has_a_hole():
    origin, lengths = (0.0, 1.0, 0.0), (1.0, 1.0, 1.0)
    mesh = BoxMesh.box((1, 2, 8), lengths, origin, periodic=(False, False, True),
                           mapping=annulus(origin, lengths, 0.0))  # fmt: skip
    plane = on_grid(element_dataset(mesh, {"z2": lambda x, y, z: z**2}, order=7), 31).isel(step=0, z=10)
    radius = np.hypot(plane.x.values[None, :], plane.y.values[:, None])
    inside = (radius > 1.001) & (radius < 1.999)
    np.testing.assert_allclose(plane.z2.values[inside], float(plane.z) ** 2, atol=1e-9)
    assert np.isnan(plane.z2.values[(radius < 0.999) | (radius > 2.001)]).all()


def test_only_elements_that_a_plane_crosses_are_read():
    reads: list[int] = []
    data = element_dataset(box((4, 2, 2)), {"u": lambda x, y, z: x, "v": lambda x, y, z: y}, reads)
    images = on_grid(data, 21)
    plane = images.isel(step=1, z=2).load()
    assert sum(reads) == 2 * (4 * (ORDER + 1) ** 3 * 8)
    assert not np.isnan(plane.u.values).any()


def test_a_point_of_several_elements_is_of_the_first():
    data = element_dataset(BoxMesh.box((1, 1, 2), (1.0, 1.0, 1.0)), {"u": lambda x, y, z: 0 * x})
    data["u"] = data.u + xr.DataArray([1.0, 2.0], dims="element")
    u = on_grid(data, 5).u.isel(step=0)  # x = 0.5, in the middle, is on the face between them
    np.testing.assert_allclose(u.values[2, 2], [1.0, 1.0, 1.0, 2.0, 2.0])


def test_the_order_of_elements_and_their_directions_does_not_matter():
    data = element_dataset(box(), {"u": lambda x, y, z: x * y - z})
    turned = data.isel(
        element=np.random.default_rng(3).permutation(24), r=slice(None, None, -1), t=slice(None, None, -1)
    )
    seen = [on_grid(each, 15).u.values for each in (data, turned)]
    np.testing.assert_allclose(seen[0], seen[1], atol=1e-12)


def test_images_stay_as_they_are(dataset):
    assert on_grid(dataset) is dataset


@pytest.mark.parametrize("spec", ["x=0.26", "y=-1"])
def test_planes_are_named_by_index_or_place(spec):
    images = on_grid(element_dataset(box(), {"u": lambda x, y, z: x + 10 * y}), 41)
    plane = take_slice(images, spec).isel(step=0)
    if spec[0] == "x":
        assert float(plane.x) == pytest.approx(4 * 2.5 / 41)
    np.testing.assert_allclose(
        plane.u.values, (plane.x + 10 * plane.y + 0 * plane.z).transpose(*plane.u.dims).values
    )
