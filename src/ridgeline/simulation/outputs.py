"""What a run writes while it steps: the data set of its fields, the time series, the data set of its spectra."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ridgeline.io import bp_sums, series
from ridgeline.io.bp import BPWriter, Variable, image_schemas
from ridgeline.io.series import SeriesWriter
from ridgeline.models.contract import Model, Profile, Recorder
from ridgeline.parallel.reduce import global_max, together
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.simulation.schedule import Schedule, is_multiple
from ridgeline.simulation.writes import Write, WriteLog

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import AnyCase

# For each kind of output, where it is, how many steps of the run it holds and, of some kinds, the fingerprint of
# these: a part of every checkpoint.
Position = dict[str, list[Any]]

# What another run has written meanwhile is no place to go on: (path, steps) to the fingerprint of what is there.
_FINGERPRINTS: dict[str, Callable[[str, int], str]] = {
    "data set": bp_sums.fingerprint,
    "spectra": bp_sums.fingerprint,
    "particles": bp_sums.fingerprint,
    "series": series.fingerprint,
    "probes": series.fingerprint,
    "forces": series.fingerprint,
}


def make_schedule(case: AnyCase, model: Model) -> Schedule:
    """Return the events that the settings ask for. A model without spectra has no settings for them."""
    return Schedule(
        case.run.steps,
        case.output.every,
        case.checkpoint.every,
        case.run.check_every,
        case.output.series_every,
        getattr(case.output, "spectra_every", 0),
        tuple(output.every for output in model.further_outputs()),
    )


class Outputs:
    """All that a run writes while it steps. Every method is collective.

    writes: what each kind has cost so far, the same on all ranks.
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
        schedule = make_schedule(case, model)
        self.writes: dict[str, WriteLog] = {}
        self._comm = comm
        self._initial = case.output.initial
        self._recorders: dict[str, Recorder] = {}
        self._due: dict[str, Callable[[int], bool]] = {}

        def kept(kind: str, path: str) -> int | None:
            where, count, *marks = (position or {}).get(kind, (path, 0))
            if position is None or where != path:
                return None
            with together(comm):
                if comm.rank == 0:
                    _refuse_others(kind, path, count, *marks)
            return int(count)

        def add(kind: str, due: Callable[[int], bool], recorder: Recorder) -> None:
            self._recorders[kind], self._due[kind] = recorder, due
            self.writes[kind] = WriteLog()

        if schedule.output_every:
            path = case.output.path
            keep = kept("data set", path)
            add("data set", schedule.output_due, _Fields(case, model, comm, provenance, path, keep))
        if schedule.series_every:
            path = case.output.series
            columns = tuple(model.series(step))
            writer = SeriesWriter(path, comm, columns, keep_rows=kept("series", path))
            add("series", schedule.series_due, _Series(model, path, writer))
        if schedule.spectra_every:
            path = getattr(case.output, "spectra", "")
            add(
                "spectra",
                schedule.spectra_due,
                _Spectra(model, comm, provenance, path, kept("spectra", path)),
            )
        for further in model.further_outputs():
            recorder = further.open(_attributes(provenance), kept(further.kind, further.path))
            add(further.kind, partial(is_multiple, interval=further.every), recorder)

    def write_initial(self) -> None:
        """Write the state of step 0 where a run begins: a row, spectra, and fields if output.initial is set."""
        for kind, recorder in self._recorders.items():
            if kind != "data set" or self._initial:
                self._write(kind, recorder, 0)

    def due(self, step: int) -> bool:
        """Say whether anything is written at `step`."""
        return any(due(step) for due in self._due.values())

    def write(self, step: int) -> None:
        """Write what is due at `step`, the present one."""
        for kind, recorder in self._recorders.items():
            if self._due[kind](step):
                self._write(kind, recorder, step)

    def _write(self, kind: str, recorder: Recorder, step: int) -> None:
        begin = perf_counter()
        n_bytes = recorder.write(step)
        seconds = float(global_max(self._comm, perf_counter() - begin))
        if n_bytes:
            self.writes[kind].record(Write(step, n_bytes, seconds))

    def position(self) -> Position:
        """Return what a resumed run must know to go on where this one is."""
        return {
            kind: [recorder.path, recorder.count, getattr(recorder, "fingerprint", "")]
            for kind, recorder in self._recorders.items()
        }

    def files(self) -> dict[str, str]:
        """Return the paths of what is written, by kind."""
        return {kind: recorder.path for kind, recorder in self._recorders.items()}

    def close(self) -> None:
        """Finish everything."""
        for recorder in self._recorders.values():
            recorder.close()


