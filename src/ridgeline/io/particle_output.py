"""Data sets of particles: arrays in the order of identities, the same from any number of ranks.

BP5 stores arrays block by block, as ParaView requires for points; `ridgeline.open` reads whole arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.open_store import open_writer
from ridgeline.io.store import IDENTITY, PARTICLE, Variable
from ridgeline.particles.identity_ranges import IdentityRanges
from ridgeline.particles.particles import POSITION, ParticleField

if TYPE_CHECKING:
    from mpi4py import MPI

# Names of the axes of components: x, y, z; and du_x/dx, du_x/dy, ..., du_z/dz.
AXES = {3: "axis", 9: "derivative"}


def particle_variables(ranges: IdentityRanges, fields: Mapping[str, ParticleField]) -> list[Variable]:
    """Return the arrays of fields, [N] or [N, components], of which each rank writes those of its identities."""
    variables = []
    for name, field in fields.items():
        more = (field.components,) if field.components else ()
        dims = (PARTICLE, *(AXES.get(n, f"{name}_component") for n in more))
        blocks = (ranges.n_global, *more), (ranges.first, *(0 for _ in more)), (ranges.n, *more)
        variables.append(Variable(name, field.dtype, *blocks, dims=dims))
    return variables


def rows_of(values: Mapping[str, NDArray[Any]], names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Return fields of particles, [n] or [components, n], as they are written: a row for each particle."""
    return {name: np.ascontiguousarray(values[name].T) for name in names}


class ParticleWriter:
    """Writes fields of all particles to one data set, a step at a time. Every method is collective.

    fields: the fields by name, among them `position` of three components; the arrays are [N] or [N, components].
    ranges: the identities whose particles each rank writes. Other arguments and errors are those of `open_writer`.
    """

    def __init__(
        self,
        path: str | Path,
        comm: MPI.Comm,
        ranges: IdentityRanges,
        fields: Mapping[str, ParticleField],
        attributes: Mapping[str, Any],
        *,
        keep_steps: int | None = None,
        setting: str = "output.path",
        store: str = "auto",
    ) -> None:
        self._ranges, self._fields = ranges, dict(fields)
        place = (ranges.n_global,), (ranges.first,), (ranges.n,)
        identity = Variable(PARTICLE, np.int64, *place, description=IDENTITY, dims=(PARTICLE,), once=True)
        variables = [identity, *particle_variables(ranges, fields)]
        self._writer = open_writer(
            path,
            comm,
            variables,
            attributes,
            store=store,
            keep_steps=keep_steps,
            setting=setting,
            points=POSITION,
        )

    @property
    def steps(self) -> int:
        """Number of output steps in the data set."""
        return self._writer.steps

    @property
    def fingerprint(self) -> str:
        """Checksum of everything in the data set; "" except on rank 0."""
        return self._writer.fingerprint

    def write(self, step: int, time: float, values: Mapping[str, NDArray[Any]]) -> int:
        """Append a step, and return its bytes. values: by name, [n] or [components, n] for this rank's identities."""
        arrays = rows_of(values, self._fields)
        return self._writer.write(step, time, {PARTICLE: self._ranges.identities, **arrays})

    def close(self) -> None:
        """Finish the data set."""
        self._writer.close()
