"""What `ridgeline plot` can be asked for, declared once. Imports nothing heavy: `ridgeline --help` reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.runtime.declared_options import DeclaredOptions, OptionSpec, options_of


@dataclass(frozen=True)
class PictureOptions(DeclaredOptions):
    """Which picture of a file is wanted. Not every wish has a meaning for every kind of file."""

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
    wall_units: Annotated[bool, OptionSpec("Profile of the mean flow at walls, as U+ over y+.")] = False
    slice: Annotated[
        str,
        OptionSpec("Plane: z=mid, y=12, x=-1, or a place, z=0.5; of atoms in sigma.", metavar="AXIS=INDEX"),
    ] = "z=mid"
    step: Annotated[int, OptionSpec("Output to show, by its time step; negative counts from the last.")] = -1
    average: Annotated[
        str | None,
        OptionSpec("Mean of spectra or g(r) over the outputs of these time steps.", metavar="FIRST:LAST"),
    ] = None
    compensated: Annotated[bool, OptionSpec("Of spectra k^(5/3) E(k) / eps^(2/3) over k eta alone.")] = False
    pdf: Annotated[bool, OptionSpec("Probability density instead of the plane or the spectra.")] = False
    isosurface: Annotated[
        str | None, OptionSpec("Surface in space where a field has a value.", metavar="FIELD=VALUE")
    ] = None
    colour: Annotated[
        str | None,
        OptionSpec("Field that colours the isosurface.", flags=("--colour", "--color"), metavar="FIELD"),
    ] = None
    volume: Annotated[str | None, OptionSpec("See through a field in space.", metavar="FIELD")] = None
    movie: Annotated[
        str | None, OptionSpec("Write a movie over all outputs: .gif or .mp4.", metavar="FILE")
    ] = None
    rate: Annotated[float, OptionSpec("Outputs of a movie in a second.", above=0, maximum=100)] = 10.0
    width: Annotated[
        int | None,
        OptionSpec("Width of a movie in pixels.", minimum=64, maximum=7680, otherwise="by its planes"),
    ] = None
    roofline: Annotated[
        bool, OptionSpec("Of a report the speed of its regions beside the machine's limits.")
    ] = False

    def given(self) -> list[str]:
        """Return the names of the options that are not as they are by default."""
        return [one.name for one in options_of(type(self)) if getattr(self, one.name) != one.default]
