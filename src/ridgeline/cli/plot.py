"""`ridgeline plot`: pictures of what a run wrote."""

from __future__ import annotations

from typing import Annotated

import typer

from ridgeline.analysis.picture_options import PictureOptions
from ridgeline.cli.options import with_options
from ridgeline.runtime.declared_options import options_of


@with_options(options_of(PictureOptions), PictureOptions)
def plot(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="BP5 data set, Nek5000 field file, time series (CSV), or report of a run or benchmark (JSON).",
        ),
    ],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="PNG", help="Picture to write.")
    ] = None,
    *,
    options: PictureOptions,
) -> None:
    """Draw planes or views of fields, layers of atoms, densities, movies, spectra, g(r), time series, or a report.

    Of what Ridgeline writes and has no picture of, one sentence says what shows it.
    """
    from ridgeline.analysis.plot_command import draw_file

    for path in draw_file(data, options, output):
        typer.echo(f"wrote {path}", err=True)
