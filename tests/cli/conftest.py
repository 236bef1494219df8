"""The command line as a user calls it: in a process of its own, in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import run_command

COMMAND = [sys.executable, "-m", "ridgeline"]
TIMEOUT = 120  # seconds; a hang is a failure, not a wait

CASE = """\
[run]
model = "gray_scott"
steps = {steps}
seed = 7

[grid]
shape = [{shape}]

[model]
noise = 0.01

[initial]
half_width = 3

[output]
every = {every}

[checkpoint]
every = {checkpoint}
"""


class Folder:
    """A folder with a case in it, and the command line started there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name="case.toml", steps=8, shape="13, 10, 17", every=4, checkpoint=0, extra="") -> Path:
        path = self.path / name
        path.write_text(CASE.format(steps=steps, shape=shape, every=every, checkpoint=checkpoint) + extra)
        return path

    def environ(self) -> dict[str, str]:
        # One thread per rank, whatever the tests around us use.
        return {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

    def start(self, *arguments, **options) -> subprocess.Popen:
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            cwd=self.path,
            env=self.environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def __call__(self, *arguments, timeout=TIMEOUT, env=None) -> subprocess.CompletedProcess:
        """Run a command in a forked process; with `env`, variables that are read at the start, by starting Python."""
        if env is None:
            return run_command(arguments, self.path, self.environ(), timeout)
        return subprocess.run(
            [*COMMAND, *map(str, arguments)],
            cwd=self.path,
            env={**self.environ(), **env},
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )


@pytest.fixture
def ridgeline(tmp_path):
    return Folder(tmp_path)
