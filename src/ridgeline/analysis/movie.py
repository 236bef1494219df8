"""Movies of a plane of fields: GIF by Pillow, MP4 (H.264) by the ffmpeg of imageio-ffmpeg, an extra."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray
from PIL import Image

from ridgeline.analysis.colour_scales import colour_scales
from ridgeline.analysis.plot import DOTS_PER_INCH, load_plane, planes_figure, title
from ridgeline.analysis.slices import get_field, step_numbers, take_slice, value_range
from ridgeline.io.output_files import GENERATOR, atomic_output
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.extras import import_extra

BLOCK = 16  # pixels: H.264 divides pictures into blocks of this size

Frame = NDArray[np.uint8]  # [height, width, 3]


def save_movie(
    dataset: xr.Dataset,
    variables: str | Sequence[str],
    slice_spec: str,
    path: str | PathLike[str],
    frames_per_second: float = 10.0,
    width: int | None = None,
    colour_map: str | None = None,
) -> int:
    """Write a movie of one plane of fields side by side, with a frame for each output step.

    Parameters
    ----------
    dataset : xarray.Dataset
        A data set as `ridgeline.open` returns it.
    variables : str or sequence of str
        Names of fields.
    slice_spec : str
        A plane, as for `take_slice`.
    path : path
        The movie; its suffix is .gif or .mp4.
    frames_per_second : float
        At most 100.
    width : int, optional
        Width of a frame in pixels, rounded up to a multiple of 16; None for DOTS_PER_INCH times the inches of a
        picture.
    colour_map : str, optional
        A colour map of matplotlib; None chooses one for each field.

    Returns
    -------
    int
        The number of frames.

    Raises
    ------
    ConfigError
        For an invalid field, slice, rate or suffix, or if an MP4 needs the extra `movie`.
    OutputError
        If the file cannot be written.

    Notes
    -----
    Local. All frames share the colours of a field, from the least to the greatest finite value of its plane over all
    steps. Each plane is therefore read twice, one plane at a time, or some MiB of small ones.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis.movie import save_movie
    >>> values = np.random.default_rng(0).random((2, 4, 6, 6))
    >>> coords = {"step": [0, 10], "z": range(4), "y": range(6), "x": range(6)}
    >>> data = xr.Dataset({"V": (("step", "z", "y", "x"), values)}, coords)
    >>> save_movie(data, "V", "z=mid", "v.gif", width=160)
    2
    """
    save = {".gif": _save_gif, ".mp4": _save_mp4}.get(Path(path).suffix)
    if save is None:
        raise ConfigError(f"cannot write a movie to '{path}', because its suffix must be .gif or .mp4.")
    if not 0 < frames_per_second <= 100:
        raise ConfigError(
            f"frames_per_second is {frames_per_second}, but it must be more than 0 and at most 100."
        )
    steps = step_numbers(dataset)
    if not len(steps):
        raise ConfigError("the data set has no output step yet. Wait for the first output of the run.")
    names = [variables] if isinstance(variables, str) else list(variables)
    frames = _frames(dataset, names, slice_spec, width, colour_map)
    with atomic_output(path, "--movie") as new:
        save(frames, new, frames_per_second)
    return len(steps)


def _frames(
    dataset: xr.Dataset, names: Sequence[str], slice_spec: str, width: int | None, colour_map: str | None
) -> Iterator[Frame]:
    """Draw the frames one after the other into one figure, whose sides are multiples of BLOCK."""
    ranges = {}
    for name in names:
        low, high = value_range(take_slice(get_field(dataset, name), slice_spec), skip_nonfinite=True)
        ranges[name] = (low, high) if low <= high else (0.0, 1.0)
    shades = colour_scales(ranges, colour_map)
    figure: Figure | None = None
    images: list[AxesImage] = []
    for step in step_numbers(dataset):
        planes = [load_plane(dataset, name, slice_spec, int(step)) for name in names]
        if figure is None:
            figure, images = planes_figure(planes, shades)
            inches = figure.get_size_inches()
            dots = width / inches[0] if width else DOTS_PER_INCH
            figure.set_dpi(dots)
            # Rounding keeps a width that is a multiple of BLOCK already.
            figure.set_size_inches(np.ceil(np.round(inches * dots / BLOCK, 6)) * BLOCK / dots)
        for image, plane in zip(images, planes):
            image.set_data(plane.values)
        figure.suptitle(title(planes[0]))
        canvas: Any = figure.canvas  # Matplotlib does not type its drawing methods
        canvas.draw()
        figure.set_layout_engine("none")  # the layout of the first frame is kept, so that nothing moves
        yield np.ascontiguousarray(np.asarray(canvas.buffer_rgba())[..., :3])


def _save_gif(frames: Iterator[Frame], path: Path, frames_per_second: float) -> None:
    images = (Image.fromarray(frame).quantize(256) for frame in frames)
    next(images).save(
        path,
        save_all=True,
        append_images=images,
        duration=round(1000 / frames_per_second),
        loop=0,
        comment=GENERATOR.encode(),
    )


def _save_mp4(frames: Iterator[Frame], path: Path, frames_per_second: float) -> None:
    write = import_extra("imageio_ffmpeg", "an MP4", "write a .gif", probe="get_ffmpeg_exe").write_frames
    first = next(frames)
    height, width, _ = first.shape
    movie = write(
        str(path),
        (width, height),
        fps=frames_per_second,
        macro_block_size=BLOCK,
        ffmpeg_log_level="error",
        output_params=["-metadata", f"comment={GENERATOR}"],
    )
    try:
        movie.send(None)
        for frame in (first, *frames):
            movie.send(frame)
    except OSError as error:
        raise OutputError(f"ffmpeg could not write the movie {path}: {error}.") from None
    finally:
        movie.close()
