"""The sections that the settings of every model have: [run], [grid], [output], [checkpoint].

A model derives its sections from these and narrows what is specific to it, such as its name and its output variables.
"""

import math
import re
from collections.abc import Iterator, Mapping
from datetime import time
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema

from ridgeline.config.fields import (
    MOST_POINTS,
    ON,
    Checked,
    Count,
    Integer,
    Needs,
    Number,
    PathText,
    Problem,
    Triple,
    Truth,
    setting,
)
from ridgeline.config.intervals import Scheduled, recurring, time_interval, wall_interval
from ridgeline.config.parts import PartSection
from ridgeline.config.store_format import SUFFIXES, store_format


def seconds(value: Any) -> Any:
    """Turn "HH:MM:SS" or TOML's local time into seconds; leave anything else to the schema."""
    if isinstance(value, time):
        return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    match = re.fullmatch(r"(\d+):([0-5]\d):([0-5]\d)", value) if isinstance(value, str) else None
    if match is None:
        return value
    hours, minutes, rest = map(int, match.groups())
    return hours * 3600 + minutes * 60 + rest


_WALLTIME_SCHEMA = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": r"^\d+:[0-5]\d:[0-5]\d$"},
        {"type": "null"},
    ]
}
Walltime = Annotated[
    Annotated[Number, Field(gt=0)] | None, BeforeValidator(seconds), WithJsonSchema(_WALLTIME_SCHEMA)
]


Seed = Annotated[int, Strict()]


def seed_setting(description: str, needs: Needs | tuple[Needs, ...] = ()) -> Any:
    """Return the field of a seed: any key of Philox."""
    return setting(0, description, rule="an integer from 0 to 2^64 - 1", needs=needs, ge=0, le=2**64 - 1)


class RunSection(Checked):
    """What runs, how long, in which precision and on what."""

    model: Annotated[str, Field(max_length=200)] = setting(
        ...,
        "Model to run. `ridgeline explain` lists the models.",
        rule="the name of a model (`ridgeline explain` lists them)",
    )
    steps: Count | None = setting(
        None,
        "Number of time steps of the whole run at most, including those before a restart. If it is not set, "
        "run.end_time ends the run.",
        unit="steps",
        rule="an integer >= 1",
    )
    end_time: Number | None = setting(
        None,
        "Model time at which the run ends, unless run.steps ends it earlier.",
        unit="time",
        rule="a number > 0",
        gt=0,
    )
    precision: Literal["float64", "float32"] = setting("float64", "Floating-point type of the fields.")
    seed: Seed = seed_setting(
        "Seed of the random numbers. The same seed gives the same noise on any number of ranks and threads and with "
        "any process grid."
    )
    threads: Integer = setting(1, "Number of threads of each rank.", unit="threads", ge=1, le=4096)
    device: Literal["cpu", "cuda"] = setting("cpu", "Device on which the kernels run.")
    walltime: Walltime = setting(
        None,
        'Wall-clock limit, in seconds or as "HH:MM:SS". When it is reached, the run ends after the current step with '
        "a checkpoint and exit code 0. Choose it a few minutes below the limit of the job.",
        unit="s",
        rule='a number of seconds > 0 or "HH:MM:SS"',
    )
    check_memory: Truth = setting(
        True,
        "Whether a run is refused before it allocates memory if it needs more than is free. Its need is estimated as "
        "in `ridgeline check`; false starts the run anyway.",
    )
    check_every: Integer = setting(
        100,
        "Number of steps between checks for NaN and infinity. They are always checked before outputs and "
        "checkpoints, and with 0 only then.",
        unit="steps",
        ge=0,
    )

    def steady_rate(self) -> float | None:
        """Return the rate of change at which the run stops, None if it does not watch it."""
        return None


