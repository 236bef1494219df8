"""The fields of a run by name, as data sets and checkpoints hold them, and the profiles in height of a case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.models.wind.problem import VELOCITIES
from ridgeline.models.wind.profiles import HeightProfiles
from ridgeline.models.wind.settings import ENERGY, WindCase
from ridgeline.parallel.partition import DistributedArray

if TYPE_CHECKING:
    from mpi4py import MPI

DESCRIPTIONS = {
    "u": "velocity in x",
    "v": "velocity in y",
    "w": "velocity in z",
    "theta": "potential temperature",
    "pressure": "pressure over density, the mean of the nodes around a cell",
    ENERGY: "kinetic energy of the motions that the grid does not resolve",
}
NODE_PRESSURE = "node_pressure"  # in checkpoints


def distributed(names: Sequence[str], fields: Sequence[BlockArray]) -> dict[str, DistributedArray]:
    """Return fields by name, as views of what this rank owns. No communication."""
    return {
        name: DistributedArray(name, field.block.shape_global, field.block.offset_global, field.owned)
        for name, field in zip(names, fields, strict=True)
    }


def field_names(case: WindCase) -> tuple[str, ...]:
    """Return the names of the fields at cells, in their order."""
    return (*VELOCITIES, *case.transported())


def make_height_profiles(case: WindCase, comm: MPI.Comm, block: Block) -> HeightProfiles | None:
    """Return the sums of the profiles in height, None if the case has none."""
    if not case.output.interval("profiles_every"):
        return None
    scalars = tuple(name for name in case.transported() if name != ENERGY)
    kind = case.subgrid.kind
    start = case.output.profiles_start
    return HeightProfiles(
        comm, block, case.grid.spacing(), scalars, kind != "none", kind == "one-equation", start
    )
