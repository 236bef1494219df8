"""Small data sets of each kind, as `ridgeline.open` returns them, which the tests of exports share."""

import re
from pathlib import Path

import numpy as np
import xarray as xr

from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.io.export.export import export
from ridgeline.io.export.export_options import ExportOptions
from ridgeline.io.viewer import viewer_folder

STEPS, TIMES = (0, 10, 25), (0.0, 0.5, 1.25)
ELEMENT_DIMS = ("element", "t", "s", "r")
COORDS = {"step": ("step", list(STEPS)), "time": ("step", list(TIMES), {"units": "1", "long_name": "time"})}


def grid(shape=(5, 4, 7), dtype="float64") -> xr.Dataset:
    """Two scalars and a vector on an even grid that begins at (0.5, -1, 2), and a spectrum."""
    random = np.random.default_rng(3)
    names = ("U", "velocity_x", "velocity_y", "velocity_z")
    dims = ("step", "z", "y", "x")
    fields = {name: (dims, random.normal(size=(3, *shape)).astype(dtype)) for name in names}
    fields["V"] = (dims, random.normal(size=(3, *shape)).astype("float32"), {"units": "1"})
    fields["spectrum"] = (("step", "k"), random.random((3, 4)))
    places = {
        axis: (axis, first + apart * np.arange(n), {"units": "1"})
        for axis, n, first, apart in zip("zyx", shape, (0.5, -1.0, 2.0), (0.25, 0.5, 0.125))
    }
    attributes = {"model.F": 0.02, "Fides_Origin": np.zeros(3), "vtk.xml": "<VTKFile/>", "names": "a, b"}
    return xr.Dataset(fields, COORDS | places, attributes)


def polynomial(x, y, z):
    """A smooth function of place, which elements of order 3 hold exactly where they are boxes."""
    return x**3 - 2.0 * x * y * z + y**2 * z - 0.5


def elements(n=4, bent=0.0, dtype="float64") -> xr.Dataset:
    """Three elements in a row along x, whose fields are functions of place. bent: how far sides are curved."""
    points = (gauss_lobatto(n)[0] + 1.0) / 2.0
    t, s, r = np.meshgrid(points, points, points, indexing="ij")
    x = np.stack([r + number for number in range(3)]) + bent * s * (1.0 - s)
    y, z = np.broadcast_to(s, x.shape) + bent * t, np.broadcast_to(t, x.shape) * 1.0
    values = polynomial(x, y, z)
    names = ("velocity_x", "velocity_y", "velocity_z", "pressure", "scalar_0", "scalar_1")
    fields = {
        name: (
            ("step", *ELEMENT_DIMS),
            np.stack([(i + 1) * values + time for time in TIMES]).astype(dtype),
        )
        for i, name in enumerate(names)
    }
    places = {name: (ELEMENT_DIMS, place) for name, place in (("x", x), ("y", y), ("z", z))}
    return xr.Dataset(fields, COORDS | places)


def faces(n=4, bent=0.0) -> xr.Dataset:
    """The faces of the elements where s = 1, as a part on a side of the domain holds them."""
    data = elements(n, bent).isel(s=-1).rename(element="face", t="s")
    return data.rename({f"velocity_{axis}": f"wall_shear_{axis}" for axis in "xyz"})


def particles(n=11, axis="atom", dtype="float64") -> xr.Dataset:
    """Moving particles in a periodic box of 4 x 5 x 6."""
    random = np.random.default_rng(5)
    shape, dims = (3, n, 3), ("step", axis, "axis")
    fields = {
        "position": (dims, random.random(shape) * [4, 5, 6], {"units": "sigma"}),
        "velocity": (
            dims,
            random.normal(size=shape).astype(dtype),
            {"units": "km/s", "long_name": "velocity"},
        ),
        "force": (dims, random.normal(size=shape)),
        "image": (dims, random.integers(-3, 4, shape).astype("int32")),
        "energy": (dims[:2], random.normal(size=shape[:2])),
    }
    ends = {f"box{along}lo": 0.0 for along in "xyz"} | dict(
        zip(("boxxhi", "boxyhi", "boxzhi"), (4.0, 5.0, 6.0))
    )
    coords = COORDS | {"axis": ("axis", np.array(["x", "y", "z"], object), {"long_name": "component"})}
    return xr.Dataset(fields, coords, ends | {"boundarystr": "pp pp ff"})


def assert_viewer_files_equal_an_export(data_set: Path) -> None:
    """Compare what output.viewer has written beside a data set with what `ridgeline export` makes of it.

    Their texts may differ in the last digit of a spacing, which one computes from places, and in the order of arrays.
    """
    folder = viewer_folder(str(data_set))
    lists = [folder / f"{data_set.stem}.pvd", data_set.with_name(f"{data_set.stem}_exported.pvd")]
    export(str(data_set), str(lists[1]), ExportOptions())
    ours, theirs = (
        re.findall(r'timestep="([^"]+)" part="0" file="([^"]+)"', path.read_text()) for path in lists
    )
    assert len(ours) == len(theirs) > 0
    for (time, name), (other_time, other) in zip(ours, theirs):
        assert (time, Path(name).suffix) == (other_time, Path(other).suffix)
        arrays = [_appended((path.parent / file).read_bytes()) for path, file in zip(lists, (name, other))]
        assert arrays[0] == arrays[1], name


def _appended(content: bytes) -> dict[bytes, bytes]:
    """Return the bytes of each array of a VTK file, by the description of the array."""
    text, _, numbers = content.partition(b"\n_")
    described = re.findall(rb'(<DataArray .*) format="appended" offset="(\d+)"/>', text)
    lengths = {offset: int.from_bytes(numbers[int(offset) :][:8], "little") for _, offset in described}
    return {about: numbers[int(offset) + 8 :][: lengths[offset]] for about, offset in described}
