"""What a run writes while it steps, through the recorders of its model; and what each write cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ridgeline.config.intervals import Moment
from ridgeline.config.recorders import load_recorders
from ridgeline.models.contract import Model
from ridgeline.models.recorders import Record, Recorder
from ridgeline.parallel.allreduce import allreduce_max, errors_on_all_ranks
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.plugins import plugin_errors
from ridgeline.simulation.callbacks import Callbacks

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import AnyCase

# Writes of one kind that get a row of their own in the report.
MOST_ROWS = 256

# For each recorder, by name: its path, how many steps of the run are there and, where the recorder has one, the
# fingerprint of these steps. It is a part of every checkpoint.
Position = dict[str, list[Any]]


class Outputs:
    """The open outputs of a run. Every method is collective.

    Attributes
    ----------
    recorders
        The callbacks and the model's recorders, by name.
    writes
        What the writes of each recorder have cost so far, the same on all ranks.
    """

    def __init__(
        self,
        case: AnyCase,
        model: Model,
        comm: MPI.Comm,
        provenance: dict[str, Any],
        step: int,
        position: Mapping[str, Any] | None,
        callbacks: Callbacks,
    ) -> None:
        """Open what the settings ask for.

        Parameters
        ----------
        step
            The current step.
        position
            What `position` returned when the checkpoint was taken: everything that was written later is cut off, and
            an output whose path has changed since starts anew. None starts every output anew.
        callbacks
            Functions of the user, which are called before anything is written at the same step: the time series has
            numbers of theirs.

        Raises
        ------
        OutputError
            If a path does not hold what the run had written when the checkpoint was taken.
        """
        self.callbacks = callbacks
        recorders = [
            *callbacks.recorders(model, case),
            *model.recorders(case, comm),
            *_recorders_of_packages(model, case, comm),
        ]
        self.recorders = {recorder.name: recorder for recorder in recorders}
        self.writes = {name: WriteLog() for name in self.recorders}
        self._comm = comm
        self._records: dict[str, Record] = {}
        attributes = _attributes(provenance)
        for name, recorder in self.recorders.items():
            path, count, *fingerprint = (position or {}).get(name, (recorder.path, 0))
            steps_to_keep = None
            if position is not None and path == recorder.path:
                with errors_on_all_ranks(comm):
                    if comm.rank == 0:
                        _refuse_other_runs(recorder, count, *fingerprint)
                steps_to_keep = int(count)
            self._records[name] = recorder.open(attributes, steps_to_keep)

    def write_initial(self) -> None:
        """Write the initial state, at step 0."""
        self.write(0, [name for name, recorder in self.recorders.items() if recorder.initial])

    def due(self, before: Moment, now: Moment) -> list[str]:
        """Return the names of the recorders that write now. before: the moment before the last step."""
        return [name for name, recorder in self.recorders.items() if recorder.due(before, now)]

    def write(self, step: int, names: Sequence[str]) -> None:
        """Write the current state, which is that of `step`, to some recorders."""
        for name in names:
            begin = perf_counter()
            n_bytes = self._records[name].write(step)
            seconds = float(allreduce_max(self._comm, perf_counter() - begin))
            if n_bytes:
                self.writes[name].record(Write(step, n_bytes, seconds))

    def position(self) -> Position:
        """Return what a resumed run must know to continue these outputs."""
        return {
            name: [record.path, record.count, getattr(record, "fingerprint", "")]
            for name, record in self._records.items()
            if record.path
        }

    def files(self) -> dict[str, str]:
        """Return the paths of what is written, by the recorders' names."""
        return {name: record.path for name, record in self._records.items() if record.path}

    def close(self) -> None:
        """Close all outputs."""
        for record in self._records.values():
            record.close()


def _recorders_of_packages(model: Model, case: AnyCase, comm: MPI.Comm) -> Iterator[Recorder]:
    """Yield the recorders of [[recorder]], with the paths and intervals of their settings. Collective.

    Raises ConfigError on all ranks if a package fails, or makes something else.
    """
    for section, make in zip(case.recorder, load_recorders(case.recorder)):
        with errors_on_all_ranks(comm):
            what = f"the recorder {section.name}"
            with plugin_errors(what, "used"):
                recorder = make(model, case, section, comm)
            if not isinstance(recorder, Recorder):
                raise ConfigError(
                    f"{what} cannot be used, because its function returned {type(recorder).__name__}, but it must "
                    "return a ridgeline.api.Recorder. Install a version of its package that does."
                )
        yield replace(recorder, name=what.removeprefix("the "), path=section.path, every=section.interval())


def _refuse_other_runs(recorder: Recorder, count: int, expected: str = "") -> None:
    """Raise OutputError if another run has written to an output since the checkpoint was taken."""
    fingerprint = (
        recorder.fingerprint(recorder.path, count) if recorder.fingerprint and count and expected else ""
    )
    # Where there is no fingerprint, the writer says what is missing.
    if fingerprint and fingerprint != expected:
        raise OutputError(
            f"the {recorder.name} {recorder.path} is not the one that the run had written when its checkpoint was "
            f"saved, because another run has written to it since. Restore it, choose another path, or start again "
            f"with --resume never."
        )


def _attributes(provenance: dict[str, Any]) -> dict[str, Any]:
    """Flatten provenance into attributes: settings by their key ("model.F", and "F" as other codes write it)."""
    attributes: dict[str, Any] = {}
    for key, value in provenance.items():
        if isinstance(value, dict):
            attributes |= {inner if key == "settings" else f"{key}.{inner}": v for inner, v in value.items()}
        else:
            attributes[key] = value
    # The short names of ADIOS2-Examples and of GrayScott.jl, so that tools made for their data find them.
    attributes |= {
        key.removeprefix("model."): value
        for key, value in provenance["settings"].items()
        if key.startswith("model.") and isinstance(value, float)
    }
    return attributes


@dataclass(frozen=True)
class Write:
    """The cost of one output or checkpoint: its step, the bytes of all ranks before compression, and its seconds.

    The seconds are the slowest rank's for the whole call, which includes computing the fields that are written.
    """

    step: int
    bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Return B/s."""
        return self.bytes / self.seconds if self.seconds else 0.0


class WriteLog:
    """The writes of one kind: all are counted, and at most MOST_ROWS of them, evenly spread, have a row."""

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self.seconds = 0.0
        self.every = 1  # writes for each row that is kept
        self.rows: list[Write] = []
        self._slowest: Write | None = None
        self._fastest: Write | None = None

    def record(self, write: Write) -> None:
        """Count a write."""
        if self._slowest is None or write.rate < self._slowest.rate:
            self._slowest = write
        if self._fastest is None or write.rate > self._fastest.rate:
            self._fastest = write
        if self.count % self.every == 0:
            self.rows.append(write)
        if len(self.rows) > MOST_ROWS:
            self.rows, self.every = self.rows[::2], 2 * self.every
        self.count += 1
        self.bytes += write.bytes
        self.seconds += write.seconds

    def to_dict(self) -> dict[str, Any]:
        """Return the part of a report: totals, the slowest and the fastest write by B/s, and the rows."""
        return {
            "count": self.count,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "bytes_per_second": self.bytes / self.seconds if self.seconds else 0.0,
            "slowest": _row(self._slowest),
            "fastest": _row(self._fastest),
            "rows_every": self.every,
            "rows": [_row(write) for write in self.rows],
        }


def _row(write: Write | None) -> dict[str, Any] | None:
    return None if write is None else {**asdict(write), "bytes_per_second": write.rate}
