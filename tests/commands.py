"""The command line in processes that are forked from one that has imported most libraries.

A command that starts Python takes one to two seconds for its imports alone, and the tests call some hundred commands.
Here each command has a process, a folder, standard streams and an exit code of its own, as a user's command has, but
most of its imports are paid once. Numba and MPI read the environment when they are imported, so they are not among
them.
"""

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from multiprocessing import forkserver, reduction
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from ridgeline.runtime import machine

# None of these starts threads. NumPy's BLAS has one thread by the environment of the server.
PRELOADED = (
    "adios2", "llvmlite.binding", "matplotlib.figure", "numpy", "pandas", "pydantic", "pyfftw", "rich.console",
    "scipy.fft", "scipy.special", "typer", "xarray", "ridgeline.cli.main",
)  # fmt: skip


@cache
def server() -> ForkServerContext:
    """Return the context whose processes are forked from one with everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *PRELOADED])
    with pytest.MonkeyPatch.context() as patched:
        for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            patched.setenv(name, "1")
        forkserver.ensure_running()
    return context


def run_command(
    arguments: Sequence[object], folder: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `ridgeline ARGUMENTS` in a folder and return its exit code and what it printed.

    Raises subprocess.TimeoutExpired, after killing it, if it takes longer than `timeout` seconds.
    """
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        streams = [reduction.DupFd(stream.fileno()) for stream in (out, err)]
        process = server().Process(target=_command, args=(words, str(folder), dict(environment), streams))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, timeout)
        printed = []
        for stream in (out, err):
            stream.seek(0)
            printed.append(stream.read())
        return subprocess.CompletedProcess(words, process.exitcode, *printed)


def _small_caches(read: Callable[[set[int]], dict[int, dict[str, int]]]) -> Callable:
    """Let STREAM see caches of at most 8 MiB: on a large server its arrays take gigabytes."""

    def caches(cpus: set[int]) -> dict[int, dict[str, int]]:
        return {
            level: {shared: min(size, 8 * 2**20) for shared, size in of_level.items()}
            for level, of_level in read(cpus).items()
        }

    return caches


def _command(words: list[str], folder: str, environment: dict[str, str], streams: list) -> None:
    """Become the process of a command: its streams, folder, variables and arguments, and run it to its end."""
    for number, stream in enumerate([os.open(os.devnull, os.O_RDONLY), *(s.detach() for s in streams)]):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = (open(n, mode, closefd=False) for n, mode in enumerate("rww"))  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    from ridgeline.cli.main import main

    machine.caches_by_level = _small_caches(machine.caches_by_level)
    sys.argv = ["ridgeline", *words]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
