"""What Ridgeline writes and has no picture of here: one sentence for each, which names what shows it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from ridgeline.analysis.options import PictureOptions
from ridgeline.analysis.sweep_plots import is_sweep
from ridgeline.io import bp_files, checkpoint_format
from ridgeline.io.stored_reports import is_run
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import read_regular

# What is in a folder, or in the JSON of a report, and what to do instead.
IN_FOLDERS = {
    checkpoint_format.MANIFEST: "a checkpoint, from which a run goes on; name the data set of output.path",
    "checkpoint_*": "a folder of checkpoints, from which a run goes on; name the data set of output.path",
    "sweep.csv": "the folder of a sweep, whose contact sheet is {0}/sweep.png; name {0}/sweep.json for its figures",
    "study.toml": "the folder of a study, whose pictures `ridgeline study collect {0}` puts into {0}/figures",
    "report.html": "the report of a validation; open {0}/report.html, which has its pictures",
}
IN_REPORTS = {
    "traceEvents": "a trace; open https://ui.perfetto.dev in a browser and choose 'Open trace file'",
    "verdict": "the report of a validation; open report.html beside it, which has its pictures",
    "predictions": "predictions; `ridgeline predict --plot` draws them",
    "schema": "measurements of a validation; `ridgeline validate --report` makes a page of them with pictures",
    "xxh3_64": "the manifest of a checkpoint; name the data set of output.path",
}
_ROWS = "the rows of a benchmark, study or sweep; name the .json beside it"
_TABLE = "a table without a picture of its own; `ridgeline report {0}` prints it, and a study has figures beside it"
BY_SUFFIX = {
    ".toml": "settings; `ridgeline run` runs a case, and its output.path is drawn",
    ".html": "a page; open it in a browser",
    ".md": "a page of text",
    ".txt": "text",
    ".png": "a picture already",
    ".svg": "a picture already",
    ".pdf": "a picture already",
    ".gif": "a movie already",
    ".mp4": "a movie already",
    ".vti": "data for ParaView",
}


def refuse_without_picture(path: Path) -> None:
    """Raise ConfigError, in one sentence, for what has no picture: by its name, or by what is in it.

    What is not there, or cannot be read, is left to those who open it.
    """
    try:
        why = _of_folder(path) if path.is_dir() else _of_file(path)
    except (OSError, ValueError, RecursionError):
        return
    if why:
        raise ConfigError(f"'{path}' is {why.format(path)}")


def _of_folder(path: Path) -> str:
    if bp_files.is_data_set(path):
        return ""
    return next((why for name, why in IN_FOLDERS.items() if any(path.glob(name))), "")


def _of_file(path: Path) -> str:
    if path.suffix == ".csv":
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            table = file.readline(10).startswith(b"benchmark,")
        return _ROWS if table else ""
    if path.suffix == ".json":
        content = json.loads(read_regular(path).decode())
        if not isinstance(content, dict) or is_run(content):
            return ""
        if "benchmark" in content:
            return "" if content.get("plot") or is_sweep(content) else _TABLE
        return next((why for key, why in IN_REPORTS.items() if key in content), "")
    return BY_SUFFIX.get(path.suffix, "") if path.exists() else ""


# An option, and the one without which it has no effect; an option, and the one beside which it has none.
NEEDED = (("rate", "movie"), ("width", "movie"), ("colour", "isosurface"))
EXCLUDED = (
    ("volume", "isosurface"),
    ("pdf", "isosurface"),
    ("pdf", "volume"),
    ("compensated", "pdf"),
    ("average", "pdf"),
    ("variable", "wall_units"),
    ("page", "wall_units"),
)
# The same where no movie is drawn, which has a variable and a plane too.
EXCLUDED_FROM_VIEWS = tuple(
    (name, view) for name in ("variable", "slice") for view in ("isosurface", "volume")
)


OF_PICTURES = ("step", "pdf", "isosurface", "volume")


def refuse_idle(options: PictureOptions, movie_alone: bool) -> None:
    """Raise ConfigError for the first option that another one leaves without an effect.

    movie_alone: whether no picture is drawn beside the movie.
    """
    given = options.given()
    for name, needed in NEEDED:
        if name in given and needed not in given:
            raise ConfigError(
                f"{_flag(name)} has no effect without --{needed}; add --{needed}, or leave {_flag(name)} out"
            )
    for name, other in EXCLUDED + (() if "movie" in given else EXCLUDED_FROM_VIEWS):
        if name in given and other in given:
            raise ConfigError(
                f"{_flag(name)} has no effect beside {_flag(other)}; draw one picture with each"
            )
    for name in OF_PICTURES:
        if movie_alone and name in given:
            raise ConfigError(f"--{name} has no effect on a movie; name a picture too with --output")


def refuse_wishes(data: str, what: str, options: PictureOptions, useful: Iterable[str]) -> None:
    """Raise ConfigError for the first wish that has no meaning for `data`, which is `what`."""
    for name in options.given():
        if name not in useful:
            has = ", ".join(_flag(one) for one in useful) or "no option"
            raise ConfigError(
                f"'{data}' is {what}, for which {_flag(name)} has no meaning; leave it out (it has {has})"
            )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
