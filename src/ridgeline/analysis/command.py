"""What `ridgeline plot` does: open a data set and write the pictures asked for."""

from collections.abc import Sequence
from pathlib import Path

import ridgeline
from ridgeline.analysis.movie import save_movie
from ridgeline.analysis.plot import save_pdf, save_slices
from ridgeline.analysis.slices import field_names
from ridgeline.runtime.errors import ConfigError


def draw(
    data: str,
    variables: Sequence[str] = (),
    slice_spec: str = "z=mid",
    step: int = -1,
    pdf: bool = False,
    movie: str | None = None,
    output: str | None = None,
) -> list[Path]:
    """Write pictures of the data set `data` and return their paths.

    variables : names of fields; none means all for a picture and the first for a movie.
    slice_spec, step : as for `take_slice` and `select_step`.
    pdf : draw the probability density instead of the plane.
    movie : path of a GIF to write; then a picture is written only if `output` names one.
    output : path of the picture; None writes NAME.png, or NAME_pdf.png, beside the data set NAME.bp.
    Raises ConfigError for an impossible wish, OutputError for what cannot be read or written.
    """
    written = []
    with ridgeline.open(data) as dataset:
        if movie is not None:
            if len(variables) > 1:
                raise ConfigError(f"a movie shows one variable, not {', '.join(variables)}; name one of them")
            names = variables or field_names(dataset)[:1]
            if not names:
                raise ConfigError(f"the data set '{data}' has no field to draw")
            save_movie(dataset, names[0], slice_spec, movie)
            written.append(Path(movie))
        if movie is None or output is not None:
            base = Path(data)
            path = Path(output) if output else base.with_name(f"{base.stem}{'_pdf' if pdf else ''}.png")
            (save_pdf if pdf else save_slices)(dataset, variables or None, slice_spec, step, path)
            written.append(path)
    return written
