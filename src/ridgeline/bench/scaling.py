"""How a benchmark takes part in `ridgeline study`: its size law, and where a study finds its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ridgeline.config.size_law import SizeLaw


@dataclass(frozen=True)
class Scaling:
    """The part of a declaration that makes studies of a benchmark possible.

    law: of its size; figures: "module.function" beside the declaration, which takes what the benchmark's JSON holds
    (`Result.to_dict`) and returns a `ScalingFigures` for each curve of the study. The module imports neither Numba
    nor MPI: a study reads reports on login nodes.
    """

    law: SizeLaw
    figures: str


@dataclass(frozen=True)
class ScalingFigures:
    """What one job says of one curve, of all ranks together.

    labels: what tells its curves apart, as {"implementation": "reference"}; seconds: of one step or iteration of the
    slowest rank; points: that it advances; phases: seconds of its parts, which add up to about seconds; flops,
    bytes: per second, counted; fraction: share of the limit that the same job measured. None where not known.
    """

    seconds: float
    points: float
    labels: Mapping[str, Any] = field(default_factory=dict)
    phases: Mapping[str, float] = field(default_factory=dict)
    flops: float | None = None
    bytes: float | None = None
    fraction: float | None = None
