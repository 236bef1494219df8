"""Services of Cassini interfaces (CXI) that a job's scheduler made and did not remove (MPI on Aurora, Sec. 3.8.9).

`cxi_service list` of HPE's libcxi prints one block for each service. The driver's own service is marked as the
default, and a system's as such. Source: github.com/HewlettPackard/shs-libcxi, utils/cxi_service.c, which was read;
the program itself was never at hand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from ridgeline.runtime.environment import child_environment

_SECONDS = 10.0
_SERVICE = re.compile(r"^ ID: (\d+)( \(DEFAULT\))?\s*$((?:\n(?! ID: ).*)*)", re.MULTILINE)
_SYSTEM = re.compile(r"^\s*System Service\s*: Yes\s*$", re.MULTILINE)


def count_services(text: str) -> int:
    """Return the services of jobs in the output of `cxi_service list`."""
    return sum(not default and not _SYSTEM.search(block) for _, default, block in _SERVICE.findall(text))


def read_services(devices: Sequence[str]) -> dict[str, int]:
    """Return the services of jobs on each device, as gauges; nothing where `cxi_service` is missing or fails."""
    program = shutil.which(
        "cxi_service", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/bin"))
    )
    found: dict[str, int] = {}
    for device in devices if program else ():
        try:
            done = subprocess.run(
                (str(program), "list", "-d", device),
                env=child_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        found[f"left/CXI services/{device}"] = count_services(done.stdout)
    return found
