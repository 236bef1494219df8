"""Reading a data set in a child process: damaged metadata, which nothing tells, may end that one alone."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from ridgeline.io.bp_blocks import slabs
from ridgeline.io.bp_engine import BPEngine, Contents, Selection, StoredBlock
from ridgeline.runtime.errors import OutputError

# A child of a rank is none: it must not join the MPI job, which ADIOS2 with MPI does through mpi4py.
_SERIAL = {"MPI4PY_RC_INITIALIZE": "0", "MPI4PY_RC_FINALIZE": "0"}


class IsolatedEngine:
    """As `bp_engine.BPEngine`, but a child process does the work; where it ends, OutputError says so."""

    def __init__(self, path: Path, folder: Path, steps: int) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._opened = path, folder.absolute(), steps
        self.contents: Contents = self._start()

    def _start(self) -> Any:
        environment = os.environ | _SERIAL | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-c", "from ridgeline.io.bp_isolated import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the parent
        )
        self._end = weakref.finalize(self, _end, self._child)
        self._requests, self._answers = (
            cast(IO[bytes], self._child.stdin),
            cast(IO[bytes], self._child.stdout),
        )
        return self._ask(*self._opened)

    def _ask(self, *request: Any) -> Any:
        try:
            pickle.dump(request, self._requests)
            self._requests.flush()
            answer = pickle.load(self._answers)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._end()
            code = self._child.returncode
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            raise OutputError(
                f"cannot read the data set {self._path}: ADIOS2 crashed in it ({how}); it is damaged, restore it "
                f"from a copy, or run again"
            ) from None
        if isinstance(answer, OutputError):
            raise answer
        return answer

    def read(self, name: str, pieces: Iterable[Selection]) -> None:
        """Fill the pieces of array `name`, slab by slab."""
        with self._lock:
            self._reopen()
            for piece in pieces:
                rest = piece.start[1:]
                for z0, z1 in slabs(piece.out.shape, piece.out.itemsize):
                    box = (piece.start[0] + z0, *rest), (z1 - z0, *piece.out.shape[1:])
                    piece.out[z0:z1] = self._ask("read", name, piece.step, *box)

    def blocks(self, name: str, step: int) -> list[StoredBlock]:
        """Return the blocks of array `name` at an output step, in the order in which they were written."""
        with self._lock:
            self._reopen()
            found: list[StoredBlock] = self._ask("blocks", name, step)
            return found

    def _reopen(self) -> None:
        if not self._end.alive:
            self._start()

    def close(self) -> None:
        """End the child; a later `read` starts another."""
        with self._lock:
            self._end()


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe:
            with contextlib.suppress(OSError):  # what was not sent to a child that is dead
                pipe.close()


def serve() -> None:
    """Be the child: answer requests from the standard input until it ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what ADIOS2 prints is no answer
    engine: BPEngine | None = None
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        answer: Any
        try:
            if engine is None:
                engine = BPEngine(*request)
                answer = engine.contents
            elif request[0] == "blocks":
                answer = engine.blocks(*request[1:])
            else:
                _, name, step, start, shape = request
                answer = np.empty(shape, engine.contents.arrays[name].dtype)
                engine.read(name, [Selection(step, start, answer)])
        except OutputError as error:
            answer = error
        pickle.dump(answer, answers, protocol=5)
        answers.flush()
