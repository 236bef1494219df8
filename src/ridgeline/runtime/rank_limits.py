"""How many ranks one machine may be given, asked before any of them starts: a mistyped number must not take it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.memory import node_memory_available
from ridgeline.runtime.threads import cores_available
from ridgeline.runtime.units import number

OVERSUBSCRIBE = (
    "RIDGELINE_OVERSUBSCRIBE"  # set by --oversubscribe, so that what a study or a sweep starts has it too
)
_FEWEST = 16  # ranks that any machine may be given: tests and tutorials use that many on few cores
_PER_CORE = 4
# Bytes that a rank takes before it computes anything: Python, its libraries, MPI and compiled code, as measured,
# without what ranks share.
RANK_BYTES = 100 * 10**6
# Where batch systems say which nodes a job has: a file with a host in each line, once or several times.
_NODE_FILES = ("PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE", "HYDRA_HOST_FILE")


def nodes_of_job(environ: Mapping[str, str] | None = None) -> int:
    """Return over how many nodes a launcher can spread ranks, as the batch system says; 1 outside a batch job."""
    environ = os.environ if environ is None else environ
    with suppress(KeyError, ValueError):
        return max(1, int(environ["SLURM_JOB_NUM_NODES"]))
    for name in _NODE_FILES:
        with suppress(KeyError, OSError, ValueError):
            lines = Path(environ[name]).read_text().splitlines()
            return max(1, len({line.split()[0].split(":")[0] for line in lines if line.strip()}))
    return 1


def check_ranks(ranks: int, environ: Mapping[str, str] | None = None) -> None:
    """Raise ConfigError if this many ranks, on the nodes of this job, are more than a node can take.

    More than max(16, 4 x usable cores) on a node need --oversubscribe. More than its free memory holds are refused
    always.
    """
    environ = os.environ if environ is None else environ
    nodes, cores = nodes_of_job(environ), cores_available()
    most, here = max(_FEWEST, _PER_CORE * cores), -(-ranks // nodes)
    where = "one machine" if nodes == 1 else f"each of {nodes} nodes"
    if here > most and environ.get(OVERSUBSCRIBE, "") in ("", "0"):
        raise ConfigError(
            f"{ranks} ranks (-n, --ranks) are {here} on {where} with {cores} usable cores: at most {most} are "
            f"started there; use -n {nodes * cores} for one rank on each core, or --oversubscribe to start more"
        )
    needed, free = here * RANK_BYTES, node_memory_available()
    if needed > free:
        raise ConfigError(
            f"{ranks} ranks (-n, --ranks) are {here} on {where} and need {number(needed, 'B')} of memory before they "
            f"compute anything, but {number(free, 'B')} are free; use at most -n {nodes * max(1, free // RANK_BYTES)}"
        )
