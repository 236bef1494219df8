"""Views of fields in space, rendered by VTK through PyVista (the extra `viz`) without a display.

The scene is rendered in a separate process, because VTK crashes if no library can render off screen.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ridgeline.analysis.colour_scales import SIGNED_MAP, ColourScale, box_edges, colour_scales, finite_range
from ridgeline.analysis.plot import blank_figure, panels, title
from ridgeline.analysis.slices import get_field, select_step, spatial_dims
from ridgeline.runtime.errors import ConfigError, DeviceError
from ridgeline.runtime.extras import import_extra, require_extra

MOST = 101  # largest number of points along a direction
WINDOW = (1500, 1300)  # pixels
INSIDE, COLOUR = "is inside", "colour by"  # names of arrays of a scene that no field can have

Reals = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Scene:
    """The content of a view: values [z, y, x] at origin + index * spacing, both in the order (x, y, z).

    box: the ends of the domain along (x, y, z); scale: the colours of the field; value: that of an isosurface, None
    for a view through the volume; colour: name and values of the field that colours the isosurface.
    """

    name: str
    values: Reals
    origin: tuple[float, ...]
    spacing: tuple[float, ...]
    box: tuple[tuple[float, float], ...]
    scale: ColourScale
    value: float | None
    colour: tuple[str, Reals] | None = None


def plot_isosurface(dataset: xr.Dataset, spec: str, step: int = -1, colour: str | None = None) -> Figure:
    """Draw the surface on which a field has a value.

    spec: "FIELD=VALUE"; step: as for `select_step`; colour: another field, whose values colour the surface; None
    draws it in one colour. Raises ConfigError for a field or a value that does not exist, or without PyVista, and
    DeviceError if VTK cannot render.
    """
    name, separator, text = (part.strip() for part in spec.partition("="))
    try:
        value = float(text)
    except ValueError:
        separator = ""
    if not separator:
        raise ConfigError(f"--isosurface {spec} is not a surface. Write FIELD=VALUE, such as V=0.2.")
    field, scene = _scene(dataset, name, step, value)
    low, high = finite_range(scene.values)
    if not low < value < high:
        raise ConfigError(
            f"--isosurface {spec}: {name} is between {low:.4g} and {high:.4g} there. Use a value in between."
        )
    by = ""
    if colour is not None:
        scene = replace(scene, colour=(colour, _scene(dataset, colour, step, None)[1].values))
        by = f" coloured by {colour}"
    return _figure(scene, f"{name} = {value:g}{by}, {title(field)}")


def plot_volume(dataset: xr.Dataset, name: str, step: int = -1) -> Figure:
    """Draw a field in space as a haze that is denser where the field is larger. Errors as in `plot_isosurface`."""
    field, scene = _scene(dataset, name, step, None)
    return _figure(scene, f"{name}, {title(field)}")


def _scene(dataset: xr.Dataset, name: str, step: int, value: float | None) -> tuple[xr.DataArray, Scene]:
    require_extra("pyvista", "a view in space", "draw a plane with --slice")
    field = select_step(get_field(dataset, name), step)
    dims = spatial_dims(field)
    if len(dims) != 3 or min(field.sizes[dim] for dim in dims) < 2:
        raise ConfigError(
            f"a view in space requires three directions, which {name} does not have. Draw a plane with --slice."
        )
    thinned = field.isel({dim: slice(None, None, -(-field.sizes[dim] // MOST)) for dim in dims})
    places = [np.asarray(thinned[dim].values, float) if dim in thinned.coords else None for dim in dims]
    places = [np.arange(n, dtype=float) if at is None else at for at, n in zip(places, thinned.shape)]
    values = np.ascontiguousarray(thinned.values, np.float32)
    return field, Scene(
        name=name,
        values=values,
        origin=tuple(float(at[0]) for at in reversed(places)),
        spacing=tuple(float(at[1] - at[0]) for at in reversed(places)),
        box=tuple(box_edges(field, dim) for dim in reversed(dims)),
        scale=colour_scales({name: finite_range(values)})[name],
        value=value,
    )


def _rendered(scene: Scene) -> tuple[NDArray[np.uint8], ColourScale | None]:
    """Return the result of `render`, called in a separate process."""
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            return process.submit(render, scene).result()
    except (BrokenProcessPool, RuntimeError, AttributeError, OSError) as error:
        raise DeviceError(
            f"VTK cannot render without a display here ({error}). Install libosmesa6 or libegl1, or draw a plane "
            "with --slice."
        ) from None


def _figure(scene: Scene, words: str) -> Figure:
    image, scale = _rendered(scene)
    figure = blank_figure(8.4 if scale else 7.5, 6.9)
    (axes,) = panels(figure, 1)
    axes.imshow(image)
    axes.set_axis_off()
    if scale:
        colours = ScalarMappable(Normalize(*scale.limits), scale.colours)
        figure.colorbar(colours, ax=axes, shrink=0.7, label=scene.colour[0] if scene.colour else scene.name)
    figure.suptitle(words)
    ends = ", ".join(f"{name} = {low:.3g} to {high:.3g}" for name, (low, high) in zip("xyz", scene.box))
    figure.supxlabel(ends, fontsize="medium")
    return figure


def render(scene: Scene) -> tuple[NDArray[np.uint8], ColourScale | None]:
    """Return the picture of a scene, [height, width, 3] without white margins, and its colour scale.

    The colour scale is None for a surface of one colour. Otherwise the limits of a surface's colours are those of the
    second field on it. This runs in a separate process, in which VTK may crash.
    """
    pyvista = import_extra("pyvista", "a view in space")
    from vtkmodules.vtkCommonCore import vtkLogger

    vtkLogger.SetStderrVerbosity(vtkLogger.VERBOSITY_OFF)  # otherwise it reports each library that it tries
    grid = pyvista.ImageData(dimensions=scene.values.shape[::-1], spacing=scene.spacing, origin=scene.origin)
    low, high = scene.scale.limits
    finite = np.isfinite(scene.values)
    grid.point_data[scene.name] = np.where(finite, scene.values, 0.0 if low < 0 < high else low).ravel()
    plotter = pyvista.Plotter(off_screen=True, window_size=WINDOW)
    plotter.set_background("white")
    scale: ColourScale | None = scene.scale
    if scene.value is None:
        opacity = [0.6, 0.2, 0.0, 0.2, 0.6] if scene.scale.map_name == SIGNED_MAP else [0.0, 0.05, 0.2, 0.5]
        plotter.add_volume(
            grid,
            scalars=scene.name,
            cmap=scene.scale.colours,
            clim=scene.scale.limits,
            opacity=opacity,
            show_scalar_bar=False,
        )
    else:
        inside: Any = grid
        if scene.colour is not None:
            grid.point_data[COLOUR] = scene.colour[1].ravel()
        if not finite.all():
            grid.point_data[INSIDE] = finite.ravel().astype(np.float32)
            inside = grid.threshold(0.5, scalars=INSIDE, all_scalars=True)
        surface = inside.contour([scene.value], scalars=scene.name)
        style: dict[str, Any] = {"color": "#6fa3d8"}
        scale = None
        if scene.colour is not None:
            scale = colour_scales({scene.colour[0]: finite_range(np.asarray(surface.point_data[COLOUR]))})[
                scene.colour[0]
            ]
            style = {"scalars": COLOUR, "cmap": scale.colours, "clim": scale.limits, "show_scalar_bar": False}
        plotter.add_mesh(surface, smooth_shading=True, specular=0.3, **style)
    plotter.add_mesh(pyvista.Box([end for ends in scene.box for end in ends]).outline(), color="black")
    plotter.add_axes(color="black", line_width=4)
    image = np.asarray(plotter.screenshot(return_img=True))[..., :3]
    plotter.close()
    rows, columns = (np.flatnonzero((image < 255).any(axis=(axis, 2))) for axis in (1, 0))
    if not len(rows):
        raise RuntimeError("the picture is empty")
    return np.ascontiguousarray(image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]), scale
