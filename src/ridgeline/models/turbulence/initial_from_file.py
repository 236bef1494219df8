"""Initial states from files: a checkpoint of any grid and precision, or the velocity of a BP data set.

Checkpoints are read by `initial_from_checkpoint`, data sets in this file. Fields that a file lacks keep the values
that the caller has set. Rank 0 logs a sentence that says where the state is from and what was padded or left out.
"""

from __future__ import annotations

import logging
import math
import warnings as python_warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.modes import Modes
from ridgeline.io.open_store import open_reader
from ridgeline.io.store import DataSetReader, output_index, read_block
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.initial_from_checkpoint import read_checkpoint
from ridgeline.models.turbulence.passes import FieldTransform
from ridgeline.models.turbulence.restart import kernels_of_state
from ridgeline.models.turbulence.solenoidal import project, sum_of_squares
from ridgeline.models.turbulence.start_file import is_checkpoint
from ridgeline.parallel.allreduce import broadcast_decision, errors_on_all_ranks, raise_on_all_ranks
from ridgeline.runtime.errors import OutputError

if TYPE_CHECKING:
    from mpi4py import MPI


log = logging.getLogger(__name__)
VELOCITY = ("velocity_x", "velocity_y", "velocity_z")
NEGLIGIBLE = 1e-6  # of the kinetic energy: the rounding errors of float32 and of its transforms


def fill_from_file(
    fields: NDArray[Any],
    path: str | Path,
    grid: PencilGrid,
    modes: Modes,
    transform: FieldTransform,
    comm: MPI.Comm,
    step: int | None,
    forcing: Forcing,
) -> None:
    """Set velocity and scalars from a file, and the past of the forcing. Collective.

    A checkpoint may be of another grid, truncation, precision or number of ranks, but must be of a box of the same
    lengths. Modes that it lacks become zero; modes that this grid lacks are left out. A data set must be of the same
    grid; its velocity is truncated and projected to zero divergence.

    Parameters
    ----------
    fields : complex [3 + S, n_modes]; u_x, u_y, u_z and the scalars that the file has are overwritten
    path : a checkpoint, a directory of checkpoints (the newest usable one is read), or a BP data set
    step : the step to read; None reads the last one
    forcing : of this run; its random processes continue from a checkpoint whose run had the same ones, and otherwise
        begin anew, with a warning

    Raises
    ------
    ConfigError
        On all ranks, if `path` is neither a checkpoint nor a data set.
    CheckpointError
        On all ranks, if the checkpoint is damaged, or of another model or box.
    OutputError
        On all ranks, if the data set is damaged, of another grid, not finite, or lacks a velocity component or the
        step.
    """
    path = Path(path)
    if broadcast_decision(comm, lambda: is_checkpoint(path)):
        warnings, sentence = read_checkpoint(fields, path, modes, comm, step, forcing)
    else:
        warnings, sentence = read_data_set(fields, path, grid, modes, transform, comm, step)
        if forcing.settings_of_state():
            warnings.append(
                "the random processes of the forcing start again, because a data set does not contain their state."
            )
    if comm.rank == 0:
        for warning in warnings:
            log.warning("%s", warning)
        if sentence:
            log.info("%s", sentence)


def read_data_set(
    fields: NDArray[Any],
    path: Path,
    grid: PencilGrid,
    modes: Modes,
    transform: FieldTransform,
    comm: MPI.Comm,
    step: int | None,
) -> tuple[list[str], str]:
    """Set velocity and scalars from a BP data set; see `fill_from_file`. Collective.

    Every rank reads its block. Returns warnings, and a sentence that says where the state is from and what was
    removed. Memory beside the fields: one block, or two if the data set has another precision.
    """
    # Rank 0 opens it first, so that a wrong path is reported once; then all ranks do.
    broadcast_decision(comm, lambda: _open(path, modes, len(fields) - 3, step).close())
    with errors_on_all_ranks(comm):
        reader = _open(path, modes, len(fields) - 3, step, isolated=False)
    try:
        names = [*VELOCITY, *_scalars(reader, len(fields) - 3)]
        output = output_index(reader, step)
        number = int(reader.scalars["step"][output]) if "step" in reader.scalars else output
        energy = 0.0
        physical = np.empty((1, *grid.block), fields.real.dtype)
        for place, name in enumerate(names):
            with errors_on_all_ranks(comm):
                read_block(reader, name, output, grid.offset, physical[0])
                if place < 3:
                    squares = float(sum(np.square(plane, dtype=np.float64).sum() for plane in physical[0]))
                    energy += 0.5 * squares / math.prod(grid.shape)
            problem = None
            if not np.isfinite(physical).all():
                problem = OutputError(
                    f"{name} of the data set {path} contains NaN or infinity at step {number}. Choose another "
                    "initial.step."
                )
            raise_on_all_ranks(comm, problem)
            transform.to_spectral(physical, out=fields[place : place + 1])
    finally:
        reader.close()
    return _project(fields, path, number, names, modes, comm, energy)