class _Fields:
    """Writes `output.variables` of a model to the data set `output.path`."""

    def __init__(
        self,
        case: AnyCase,
        model: Model,
        comm: MPI.Comm,
        provenance: dict[str, Any],
        path: str,
        keep_steps: int | None,
    ) -> None:
        self.path = path
        self._model = model
        self._names = tuple(case.output.variables)
        variables = model.output_layout(self._names)
        images = [name for name in model.image_fields() if name in self._names]
        attributes = _attributes(provenance)
        if images:
            shape = next(v.shape_global for v in variables if v.name == images[0])
            attributes |= image_schemas(shape, images, *model.image_geometry())
        places = model.point_places()
        self._writer = BPWriter(
            path,
            comm,
            variables,
            attributes,
            compression=case.output.compression,
            keep_steps=keep_steps,
            points=places if places in self._names else "",
        )

    @property
    def count(self) -> int:
        return self._writer.steps

    @property
    def fingerprint(self) -> str:
        return self._writer.fingerprint

    def write(self, step: int) -> int:
        arrays = {name: array.local for name, array in self._model.outputs(self._names).items()}
        return self._writer.write(step, self._model.time(step), arrays)

    def close(self) -> None:
        self._writer.close()


class _Series:
    """Writes the model's time series to the CSV file `output.series`."""

    def __init__(self, model: Model, path: str, writer: SeriesWriter) -> None:
        self.path = path
        self._model = model
        self._writer = writer

    @property
    def count(self) -> int:
        return self._writer.rows

    @property
    def fingerprint(self) -> str:
        return self._writer.fingerprint

    def write(self, step: int) -> int:
        return self._writer.write(step, self._model.time(step), self._model.series(step))

    def close(self) -> None:
        self._writer.close()


class _Spectra:
    """Writes the model's profiles to the data set `output.spectra`: small arrays, which rank 0 has for all."""

    def __init__(
        self, model: Model, comm: MPI.Comm, provenance: dict[str, Any], path: str, keep_steps: int | None
    ) -> None:
        self.path = path
        self._model = model
        self._writes = comm.rank == 0
        profiles = model.profiles()
        if not profiles:
            raise ConfigError(f"output.spectra_every is set, but {model.name} has no spectra; set it to 0")
        variables = [self._variable(name, profile) for name, profile in profiles.items()]
        self._writer = BPWriter(
            path, comm, variables, _attributes(provenance), keep_steps=keep_steps, setting="output.spectra"
        )

    def _variable(self, name: str, profile: Profile) -> Variable:
        shape = profile.values.shape
        here = shape if self._writes else (0,) * len(shape)
        origin = (0,) * len(shape)
        return Variable(
            name, profile.values.dtype, shape, origin, here, profile.unit, profile.description, profile.dims
        )

    @property
    def count(self) -> int:
        return self._writer.steps

    @property
    def fingerprint(self) -> str:
        return self._writer.fingerprint

    def write(self, step: int) -> int:
        arrays = {
            name: profile.values if self._writes else profile.values[(slice(0),) * profile.values.ndim]
            for name, profile in self._model.profiles().items()
        }
        return self._writer.write(step, self._model.time(step), arrays)

    def close(self) -> None:
        self._writer.close()


def _refuse_others(kind: str, path: str, count: int, mark: str = "") -> None:
    """Raise OutputError if another run has written to an output since the checkpoint was taken."""
    found = _FINGERPRINTS[kind](path, count) if count and mark else ""
    if found and found != mark:  # where nothing is found, the writer says what is missing
        raise OutputError(
            f"the {kind} {path} is not the one that the run had written when its checkpoint was taken: another run "
            f"has written there since; restore it, choose another path, or start anew with --resume never"
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
