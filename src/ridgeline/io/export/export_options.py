"""The options of `ridgeline export`, declared once. Imports nothing heavy, because `ridgeline --help` reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.runtime.declared_options import DeclaredOptions, OptionSpec


@dataclass(frozen=True)
class ExportOptions(DeclaredOptions):
    """The part of a data set that is exported."""

    step: Annotated[
        str | None,
        OptionSpec(
            'Outputs, by time steps ("100", "0,100", "200:800") or counted from the end ("-1", "last").',
            metavar="STEPS",
            otherwise="all",
        ),
    ] = None
    variables: Annotated[
        str | None,
        OptionSpec("Variables, with commas between them.", metavar="NAMES", otherwise="all"),
    ] = None
    region: Annotated[
        str | None,
        OptionSpec(
            'Part of space, such as "z=0:16, x=0.5:2.0": indices without the last one, or places with both ends.',
            metavar="BOX",
            otherwise="all of it",
        ),
    ] = None
