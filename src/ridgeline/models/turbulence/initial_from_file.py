"""Initial states from files: a checkpoint of any grid and precision, or the velocity of a BP data set.

Fields that the file lacks start as the caller set them. One sentence, on rank 0, says what was padded or left out.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.modes import Modes
from ridgeline.fourier.pencil import PencilGrid
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.initial_from_checkpoint import read_checkpoint
from ridgeline.models.turbulence.initial_from_data_set import ForwardTransform, read_data_set
from ridgeline.models.turbulence.restart import kernels_of_state
from ridgeline.models.turbulence.solenoidal import project, sum_of_squares
from ridgeline.models.turbulence.start_file import is_checkpoint
from ridgeline.parallel.allreduce import broadcast_decision

if TYPE_CHECKING:
    from mpi4py import MPI

log = logging.getLogger(__name__)


def fill_from_file(
    fields: NDArray[Any],
    path: str | Path,
    grid: PencilGrid,
    modes: Modes,
    transform: ForwardTransform,
    comm: MPI.Comm,
    step: int | None,
    forcing: Forcing,
) -> None:
    """Set velocity and scalars from a file, and the past of the forcing. Collective.

    Parameters
    ----------
    fields : complex [3 + S, n_modes], overwritten: u_x, u_y, u_z and the scalars that the file has. A scalar that
        it does not have is left as it is
    path : a checkpoint, a directory of checkpoints (the newest usable one is taken), or a BP data set
    step : of which step; None takes the last one
    forcing : of this run; its random processes continue from a checkpoint whose run had the same ones, and begin anew
        otherwise, with a warning

    A checkpoint may be of another grid, truncation, precision or rank count, in a box of the same lengths. Modes that
    it lacks become zero; modes that this grid lacks are left out. A data set is of the same grid; its velocity is
    truncated and projected to zero divergence.

    Raises, on all ranks: ConfigError if nothing of the kind is at `path`; CheckpointError if the checkpoint is
    damaged, of another model or box; OutputError if the data set is damaged, of another grid, lacks a velocity
    component or the step, or is not finite.
    """
    path = Path(path)
    if broadcast_decision(comm, lambda: is_checkpoint(path)):
        warnings, sentence = read_checkpoint(fields, path, modes, comm, step, forcing)
    else:
        warnings, sentence = read_data_set(fields, path, grid, modes, transform, comm, step)
        if forcing.settings_of_state():
            warnings.append("the random processes of the forcing begin anew: a data set does not hold them")
    if comm.rank == 0:
        for warning in warnings:
            log.warning("%s", warning)
        if sentence:
            log.info("%s", sentence)


def kernels_of_files(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels that `fill_from_file` calls for complex fields of dtype, whatever the file holds."""
    found = specialise([project], dtype)
    for stored in (np.complex64, np.complex128):
        found += [*kernels_of_state(dtype, stored), *specialise([sum_of_squares], stored)]
    return found
