"""The state of a turbulence run as checkpoints hold it: in Fourier space, independent of the process grid.

A checkpoint holds only the retained modes, in the canonical order of fourier/decomposition.py, as 1-D arrays of which
rank p has the p-th of equal ranges:

    velocity_x, velocity_z    every mode
    velocity_y_ky0            the modes with k_y = 0, one for each line; the others follow from continuity
    scalar_0, scalar_1, ...   every mode

All process grids of the same number of ranks write the same data files, and any number of ranks reads them.
Source: Yeung et al. (GESTS), Sec. 3.2 and Eq. 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.decomposition import PencilGrid, Truncation
from ridgeline.fourier.exchanges.redistribute import Redistribution, equal_ranges
from ridgeline.fourier.modes import Lengths, Modes
from ridgeline.jit.contiguous_runs import gather_runs, scatter_runs
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.models.turbulence.solenoidal import recover_y
from ridgeline.parallel.partition import DistributedArray

if TYPE_CHECKING:
    from mpi4py import MPI

VELOCITY_Y = "velocity_y_ky0"

Field = NDArray[Any]
Fields = Sequence[Field] | NDArray[Any]  # rows of one array, or arrays


def field_sizes(truncation: Truncation, n_scalars: int) -> dict[str, int]:
    """Return the number of complex numbers of each field of a checkpoint, by name."""
    n_modes = truncation.n_modes
    sizes = {"velocity_x": n_modes, VELOCITY_Y: truncation.n_lines, "velocity_z": n_modes}
    return sizes | {f"scalar_{i}": n_modes for i in range(n_scalars)}


def recover(modes: Modes, velocity: Fields) -> None:
    """Set u_y from u_x and u_z by continuity (Eq. 12) wherever k_y != 0. velocity: u_x, u_y, u_z [n_modes].

    Rounding errors of u_x and u_z enter u_y, enlarged by up to (|k_x| + |k_z|) / |k_y|.
    """
    ux, uy, uz = velocity
    recover_y(modes.lines.most, modes.kx, modes.kz, modes.unit[1], ux, uz, uy)


@dataclass(frozen=True)
class _FieldMove:
    """The plan by which one kind of field is moved between an engine and a checkpoint."""

    redistribution: Redistribution
    bounds: NDArray[np.int64]
    n_global: int


class SpectralState:
    """Converts the fields of an engine to the arrays of a checkpoint and back. Creating it is collective.

    Parameters
    ----------
    grid, lengths : this rank's share of the modes, and the box (L_z, L_y, L_x)
    comm : all ranks of the grid, numbered as grid.rank is
    dtype : complex64 or complex128, of the engine's fields
    n_scalars : passive scalars S
    workspace : contiguous array of dtype that may be overwritten between `pack` or `arrays` and `release`, such as
        the engine's exchange buffer between two steps; whatever does not fit into it is allocated

    Memory, only between `pack` or `arrays` and `release`: 2 + S complex numbers a mode and one a line for the arrays,
    and with P_r > 1 another one a mode, reused for all fields, to order what comes from other ranks. That is at most
    one more copy of the engine's fields. The plan stays, 40 bytes a line.
    """

    def __init__(
        self,
        grid: PencilGrid,
        lengths: Lengths,
        comm: MPI.Comm,
        dtype: DTypeLike,
        n_scalars: int,
        workspace: Field | None = None,
    ) -> None:
        if comm.rank != grid.rank:
            raise ValueError(
                f"rank {comm.rank} of the communicator has the modes of rank {grid.rank}, but they must be those of "
                "the same rank"
            )
        self._modes = Modes.of(grid, lengths)
        self._comm = comm
        self._dtype = np.dtype(dtype)
        self._workspace = workspace
        self._used = 0
        self._arrays: dict[str, DistributedArray] | None = None
        lines, truncation = self._modes.lines, grid.truncation
        self._sizes = field_sizes(truncation, n_scalars)
        self._whole = self._plan(lines.start_global, np.diff(lines.start), truncation.n_modes)
        # Places of this rank's lines in the canonical order of lines.
        retained = np.cumsum(truncation.table >= 0).reshape(truncation.table.shape) - 1
        numbers = np.asarray(retained[lines.jz % truncation.shape[0], lines.jx], np.int64)
        self._lines = self._plan(numbers, np.ones_like(numbers), truncation.n_lines)

    def _plan(self, start: NDArray[np.int64], count: NDArray[np.int64], n: int) -> _FieldMove:
        bounds = equal_ranges(n, self._comm.size)
        return _FieldMove(Redistribution(self._comm, start, count, bounds), bounds, n)

    def _n_scratch(self) -> int:
        line = self._lines.redistribution
        return max(self._whole.redistribution.n_buffer, line.n_buffer + line.n_values)

    def _plan_of(self, name: str) -> _FieldMove:
        return self._lines if name == VELOCITY_Y else self._whole

    def arrays(self) -> dict[str, DistributedArray]:
        """Return this rank's part of every field: values of the last `pack`, or undefined, to be read into.

        They are 1-D complex, one range of the canonical order for each rank, and valid until `release`.
        """
        if self._arrays is None:
            self._arrays = {}
            for name in self._sizes:
                plan = self._plan_of(name)
                first, end = plan.bounds[self._comm.rank]
                local = self._take(int(end - first))
                self._arrays[name] = DistributedArray(name, (plan.n_global,), (int(first),), local)
        return dict(self._arrays)

    def pack(self, fields: Fields) -> dict[str, DistributedArray]:
        """Fill the arrays from the engine's fields and return them. Collective.

        fields: [3 + S, n_modes], u_x, u_y, u_z, then scalars; rows contiguous. Their u_y is REPLACED by the one that
        continuity gives from u_x and u_z, with which a resumed run begins. The run that continues and the run that
        resumes therefore have the same bits.
        """
        recover(self._modes, fields[:3])
        arrays = self.arrays()
        scratch, used = self._scratch()
        for name, field in self._rows(fields):
            plan = self._plan_of(name).redistribution
            if name == VELOCITY_Y:
                values, buffer = scratch[: plan.n_values], scratch[plan.n_values :]
                np.take(field, self._modes.lines.start[:-1], out=values, mode="clip")
            else:
                values, buffer = field, scratch
            plan.to_ranges(values, arrays[name].local, buffer)
        self._used = used
        return arrays

    def unpack(self, fields: Fields) -> None:
        """Fill the engine's fields from the arrays, which do not change. Collective. fields: as for `pack`."""
        arrays = self.arrays()
        scratch, used = self._scratch()
        for name, field in self._rows(fields):
            plan = self._plan_of(name).redistribution
            if name == VELOCITY_Y:
                values, buffer = scratch[: plan.n_values], scratch[plan.n_values :]
                plan.to_runs(arrays[name].local, values, buffer)
                field[self._modes.lines.start[:-1]] = values
            else:
                plan.to_runs(arrays[name].local, field, scratch)
        recover(self._modes, fields[:3])
        self._used = used

    def release(self) -> None:
        """Free the memory of the arrays; what `arrays` has returned may no longer be used."""
        self._arrays = None
        self._used = 0

    def _rows(self, fields: Fields) -> list[tuple[str, Field]]:
        if len(fields) != len(self._sizes):
            raise ValueError(f"there must be {len(self._sizes)} fields, not {len(fields)}")
        return list(zip(self._sizes, fields))

    def _scratch(self) -> tuple[Field, int]:
        """Return scratch space for one exchange, and how much of the workspace is in use without it."""
        used = self._used
        return self._take(self._n_scratch()), used

    def _take(self, n: int) -> Field:
        """Return space for n numbers, in the workspace if they fit, otherwise newly allocated."""
        if self._workspace is not None and self._used + n <= self._workspace.size:
            self._used += n
            return self._workspace[self._used - n : self._used]
        return np.empty(n, self._dtype)


def kernels_of_state(dtype: DTypeLike, stored: DTypeLike | None = None) -> list[Specialisation]:
    """Return the kernels of a `SpectralState` of complex numbers of dtype.

    stored: dtype of the numbers in a file, which are converted to dtype; None stands for dtype.
    """
    stored = stored or dtype
    return [*specialise([recover_y, gather_runs], stored), *specialise([scatter_runs], stored, dtype)]
