"""Small data sets of each kind, as `ridgeline.open` returns them, which the tests of exports share."""

import numpy as np
import xarray as xr

from ridgeline.elements.quadrature import gauss_lobatto

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
