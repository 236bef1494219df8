"""The modes of a checkpoint, padded or truncated to another grid.

Every rank reads an equal share of the checkpoint, in the canonical order of modes and in batches of bounded size, and
sends the modes that both grids have to their owners. Every byte is read once, whatever the decomposition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.decomposition import Truncation
from ridgeline.fourier.exchanges.redistribute import Redistribution, equal_ranges
from ridgeline.fourier.modes import Modes
from ridgeline.io.checkpoint_format import (
    MANIFEST,
    DamagedError,
    Manifest,
    find_checkpoints,
    read_manifest,
    step_of,
)
from ridgeline.io.checkpoint_load import read_parts
from ridgeline.io.file_errors import explain_errors
from ridgeline.jit.contiguous_runs import scatter_runs
from ridgeline.models.turbulence.fluid_particles.tracers import PREFIX
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.restart import VELOCITY_Y, field_sizes
from ridgeline.models.turbulence.solenoidal import recover_y, sum_of_squares
from ridgeline.models.turbulence.time_averages import CURVES
from ridgeline.parallel.allreduce import broadcast_decision, errors_on_all_ranks
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.errors import CheckpointError

if TYPE_CHECKING:
    from mpi4py import MPI

BATCH = 1 << 20  # modes that a rank reads at a time; an eighth of its own modes if these are more

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """A checkpoint and its modes; lines are numbered in canonical order."""

    path: Path
    manifest: Manifest
    truncation: Truncation
    lengths: tuple[float, float, float]
    n_scalars: int
    unit: tuple[float, float, float] = field(init=False)

    def __post_init__(self) -> None:
        z, y, x = self.lengths
        object.__setattr__(self, "unit", (2 * math.pi / z, 2 * math.pi / y, 2 * math.pi / x))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the fields."""
        return np.dtype(self.manifest.fields["velocity_x"][0])

    @cached_property
    def places(self) -> Integers:
        """Place of each line in the truncation's table, flat: int64 [n_lines]."""
        return np.flatnonzero(self.truncation.table >= 0)

    @cached_property
    def most(self) -> Integers:
        """Largest j_y of each line: int64 [n_lines]."""
        return self.truncation.table.ravel()[self.places]

    @cached_property
    def start(self) -> Integers:
        """Position of each line's first mode, and the number of all modes: int64 [n_lines + 1]."""
        return np.concatenate([[0], np.cumsum(2 * self.most + 1)])

    def waves(self, first: int, end: int) -> tuple[Integers, Integers]:
        """Return (j_z, j_x) of lines first ... end - 1."""
        nz, n_columns = self.truncation.shape[0], self.truncation.n_columns
        jz, jx = np.divmod(self.places[first:end], n_columns)
        return np.where(jz < nz // 2, jz, jz - nz), jx

    def first_modes(self, jz: Integers, jx: Integers) -> Integers:
        """Return the positions of the first modes of retained lines (jz, jx)."""
        places = (jz % self.truncation.shape[0]) * self.truncation.n_columns + jx
        return self.start[np.searchsorted(self.places, places)]


def read_checkpoint(
    fields: NDArray[Any], path: Path, modes: Modes, comm: MPI.Comm, step: int | None, forcing: Forcing
) -> tuple[list[str], str]:
    """Set velocity and scalars from a checkpoint, and the forcing's past; see `fill_from_file`. Collective.

    Returns warnings, and a sentence that says where the state is from. Memory beside the fields: 5 + S numbers
    for each mode of a batch, and five int64 for each line of the checkpoint.
    """
    with explain_errors(f"cannot read initial.path = {path}", comm):
        candidates = broadcast_decision(comm, lambda: _candidates(path, step))
    refused: list[str] = []
    for candidate in candidates:
        try:
            source = broadcast_decision(comm, partial(_open, candidate, modes, len(fields) - 3))
            total = _read(fields, source, modes, comm)
            of_forcing = _continue_forcing(forcing, source, comm)
        except DamagedError as error:
            refused.append(f"checkpoint {candidate} was refused: {error}")
            continue
        warnings, sentence = _remarks(fields, source, modes, comm, total)

        # A new run does not take over what the run of the checkpoint had gathered otherwise.
        names, gathered = source.manifest.fields, []
        if any(name.startswith(PREFIX) for name in names):
            gathered.append("fluid particles")
        if CURVES in names:
            gathered.append("averages of spectra")
        if gathered:
            what = f"the {' and '.join(gathered)} of checkpoint {source.path}"
            of_forcing.append(f"{what} are not used, because this run begins new ones.")
        return [*refused, *warnings, *of_forcing], sentence
    raise CheckpointError(
        f"initial.path = {path} has no usable checkpoint. {' '.join(refused)} Set initial.path to another one."
    )


def _candidates(path: Path, step: int | None) -> list[Path]:
    """Return the checkpoints at `path` in the order in which they are tried.

    Raises CheckpointError if none is of `step`.
    """
    is_checkpoint = (path / MANIFEST).exists() or (step_of(path) is not None and path.is_dir())
    checkpoints = [path] if is_checkpoint else find_checkpoints(path)
    candidates = checkpoints if step is None else [p for p in checkpoints if step_of(p) == step]
    if not candidates:
        steps = ", ".join(str(step_of(p)) for p in checkpoints[:8])
        raise CheckpointError(
            f"initial.path = {path} has no checkpoint of initial.step = {step}. Its steps are {steps}. Leave "
            f"initial.step out to use the newest."
        )
    return candidates


def _open(path: Path, modes: Modes, n_scalars: int) -> Source:
    """Open a checkpoint. Raises CheckpointError if it cannot be the initial state of this run."""
    manifest = read_manifest(path)
    settings = manifest.settings
    model = settings.get("run.model", "unknown")
    if model != "turbulence":
        raise CheckpointError(
            f'checkpoint {path} has run.model = "{model}", but it must be "turbulence". Set initial.path to another '
            "checkpoint."
        )
    try:
        truncation = Truncation(tuple(settings["grid.shape"]), settings["model.dealias"])
        z, y, x = settings["grid.lengths"]
        in_file = len([name for name in manifest.fields if name.startswith("scalar_")])
        sizes = {name: (n,) for name, n in field_sizes(truncation, in_file).items()}
    except (KeyError, TypeError, ValueError):
        sizes = {}
    stored = {name: shape for name, (dtype, shape) in manifest.fields.items() if np.dtype(dtype).kind == "c"}
    if not sizes or not sizes.items() <= stored.items():
        raise CheckpointError(
            f"checkpoint {path} does not contain the modes of the grid in its settings, so it may be of another "
            f"version of Ridgeline. Set initial.path to another checkpoint."
        )
    if not np.allclose((z, y, x), modes.lengths, rtol=1e-12, atol=0):
        raise CheckpointError(
            f"checkpoint {path} has another box, grid.lengths = {[z, y, x]}, while this run has "
            f"{list(modes.lengths)}. Set grid.lengths to that of the checkpoint."
        )
    return Source(path, manifest, truncation, modes.lengths, min(in_file, n_scalars))


def _common(modes: Modes, source: Source) -> tuple[Integers, Integers, Integers]:
    """Return the runs of modes that this rank and the source both have: (position there, length, place here)."""
    lines = modes.lines
    there = source.truncation.most_y(lines.jz, lines.jx)
    shared = there >= 0
    there, here = there[shared], lines.most[shared]
    least = np.minimum(there, here)
    position = source.first_modes(lines.jz[shared], lines.jx[shared])
    place = lines.start[:-1][shared]
    # j_y = 0 ... least, and -least ... -1 at the end of the line.
    runs = [
        np.stack(pair, axis=1).ravel()
        for pair in (
            (position, position + 2 * there + 1 - least),
            (least + 1, least),
            (place, place + 2 * here + 1 - least),
        )
    ]
    return runs[0], runs[1], runs[2]


def _batches(source: Source, n_ranks: int, most: int) -> Iterator[Integers]:
    """Yield, batch by batch, the lines [first, end) that each rank reads, about `most` modes: int64 [n_ranks, 2]."""
    bounds = equal_ranges(source.truncation.n_modes, n_ranks)
    n_batches = -(-int(np.diff(bounds).max()) // most)
    for batch in range(n_batches):
        cuts = [bounds[:, 0] + batch * most, bounds[:, 0] + (batch + 1) * most]
        positions = np.minimum(np.stack(cuts, axis=1), bounds[:, 1:])
        yield np.searchsorted(source.start, positions)


def _read(fields: NDArray[Any], source: Source, modes: Modes, comm: MPI.Comm) -> float:
    """Fill the fields; return the kinetic energy of all modes in the checkpoint. Collective."""
    n = 3 + source.n_scalars
    fields[:n] = 0
    start, count, place = _common(modes, source)
    most = max(BATCH, modes.truncation.n_modes // (8 * comm.size))
    energy = 0.0
    for lines in _batches(source, comm.size, most):
        plan = Redistribution(comm, start, count, source.start[lines])
        first, end = lines[comm.rank]
        with errors_on_all_ranks(comm), explain_errors(f"cannot read checkpoint {source.path}", comm):
            part = _read_lines(source, int(first), int(end))
            energy += _energy(source, part, int(first), int(end))
        values = np.empty(plan.n_values, source.dtype)
        buffer = np.empty(plan.n_buffer, source.dtype)
        for field_here, field_there in zip(fields, part):
            plan.to_runs(field_there, values, buffer)
            scatter_runs(values, place[plan.run] + plan.offset, plan.length, field_here)
    total = float(comm.allreduce(energy))
    if not math.isfinite(total):
        raise CheckpointError(
            f"checkpoint {source.path} contains NaN or infinity. Set initial.path to an earlier one."
        )
    return total


def _read_lines(source: Source, first: int, end: int) -> NDArray[Any]:
    """Read velocity and scalars of the lines first ... end - 1: complex [3 + S, modes in them]."""
    start = source.start[first:end]
    low, high = int(source.start[first]), int(source.start[end])
    part = np.empty((3 + source.n_scalars, high - low), source.dtype)
    y_mean = np.empty(end - first, source.dtype)
    sizes = field_sizes(source.truncation, source.n_scalars)
    arrays = {
        name: DistributedArray(name, (n,), (low,), values) for (name, n), values in zip(sizes.items(), part)
    }
    arrays[VELOCITY_Y] = DistributedArray(VELOCITY_Y, (sizes[VELOCITY_Y],), (first,), y_mean)
    read_parts(source.path, source.manifest, arrays)
    part[1, start - low] = y_mean
    jz, jx = source.waves(first, end)
    unit_z, unit_y, unit_x = source.unit
    recover_y(source.most[first:end], unit_x * jx, unit_z * jz, unit_y, part[0], part[2], part[1])
    return part


def _energy(source: Source, part: NDArray[Any], first: int, end: int) -> float:
    """Return the kinetic energy of lines first ... end - 1."""
    weight = np.where(source.waves(first, end)[1] == 0, 1.0, 2.0)
    return 0.5 * float(sum(sum_of_squares(source.most[first:end], weight, values) for values in part[:3]))


def _continue_forcing(forcing: Forcing, source: Source, comm: MPI.Comm) -> list[str]:
    """Restore the state of the forcing from the checkpoint, if it fits; return warnings. Collective."""
    required, state = forcing.settings_of_state(), forcing.state()
    if not required:
        return []
    settings, fields = source.manifest.settings, source.manifest.fields
    other = [
        f"{key} was {settings.get(key)!r} in the run of the checkpoint and is {value!r} here"
        for key, value in required.items()
        if settings.get(key) != value
    ]
    if not other and not (forcing.fits(source.truncation) and state.keys() <= fields.keys()):
        other = ["the grid of the checkpoint has other forced modes"]
    if other:
        warnings = [f"the random processes of the forcing start again, because {', and '.join(other)}."]
    else:
        arrays = {name: DistributedArray(name, a.shape, (0,) * a.ndim, a) for name, a in state.items()}
        with errors_on_all_ranks(comm), explain_errors(f"cannot read checkpoint {source.path}", comm):
            if comm.rank == 0:
                read_parts(source.path, source.manifest, arrays)
        forcing.restored({name: comm.bcast(array, 0) for name, array in state.items()})
        warnings = []
    if settings.get("run.seed") == forcing.seed:
        warnings.append(
            f"the forcing draws the same random numbers as the run of the checkpoint did from step 0 on, because "
            f"both have run.seed = {forcing.seed}. Set another run.seed if the two runs are to be independent."
        )
    return warnings


def _remarks(
    fields: NDArray[Any], source: Source, modes: Modes, comm: MPI.Comm, total: float
) -> tuple[list[str], str]:
    """Return warnings about padded, left out and missing modes and scalars, and where the state is from. Collective.

    total: kinetic energy of the checkpoint.
    """
    mine = 0.5 * sum(sum_of_squares(modes.lines.most, modes.line_weight, values) for values in fields[:3])
    kept = comm.allreduce(mine)
    n_common = comm.allreduce(int(_common(modes, source)[1].sum()))
    n_padded, n_left_out = modes.truncation.n_modes - n_common, source.truncation.n_modes - n_common
    manifest = source.manifest
    name = f"checkpoint {source.path} (step {manifest.step}, time {manifest.time:.6g})"
    origin = f"the initial state is from {name} of grid.shape = {list(source.truncation.shape)}"
    warnings = []
    if n_padded or n_left_out:
        changes = []
        if n_padded:
            changes.append(f"{n_padded} modes that only this grid has are zero")
        if n_left_out:
            lost = max(total - kept, 0.0)
            share = 100 * lost / total if total else 0.0
            changes.append(
                f"{n_left_out} modes that only the checkpoint has are left out, and with them {lost:.4g} of its "
                f"kinetic energy {total:.6g} ({share:.3g} %)"
            )
        dealias = f'model.dealias = "{source.truncation.dealias}"'
        warnings.append(f"{origin} with {dealias}. In it, {', and '.join(changes)}.")
    n_scalars = len(fields) - 3
    in_file = len([name for name in manifest.fields if name.startswith("scalar_")])
    if in_file < n_scalars:
        names = ", ".join(f"scalar_{i}" for i in range(in_file, n_scalars))
        warnings.append(f"{name} has no {names}, so the initial state comes from [[scalar]].")
    elif in_file > n_scalars:
        names = ", ".join(f"scalar_{i}" for i in range(n_scalars, in_file))
        warnings.append(
            f"{name} has {names}, which this run does not use, because it has {n_scalars} [[scalar]]."
        )
    return warnings, "" if warnings else f"{origin}."
