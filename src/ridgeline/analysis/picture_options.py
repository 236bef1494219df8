"""The options of `ridgeline plot`, declared once. Imports nothing heavy, because `ridgeline --help` reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.runtime.declared_options import DeclaredOptions, OptionSpec, options_of


@dataclass(frozen=True)
class PictureOptions(DeclaredOptions):
    """Options for the picture of a file. Not every option applies to every kind of file."""

    variable: Annotated[
        tuple[str, ...],
        OptionSpec(
            "Field, or column of a time series, to draw.",
            metavar="NAME",
            otherwise="all fields, or the most informative columns",
        ),
    ] = ()
    all: Annotated[bool, OptionSpec("Draw all columns of a time series.")] = False
    page: Annotated[int, OptionSpec("Page of a picture with more than 12 panels.", minimum=1)] = 1
    wall_units: Annotated[bool, OptionSpec("Draw the profile of the mean flow at walls, as U+ over y+.")] = (
        False
    )
    convergence: Annotated[
        str | None,
        OptionSpec(
            "Average over the first 1, 2, ... windows to draw, with standard errors.",
            metavar="NAME",
        ),
    ] = None
    budget: Annotated[
        str | None,
        OptionSpec(
            "Budget of stresses to draw: k (half their trace), uu, vv, ww, uv, uw or vw.", metavar="STRESS"
        ),
    ] = None
    merge: Annotated[
        int,
        OptionSpec("Number of windows that form a batch of the standard errors.", minimum=1),
    ] = 1
    slice: Annotated[
        str,
        OptionSpec(
            "Plane, by an index (z=mid, y=12, x=-1) or a place (z=0.5, for atoms in sigma).",
            metavar="AXIS=INDEX",
        ),
    ] = "z=mid"
    step: Annotated[
        int, OptionSpec("Output to show, by its time step, or counted back from the last one, which is -1.")
    ] = -1
    colour_map: Annotated[
        str | None,
        OptionSpec(
            "Colour map of matplotlib for planes and movies.",
            flags=("--colour-map", "--cmap"),
            metavar="NAME",
            otherwise="by the field",
        ),
    ] = None
    average: Annotated[
        str | None,
        OptionSpec(
            "Draw the mean of spectra, g(r) or statistics over the outputs of these time steps.",
            metavar="FIRST:LAST",
        ),
    ] = None
    compensated: Annotated[
        bool, OptionSpec("Draw only the compensated spectrum, k^(5/3) E(k) / eps^(2/3) over k eta.")
    ] = False
    pdf: Annotated[bool, OptionSpec("Draw the probability density instead of a plane or spectra.")] = False
    isosurface: Annotated[
        str | None, OptionSpec("Draw the surface on which a field has a value.", metavar="FIELD=VALUE")
    ] = None
    colour: Annotated[
        str | None,
        OptionSpec("Field that colours the isosurface.", flags=("--colour", "--color"), metavar="FIELD"),
    ] = None
    volume: Annotated[str | None, OptionSpec("Draw a view through a field in space.", metavar="FIELD")] = None
    movie: Annotated[
        str | None, OptionSpec("Write a movie over all outputs, as .gif or .mp4.", metavar="FILE")
    ] = None
    rate: Annotated[
        float, OptionSpec("Number of outputs that the movie shows per second.", above=0, maximum=100)
    ] = 10.0
    width: Annotated[
        int | None,
        OptionSpec(
            "Width of the movie in pixels.", minimum=64, maximum=7680, otherwise="from the size of its planes"
        ),
    ] = None
    roofline: Annotated[
        bool, OptionSpec("Draw the speed of the regions of a report beside the limits of the machine.")
    ] = False

    def given(self) -> list[str]:
        """Return the names of the options whose values are not their defaults."""
        return [
            option.name for option in options_of(type(self)) if getattr(self, option.name) != option.default
        ]
