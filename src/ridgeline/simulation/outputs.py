"""What a run writes while it steps: everything that its model has a recorder for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ridgeline.models.contract import Model
from ridgeline.models.recorders import Record, Recorder
from ridgeline.parallel.allreduce import allreduce_max, errors_on_all_ranks
from ridgeline.runtime.errors import OutputError
from ridgeline.simulation.writes import Write, WriteLog

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import AnyCase

# By a recorder's name: where it writes, how many steps of the run are there and, of some kinds, the fingerprint of
# these. A part of every checkpoint.
Position = dict[str, list[Any]]


class Outputs:
    """All that a run writes while it steps. Every method is collective.

    recorders: of the model, by name; writes: what each has cost so far, the same on all ranks.
    """

    def __init__(
        self,
        case: AnyCase,
        model: Model,
        comm: MPI.Comm,
        provenance: dict[str, Any],
        step: int,
        position: Mapping[str, Any] | None,
    ) -> None:
        """Open what the settings ask for.

        step: the present one. position: None starts anew; else what `position` returned when the checkpoint was
        taken: what was written after it is cut off. An output of another path than then begins anew.

        Raises OutputError if what is at a path is not what the run had written when the checkpoint was taken.
        """
        self.recorders = {recorder.name: recorder for recorder in model.recorders(case, comm)}
        self.writes = {name: WriteLog() for name in self.recorders}
        self._comm = comm
        self._records: dict[str, Record] = {}
        attributes = _attributes(provenance)
        for name, recorder in self.recorders.items():
            where, count, *marks = (position or {}).get(name, (recorder.path, 0))
            keep = None
            if position is not None and where == recorder.path:
                with errors_on_all_ranks(comm):
                    if comm.rank == 0:
                        _refuse_others(recorder, count, *marks)
                keep = int(count)
            self._records[name] = recorder.open(attributes, keep)

    def write_initial(self) -> None:
        """Write the state of step 0 where a run begins."""
        self._write(0, [name for name, recorder in self.recorders.items() if recorder.initial])

    def due(self, step: int) -> bool:
        """Say whether anything is written at `step`."""
        return any(recorder.due(step) for recorder in self.recorders.values())

    def write(self, step: int) -> None:
        """Write what is due at `step`, the present one."""
        self._write(step, [name for name, recorder in self.recorders.items() if recorder.due(step)])

    def _write(self, step: int, names: Sequence[str]) -> None:
        for name in names:
            begin = perf_counter()
            n_bytes = self._records[name].write(step)
            seconds = float(allreduce_max(self._comm, perf_counter() - begin))
            if n_bytes:
                self.writes[name].record(Write(step, n_bytes, seconds))

    def position(self) -> Position:
        """Return what a resumed run must know to go on where this one is."""
        return {
            name: [record.path, record.count, getattr(record, "fingerprint", "")]
            for name, record in self._records.items()
        }

    def files(self) -> dict[str, str]:
        """Return the paths of what is written, by the recorders' names."""
        return {name: record.path for name, record in self._records.items()}

    def close(self) -> None:
        """Finish everything."""
        for record in self._records.values():
            record.close()


def _refuse_others(recorder: Recorder, count: int, mark: str = "") -> None:
    """Raise OutputError if another run has written to an output since the checkpoint was taken."""
    found = recorder.fingerprint(recorder.path, count) if recorder.fingerprint and count and mark else ""
    if found and found != mark:  # where nothing is found, the writer says what is missing
        raise OutputError(
            f"the {recorder.name} {recorder.path} is not the one that the run had written when its checkpoint was "
            f"taken: another run has written there since; restore it, choose another path, or start anew with "
            f"--resume never"
        )


def _attributes(provenance: dict[str, Any]) -> dict[str, Any]:
    """Flatten provenance: settings under their key ("model.F", and "F" as other codes write it)."""
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
