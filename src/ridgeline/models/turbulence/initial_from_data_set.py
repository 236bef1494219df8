"""The velocity of a BP data set as modes: truncated, and projected to zero divergence."""

from __future__ import annotations

import math
import warnings as python_warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes
from ridgeline.fourier.pencil import PencilGrid
from ridgeline.io.bp_reader import BPReader
from ridgeline.io.initial_field import output_step, read_block
from ridgeline.models.turbulence.solenoidal import project
from ridgeline.parallel.allreduce import broadcast_decision, errors_on_all_ranks, raise_on_all_ranks
from ridgeline.runtime.errors import OutputError

if TYPE_CHECKING:
    from mpi4py import MPI

VELOCITY = ("velocity_x", "velocity_y", "velocity_z")
NEGLIGIBLE = 1e-6  # of the kinetic energy: the rounding of float32 and of its transforms


class ForwardTransform(Protocol):
    """What is asked of a FourierTransform."""

    def to_spectral(self, physical: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the retained modes, complex [n, n_modes], of real [n, *blocks.block]. Collective."""


def read_data_set(
    fields: NDArray[Any],
    path: Path,
    grid: PencilGrid,
    modes: Modes,
    transform: ForwardTransform,
    comm: MPI.Comm,
    step: int | None,
) -> tuple[list[str], str]:
    """Set velocity and scalars from a BP data set; see `from_file.fill_from_file`. Collective.

    Every rank reads its block. Returns warnings, and a sentence that says where the state is from and what was
    taken out. Memory beside the fields: one block, two if the data set has another precision.
    """
    # Rank 0 looks first, so that a wrong path is looked at once; then all open it.
    broadcast_decision(comm, lambda: _open(path, modes, len(fields) - 3, step).close())
    with errors_on_all_ranks(comm):
        reader = _open(path, modes, len(fields) - 3, step, isolated=False)
    try:
        names = [*VELOCITY, *_scalars(reader, len(fields) - 3)]
        output = output_step(reader, step)
        number = int(reader.scalars["step"][output]) if "step" in reader.scalars else output
        energy = 0.0
        physical = np.empty((1, *grid.block), fields.real.dtype)
        for place, name in enumerate(names):
            with errors_on_all_ranks(comm):
                read_block(reader, name, output, grid.offset, physical[0])
                if place < 3:
                    energy += 0.5 * _sum_of_squares(physical[0]) / math.prod(grid.shape)
            problem = None
            if not np.isfinite(physical).all():
                problem = OutputError(
                    f"{name} of the data set {path} holds NaN or infinity at step {number}; take another initial.step"
                )
            raise_on_all_ranks(comm, problem)
            transform.to_spectral(physical, out=fields[place : place + 1])
    finally:
        reader.close()
    return _project(fields, path, number, names, modes, comm, energy)


def _open(
    path: Path, modes: Modes, n_scalars: int, step: int | None, isolated: bool | None = None
) -> BPReader:
    """Open a data set that can be the initial state of this run, else raise OutputError. isolated: of BPReader."""
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")  # what is left out is not asked for
        reader = BPReader(path, isolated=isolated)
    try:
        for name in (*VELOCITY, *_scalars(reader, n_scalars)):
            if name not in reader.arrays:
                raise OutputError(
                    f"the data set {path} has no {name}, only {', '.join(sorted(reader.arrays))}; an initial "
                    f"state needs {', '.join(VELOCITY)}: write them by output.variables"
                )
            array = reader.arrays[name]
            if array.shape != modes.shape or array.dtype.kind != "f":
                raise OutputError(
                    f"{name} of the data set {path} has shape {list(array.shape)} and dtype {array.dtype}, "
                    f"grid.shape = {list(modes.shape)}; use the grid of the data set, or a checkpoint, which "
                    f"may be of another grid"
                )
        _check_spacing(reader, modes)
        output_step(reader, step)
    except OutputError:
        reader.close()
        raise
    return reader


def _check_spacing(reader: BPReader, modes: Modes) -> None:
    """Raise OutputError if the data set says that it is of another box; spacing 1 says nothing."""
    spacing = np.asarray(reader.attributes.get("Fides_Spacing", (1, 1, 1)), float)[::-1]
    mine = np.array(modes.lengths) / modes.shape
    if (spacing != 1).any() and not np.allclose(spacing, mine, rtol=1e-9, atol=0):
        lengths = [float(length) for length in spacing * modes.shape]
        raise OutputError(
            f"the data set {reader.path} is of another box: its spacing makes grid.lengths = {lengths}, this run "
            f"has {list(modes.lengths)}; set grid.lengths to those of the data set"
        )


def _scalars(reader: BPReader, n_scalars: int) -> list[str]:
    """Return the names of the first scalars, as far as the data set has them."""
    names = [f"scalar_{i}" for i in range(n_scalars)]
    return names[: next((i for i, name in enumerate(names) if name not in reader.arrays), n_scalars)]


def _sum_of_squares(block: NDArray[Any]) -> float:
    return float(sum(np.square(plane, dtype=np.float64).sum() for plane in block))


def _project(
    fields: NDArray[Any],
    path: Path,
    step: int,
    names: list[str],
    modes: Modes,
    comm: MPI.Comm,
    energy: float,
) -> tuple[list[str], str]:
    """Make the velocity solenoidal; return warnings and the sentence. energy: of this rank's block."""
    sums = np.zeros(3)
    lines = modes.lines
    project(lines.most, modes.kx, modes.kz, modes.unit[1], modes.line_weight, *fields[:3], sums)
    everyone = comm.allgather((energy, *(0.5 * sums)))
    total, modes_energy, removed, divergence = map(sum, zip(*everyone))
    left_out = max(total - modes_energy, 0.0)
    name = f"data set {path} (step {step})"
    sentence = (
        f"the initial state is from {name} of kinetic energy {total:.6g}, of which {left_out:.3g} in modes that "
        f"are not retained, and {removed:.3g} in the part with divergence (rms {math.sqrt(2 * divergence):.3g}), "
        f"are taken out"
    )
    warnings = []
    if left_out + removed > NEGLIGIBLE * total:
        warnings.append(sentence)
        sentence = ""
    n_scalars = len(fields) - 3
    if len(names) - 3 < n_scalars:
        missing = ", ".join(f"scalar_{i}" for i in range(len(names) - 3, n_scalars))
        warnings.append(f"{name} has no {missing}: starting as [[scalar]] says")
    return warnings, sentence
