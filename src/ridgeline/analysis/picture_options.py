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
            "A field, or a column of a time series.",
            metavar="NAME",
            otherwise="all fields, the most telling columns",
        ),
    ] = ()
    all: Annotated[bool, OptionSpec("Draw all columns of a time series.")] = False
    page: Annotated[int, OptionSpec("Page of a picture of more than 12 panels.", minimum=1)] = 1
    wall_units: Annotated[bool, OptionSpec("Draw the profile of the mean flow at walls, as U+ over y+.")] = (
        False
    )
    slice: Annotated[
        str,
        OptionSpec("Plane: z=mid, y=12, x=-1, or a place, z=0.5; of atoms in sigma.", metavar="AXIS=INDEX"),
    ] = "z=mid"
    step: Annotated[int, OptionSpec("Output to show, by its time step; negative counts from the last.")] = -1
    average: Annotated[
        str | None,
        OptionSpec("Mean of spectra or g(r) over the outputs of these time steps.", metavar="FIRST:LAST"),
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
        str | None, OptionSpec("Write a movie over all outputs: .gif or .mp4.", metavar="FILE")
    ] = None
    rate: Annotated[float, OptionSpec("Outputs of a movie in a second.", above=0, maximum=100)] = 10.0
    width: Annotated[
        int | None,
        OptionSpec("Width of a movie in pixels.", minimum=64, maximum=7680, otherwise="by its planes"),
    ] = None
    roofline: Annotated[
        bool, OptionSpec("Draw the speed of a report's regions beside the machine's limits.")
    ] = False

    def given(self) -> list[str]:
        """Return the names of the options whose values are not their defaults."""
        return [
            option.name for option in options_of(type(self)) if getattr(self, option.name) != option.default
        ]
