"""From the command line to a running job: the ranks of this command."""

from __future__ import annotations

import sys

from ridgeline.runtime.environment import check_limits
from ridgeline.runtime.errors import LauncherError
from ridgeline.runtime.launcher import detect_launch, launch_ranks


def start_ranks(ranks: int | None, arguments: list[str] | None = None) -> int | None:
    """Start `ranks` MPI ranks of this same command and return their exit code; None: run in this process.

    Raises LauncherError if the ranks asked for contradict the launcher that started this process.
    """
    check_limits()
    launch = detect_launch()
    if launch is not None:
        if ranks is not None and ranks != launch.size:
            raise LauncherError(
                f"-n {ranks} inside a job that {launch.launcher} started with {launch.size} ranks; "
                f"leave -n out, or start without the launcher"
            )
        return None
    if ranks is None or ranks == 1:
        return None
    return launch_ranks(ranks, sys.argv[1:] if arguments is None else arguments)
