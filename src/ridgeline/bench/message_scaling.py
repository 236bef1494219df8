"""How studies scale benchmarks of messages: the size of a message stays, whatever the number of ranks.

Imports neither Numba nor MPI, because a study reads reports on login nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ridgeline.bench.benchmark import Scaling, ScalingFigures
from ridgeline.config.size_law import Settings, SizeLaw
from ridgeline.runtime.errors import ConfigError

# The variable by which MPICH hands memory of GPUs to libfabric ("MPI on Aurora", Sec. 5.3.5).
HMEM = "MPIR_CVAR_CH4_OFI_ENABLE_HMEM"
_MEMORIES = {"host": "host", "cuda": "GPU", "cuda-staged": "GPU through host"}


@dataclass(frozen=True)
class FixedMessages(SizeLaw):
    """Messages of the same size on any number of ranks, which is weak scaling.

    option: the option that is the size. total: the option of a number for all ranks, which grows with them, or "".
    """

    option: str = "sizes"
    total: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.option, self.total) if self.total else (self.option,)

    def weak(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return the number for all ranks, if one is given, and no other changes."""
        number = settings.get(self.total)
        if number is None or ranks == first:
            return {}
        return {self.total: number * ranks // first}

    def strong(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Raise ConfigError unless the number of ranks stays, because messages are not divided among ranks."""
        if ranks == first:
            return {}
        raise ConfigError(
            "messages have the same size on any number of ranks, so they have no strong scaling. Use --weak."
        )


def buffers_of(content: Mapping[str, Any]) -> str:
    """Return in words where the messages of a report lay, with HMEM if it was set."""
    memory = content["settings"]["memory"]
    setting = content.get("mpi", {}).get("environment", {}).get(HMEM)
    words = _MEMORIES.get(memory, memory)
    return (
        words if memory == "host" or setting is None else f"{words}, HMEM {'on' if setting == '1' else 'off'}"
    )


def message_figures(content: Mapping[str, Any]) -> list[ScalingFigures]:
    """Return a curve for each size of message, or operation, and point of a sweep.

    A step is one message of each pair, one collective operation, or all accesses of the fast multipole method. The
    points are ranks, or those accesses, so that an efficiency is that of the time of a message.
    """
    figures = []
    for row in content["rows"]:
        keys: tuple[str, ...] = ("test", "operation", "communicators", "size")
        if len({(other.get("nodes"), other.get("ranks_per_node")) for other in content["rows"]}) > 1:
            keys += ("nodes", "ranks_per_node")
        labels = {key: row[key] for key in keys if row.get(key) is not None}
        seconds = row.get("seconds")
        if seconds is None:  # of one message of each pair
            rate = row.get("message_rate", row.get("messages"))
            seconds = row.get("pairs", content["settings"].get("n_pairs", 1)) / rate
        accesses = row.get("messages") if "communicators" in row else None
        figures.append(
            ScalingFigures(
                seconds=seconds,
                points=accesses or row.get("ranks", content["ranks"]),
                labels=labels | {"buffers": buffers_of(content)},
                bytes=row.get("bandwidth", row.get("rate")),
            )
        )
    return figures


# In a benchmark's declaration; the function is named in the options of its family.
MESSAGES = FixedMessages()


def message_scaling(family: str, law: SizeLaw = MESSAGES) -> Scaling:
    """Return the scaling of a benchmark of messages, whose family's options import `message_figures`."""
    return Scaling(law, f"{family}_options.message_figures")
