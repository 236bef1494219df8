"""Diagnostic tools of vendors, run on each node where a site asks for them: their exit status decides.

Their output is kept and not understood, because its format differs between versions. A tool that is not there is
skipped, and one that takes too long says nothing about the node.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.runtime.environment import child_environment

_KEPT = 4096  # characters of the end of the output
# Where a scheduler's bare environment does not look.
_PLACES = ("/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/cray/libfabric/bin")


@dataclass(frozen=True)
class VendorTool:
    """A tool. command: with its arguments; seconds: that it may take; once: on the first node only, because it looks
    at the whole fabric.
    """

    name: str
    command: tuple[str, ...]
    seconds: float = 60.0
    once: bool = False


KNOWN_TOOLS = {
    tool.name: tool
    for tool in (
        VendorTool("cxi_healthcheck", ("cxi_healthcheck",)),
        VendorTool("slingshot-diag", ("slingshot-diag",)),
        VendorTool("nvidia-smi", ("nvidia-smi",), 30.0),
        VendorTool("dcgmi", ("dcgmi", "diag", "-r", "1"), 120.0),
        VendorTool("ibdiagnet", ("ibdiagnet",), 600.0, once=True),
    )
}


@dataclass
class ToolResult:
    """What a tool did. code: exit status, None if it did not end in time or is not there; output: its end."""

    name: str
    code: int | None
    seconds: float
    output: str

    @property
    def last_line(self) -> str:
        """The last line of the output that holds something."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else "no output"


def run_tools(tools: Sequence[VendorTool], first_node: bool) -> list[ToolResult]:
    """Run the tools on this node, one after the other; return what each did. No communication."""
    return [_run(tool) for tool in tools if first_node or not tool.once]


def _run(tool: VendorTool) -> ToolResult:
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_PLACES))
    program = shutil.which(tool.command[0], path=path)
    if program is None:
        return ToolResult(tool.name, None, 0.0, f"{tool.command[0]} is not installed")
    begin = time.monotonic()
    try:
        done = subprocess.run(
            (program, *tool.command[1:]),
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=tool.seconds,
        )
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        code, output = None, (error.stdout or b"") + f"\nit did not end within {tool.seconds:g} s".encode()
    except OSError as error:
        code, output = None, f"it could not be started: {error.strerror}".encode()
    text = output.decode(errors="replace")[-_KEPT:]
    printable = "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)
    return ToolResult(tool.name, code, round(time.monotonic() - begin, 3), printable)
