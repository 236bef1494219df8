"""A peer in an environment of its own, and a process of it that takes steps when told to."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.ranks import outside_mpi


@contextmanager
def peer_python(choice: str | None, packages: Sequence[str]) -> Iterator[str | None]:
    """Give a Python that has the packages: the one named, or with "install" one in a fresh, temporary environment."""
    if choice != "install":
        yield choice
        return
    with tempfile.TemporaryDirectory(prefix="ridgeline-peer-") as folder:
        print(f"installing {' '.join(packages)} into a temporary environment", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = str(Path(folder) / "bin" / "python")
        # What they depend on may be plain Python without a wheel.
        command = [python, "-m", "pip", "install", "-q", "--only-binary", ",".join(packages), *packages]
        subprocess.run(command, check=True, stdout=sys.stderr)
        yield python


class Peer:
    """A child process that answers a line of its input by a line; its first line is `says`.

    Raises RuntimeError with the last line of its stderr if it does not answer.
    """

    def __init__(self, python: str, script: Path, arguments: Sequence[str]) -> None:
        libraries = str(Path(python).parents[1] / "lib")  # wheels of MPI put their libraries there
        path = os.pathsep.join(filter(None, [libraries, os.environ.get("LD_LIBRARY_PATH")]))
        self._process = subprocess.Popen(
            [python, str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**outside_mpi(), "LD_LIBRARY_PATH": path},
        )
        self.says = self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            said = self._process.communicate()[1].strip().splitlines()
            raise RuntimeError(said[-1] if said else "it did not answer")
        return line

    def seconds(self, line: str) -> float:
        """Say a line, and return the number that is answered."""
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