def _open(
    path: Path, modes: Modes, n_scalars: int, step: int | None, isolated: bool | None = None
) -> DataSetReader:
    """Open a data set. Raises OutputError if it cannot be the initial state of this run. isolated: see BPReader."""
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")  # variables that the reader leaves out are not needed here
        reader = open_reader(path, isolated=isolated)
    try:
        for name in (*VELOCITY, *_scalars(reader, n_scalars)):
            if name not in reader.arrays:
                raise OutputError(
                    f"the data set {path} has no {name}, only {', '.join(sorted(reader.arrays))}. An initial state "
                    f"must contain {', '.join(VELOCITY)}, which output.variables of its run lists."
                )
            array = reader.arrays[name]
            if array.shape != modes.shape or array.dtype.kind != "f":
                raise OutputError(
                    f"{name} of the data set {path} has shape {list(array.shape)} and dtype {array.dtype}, but it "
                    f"must have floating-point numbers of grid.shape = {list(modes.shape)}. Use the grid of the data "
                    f"set, or a checkpoint, which may have another grid."
                )
        # A spacing of 1, the default, does not tell the lengths of the box.
        spacing = np.asarray(reader.attributes.get("Fides_Spacing", (1, 1, 1)), float)[::-1]
        mine = np.array(modes.lengths) / modes.shape
        if (spacing != 1).any() and not np.allclose(spacing, mine, rtol=1e-9, atol=0):
            lengths = [float(length) for length in spacing * modes.shape]
            raise OutputError(
                f"the data set {reader.path} has another box: its spacing corresponds to grid.lengths = {lengths}, "
                f"while this run has {list(modes.lengths)}. Set grid.lengths to that of the data set."
            )
        output_index(reader, step)
    except OutputError:
        reader.close()
        raise
    return reader


def _scalars(reader: DataSetReader, n_scalars: int) -> list[str]:
    """Return the names of the first n_scalars scalars, up to the first that the data set lacks."""
    names = [f"scalar_{i}" for i in range(n_scalars)]
    return names[: next((i for i, name in enumerate(names) if name not in reader.arrays), n_scalars)]


def _project(
    fields: NDArray[Any],
    path: Path,
    step: int,
    names: list[str],
    modes: Modes,
    comm: MPI.Comm,
    energy: float,
) -> tuple[list[str], str]:
    """Project the velocity to zero divergence; return warnings and the sentence. energy: of this rank's block."""
    sums = np.zeros(3)
    lines = modes.lines
    project(lines.most, modes.kx, modes.kz, modes.unit[1], modes.line_weight, *fields[:3], sums)
    of_ranks = comm.allgather((energy, *(0.5 * sums)))
    total, modes_energy, removed, divergence = map(sum, zip(*of_ranks))
    left_out = max(total - modes_energy, 0.0)
    name = f"data set {path} (step {step})"
    sentence = (
        f"the initial state is from {name} with the kinetic energy {total:.6g}, from which {left_out:.3g} in modes "
        f"that are not retained, and {removed:.3g} in the part with divergence "
        f"(rms {math.sqrt(2 * divergence):.3g}), were removed."
    )
    warnings = []
    if left_out + removed > NEGLIGIBLE * total:
        warnings.append(sentence)
        sentence = ""
    n_scalars = len(fields) - 3
    if len(names) - 3 < n_scalars:
        missing = ", ".join(f"scalar_{i}" for i in range(len(names) - 3, n_scalars))
        warnings.append(f"{name} has no {missing}, so the initial state comes from [[scalar]].")
    return warnings, sentence


def kernels_of_files(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels that `fill_from_file` may call for complex fields of dtype, whatever the file holds."""
    kernels = specialise([project], dtype)
    for stored in (np.complex64, np.complex128):
        kernels += [*kernels_of_state(dtype, stored), *specialise([sum_of_squares], stored)]
    return kernels