class AnyGridSection(Checked):
    """The grid of any model, with what every grid provides.

    It is not abstract, because a case whose model is unknown is checked with this section.
    """

    # The key of the grid's three sizes, and the number whose multiples they are.
    EXTENT: ClassVar[str] = "shape"
    MULTIPLE: ClassVar[int] = 1

    def points(self) -> tuple[int, int, int]:
        """Return the numbers of points [nz, ny, nx], as in reports."""
        raise NotImplementedError

    def words(self, axes: str = " (z y x)") -> str:
        """Return the size of the grid for people. axes: the text after the numbers of a box."""
        return " x ".join(map(str, self.points())) + axes

    def shrunk(self, share: float) -> Self:
        """Return a grid of the same form with about this share, in (0, 1], of its points; directions up to 4 stay."""
        sizes = getattr(self, self.EXTENT)
        factor = share ** (1 / max(1, sum(n > 4 for n in sizes)))
        smaller = tuple(max(min(n, 4), int(n * factor) // self.MULTIPLE * self.MULTIPLE) for n in sizes)
        return self.model_copy(update={self.EXTENT: smaller})


class GridSection(AnyGridSection):
    """The grid."""

    shape: Triple = setting(
        ...,
        "Number of cells in each direction, [nz, ny, nx], of which x is contiguous in memory.",
        unit="cells",
        rule="three integers >= 1 as [nz, ny, nx]",
    )

    def problems(self) -> Iterator[Problem]:
        if math.prod(self.shape) > MOST_POINTS:
            yield Problem("shape", "three integers >= 1 whose product is at most 2^53")

    def points(self) -> tuple[int, int, int]:
        return self.shape


class DividedGridSection(GridSection):
    """The grid and how ranks share it, in blocks."""

    process_grid: Literal["auto"] | Triple = setting(
        "auto",
        "Number of ranks in each direction, [pz, py, px]; the product must be the number of ranks. "
        '"auto" chooses the process grid with the cheapest exchange.',
        unit="ranks",
        rule='"auto" or three integers >= 1 as [pz, py, px]',
    )


class BlockGridSection(DividedGridSection):
    """The grid, how ranks share it, in blocks, and what lies beyond its faces."""

    boundary: Literal["periodic", "fixed"] = setting(
        "periodic",
        'What lies beyond the faces of the grid: the opposite face ("periodic"), or a layer that stays at the '
        'model\'s rest state ("fixed").',
    )


class PencilGridSection(GridSection):
    """The grid of Fourier transforms and how ranks share it, in slabs or pencils."""

    MULTIPLE: ClassVar[int] = 2

    decomposition: Literal["slabs", "pencils"] = setting(
        "slabs",
        'How ranks divide the grid: "slabs" divide only y and exchange data once per transform; "pencils" divide z '
        "and y, exchange data twice, and allow more ranks.",
    )
    process_grid: Literal["auto"] | tuple[Count, Count] = setting(
        "auto",
        "Number of ranks that divide z and y, [P_r, P_c]; the product must be the number of ranks, and slabs have "
        'P_r = 1. "auto" chooses the smallest P_r that fits.',
        unit="ranks",
        rule='"auto" or two integers >= 1 as [P_r, P_c]',
    )

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.decomposition == "slabs" and self.process_grid != "auto" and self.process_grid[0] != 1:
            yield Problem(
                "process_grid", '[1, P_c] with grid.decomposition = "slabs" ("pencils" allows any [P_r, P_c])'
            )


class TransposeSection(Checked):
    """The exchange between planes and lines. Results do not depend on it."""

    method: Literal["auto", "alltoall", "alltoallv", "ialltoallv", "node", "shared"] = setting(
        "auto",
        'How ranks exchange data: "alltoall" (equal blocks), "alltoallv" (exact blocks), "ialltoallv" (overlapped '
        'with computation), "node" (within nodes first) or "shared" (through shared memory, on one node only). '
        '"auto" uses the fastest, as measured before the first step or in an earlier run.',
        needs={"run.device": "cpu"},
    )


class DeviceTransposeSection(TransposeSection):
    """The exchange between planes and lines, on GPUs too."""

    between_gpus: Literal["auto", "mpi", "nccl", "host"] = setting(
        "auto",
        'How messages travel between GPUs: "mpi" (GPU-aware MPI), "nccl" (NVIDIA\'s library) or "host" (through '
        'pinned host memory). "auto" measures those that are available before the first step and uses the fastest.',
        needs={"run.device": "cuda"},
    )


class FftSection(Checked):
    """One-dimensional transforms."""

    effort: Literal["estimate", "measure", "patient", "wisdom-only"] = setting(
        "measure",
        "How long FFTW searches for the fastest plan; the plans are stored for later runs. "
        '"wisdom-only" uses stored plans only and refuses sizes without one, so that no job spends time on planning.',
        needs={"run.device": "cpu"},
    )


class DeviceFftSection(FftSection):
    """One-dimensional transforms, on GPUs too."""

    on_gpus: Literal["auto", "apart", "fused"] = setting(
        "auto",
        'Kernels of transforms on GPUs: "apart" (cuFFT, with separate kernels for packing and products) or "fused" '
        '(transforms that also pack and multiply, for sizes 8 x 2^a and 12 x 2^a). "auto" uses the faster of them, '
        "which a long run measures before its first step.",
        needs={"run.device": "cuda"},
    )


class SteadyRunSection(RunSection):
    """The section [run] of a model that can tell whether its state is steady."""

    stop_when: Literal["end", "steady"] = setting(
        "end",
        'When the run stops: at its "end", or already when its state is "steady". The rate of change is then '
        "compared with run.steady_tolerance every run.check_every steps, and the last state is written.",
    )
    steady_tolerance: Number = setting(
        1e-6,
        "Largest rate of change of a steady state: the norm of the change in the last step over the norm of the "
        "state and over the time step, for the field that changes most.",
        unit="1/time",
        gt=0,
        needs={"stop_when": "steady"},
    )

    def steady_rate(self) -> float | None:
        return self.steady_tolerance if self.stop_when == "steady" else None

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.stop_when == "steady" and not self.check_every:
            yield Problem("check_every", 'an integer >= 1 with run.stop_when = "steady"')


def viewer_setting(*others: Needs) -> Any:
    """Return the setting output.viewer. others: what is written for viewers beside output.variables."""
    return setting(
        "none",
        'Files for viewers without ADIOS2: "pvd" writes a VTK file for each output into a folder beside the data set '
        "that ends in _viewer, and a .pvd file that lists them, which ParaView opens. Parts of the fields and fluid "
        "particles have folders of their own.",
        needs=(*recurring(), *others),
    )


class OutputSection(Scheduled):
    """The data set and the time series. Paths are relative to the directory in which the run is started."""

    # Keys that only other models have, and what to say about them.
    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        "part": " Parts are for models whose outputs are fields on a grid or on elements, not for particles."
    }

    path: PathText = setting(
        "output.bp", "Data set to which the fields are written.", rule="a path", min_length=1
    )
    format: Literal["auto", "bp5", "zarr"] = setting(
        "auto",
        'Store of all data sets of the run: "bp5" (ADIOS2 BP5) or "zarr" (Zarr version 3). "auto" follows the suffix '
        "of each path, .bp or .zarr, and otherwise takes BP5 if the package adios2 is installed. A path that is not "
        "set has the suffix of its store.",
    )
    every: Integer = setting(
        100,
        "Number of steps between outputs. Steps that are multiples of it are written; 0 writes nothing.",
        unit="steps",
        ge=0,
    )
    every_time: Number | None = time_interval("outputs")
    every_wall: Number | None = wall_interval("outputs")
    align: Truth = setting(
        True,
        "Whether time steps are shortened so that the run meets run.end_time and all intervals of model time in this "
        "table exactly. Otherwise the first step after such a time counts. Checkpoints never shorten steps.",
    )
    initial: Truth = setting(
        False,
        "Whether the state of step 0 is written as well.",
        needs=recurring(),
    )
    variables: tuple[str, ...] = setting((), "Fields to write.", min_length=1, max_length=200)
    compression: Literal["none", "lz4", "blosc"] = setting(
        "none",
        'Lossless compression of every field on its rank: "lz4" is faster, and "blosc" makes smaller files. BP5 '
        "needs an ADIOS2 with Blosc2; `ridgeline doctor` says whether the installed ADIOS2 has it.",
        needs=recurring(),
    )
    viewer: Literal["none", "pvd"] = viewer_setting()
    series: PathText = setting(
        "series.csv",
        "CSV file to which the time series of the model's quantities is written.",
        rule="a path",
        min_length=1,
        needs=recurring("series_every"),
    )
    series_every: Integer = setting(
        0,
        "Number of steps between rows of the time series, which begins with step 0; 0 writes none.",
        unit="steps",
        ge=0,
    )
    series_every_time: Number | None = time_interval("rows of the time series")
    series_every_wall: Number | None = wall_interval("rows of the time series")

    def written(self) -> dict[str, str]:
        """Return the paths that a run writes to, by their keys; a model with more outputs adds their paths."""
        paths = {"output.path": self.path} if self.interval() else {}
        return paths | ({"output.series": self.series} if self.interval("series_every") else {})

    def parts(self) -> tuple[PartSection, ...]:
        """Return the parts of the fields that are written beside them; models of particles have none."""
        return ()

    def part_path(self, part: PartSection) -> str:
        """Return the path of the data set of a part."""
        raise NotImplementedError


class FieldsOutputSection(OutputSection):
    """The data set, parts of the fields, and the time series, of a model whose outputs are fields in space."""

    part: tuple[PartSection, ...] = Field(default=())
    viewer: Literal["none", "pvd"] = viewer_setting({"output.part.N": ON})

    def parts(self) -> tuple[PartSection, ...]:
        return self.part

    def part_path(self, part: PartSection) -> str:
        """Return the path of a part: its own, or one beside the data set."""
        path = Path(self.path.rstrip("/"))
        suffix = path.suffix
        if suffix not in SUFFIXES:
            store = store_format(self.format, self.path)
            suffix = next(suffix for suffix, other in SUFFIXES.items() if other == store)
        return part.path or str(path.with_name(f"{path.stem}_{part.name}{suffix}"))

    def written(self) -> dict[str, str]:
        first = {part.name: i for i, part in reversed(list(enumerate(self.part))) if part.interval()}
        return super().written() | {
            f"output.part.{i}.path": self.part_path(self.part[i]) for i in sorted(first.values())
        }


class CheckpointSection(Scheduled):
    """Restart files. A signal and the wall-clock limit write one in any case."""

    path: PathText = setting(
        "checkpoints",
        "Directory to which checkpoints are written, relative to the directory in which the run is started.",
        rule="a path",
        min_length=1,
    )
    every: Integer = setting(
        0,
        "Number of steps between checkpoints; 0 writes none between the first and the last step.",
        unit="steps",
        ge=0,
    )
    every_time: Number | None = time_interval("checkpoints")
    every_wall: Number | None = wall_interval("checkpoints")
    at_end: Truth = setting(
        True,
        "Whether the last state is saved if checkpoint.path or an interval of checkpoints is given, so that the "
        "finished run can be extended. A run that a signal or run.walltime ends is always saved.",
    )
    keep: Integer = setting(
        2, "Number of checkpoints to keep; older ones are deleted.", unit="checkpoints", ge=1
    )
    ranks_per_file: Integer = setting(
        64, "Number of ranks that share one checkpoint file.", unit="ranks", ge=1
    )
    writers_at_once: Integer = setting(
        0,
        "Number of files that are written at the same time, so that thousands of files do not overload a file "
        "system; 0 writes all of them at once.",
        unit="files",
        ge=0,
    )

    @property
    def saves_end(self) -> bool:
        """Whether the state of the last step is saved."""
        return self.at_end and ("path" in self.model_fields_set or bool(self.interval()))

    @property
    def is_used(self) -> bool:
        """Whether a run saves a checkpoint even if nothing stops it."""
        return self.saves_end or bool(self.interval())
