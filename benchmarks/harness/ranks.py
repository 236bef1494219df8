"""Benchmarks that run as MPI jobs of their own."""

import json
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from ridgeline.runtime.mpiexec import find_mpiexec

if TYPE_CHECKING:
    from mpi4py import MPI

# The lines that say why a job ended: of Python, or of mpiexec about a process that a signal ended.
_ERROR = re.compile(r"(error|[\w.]*(Error|Exception)\b|YOUR APPLICATION TERMINATED)")


class JobFailed(Exception):
    """A job ended without a result; the message is the last line that it said."""


def run_job(file: str, n_ranks: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Run `mpiexec -n n_ranks python FILE SETTINGS` and return the JSON object that it prints last.

    Raises JobFailed, after passing on what the job said on stderr.
    """
    command = [*find_mpiexec(), "-n", str(n_ranks), sys.executable, file, json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        words = (done.stdout + done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
        errors = [line for line in words if _ERROR.match(line)]
        raise JobFailed((errors or words)[-1])
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def outside_mpi() -> dict[str, str]:
    """Return this process's environment without what a launcher left in it, for a child that is no rank."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "MPI", "HYDRA", "HYDI"))}


def wait_asleep(comm: "MPI.Comm") -> None:
    """Wait for all ranks without spinning on a core that another rank measures with."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.001)
