"""C for comparison with Python: the sources in bench/c, compiled when they are needed and loaded into this process.

A shared library in the process of the measurement has the same memory, core binding, MPI library and communicator as
the Python code, so only the language differs.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.runtime.environment import child_environment
from ridgeline.runtime.files import read_regular
from ridgeline.runtime.machine import cpu_name
from ridgeline.runtime.user_cache import private_folder

if TYPE_CHECKING:
    from mpi4py import MPI

SOURCES = Path(__file__).parent / "c"
COMMON = ("-O3", "-std=gnu11", "-pthread", "-shared", "-fPIC")
# The first set that the compiler accepts is used: not every one has OpenMP's run-time library or knows the processor.
OPTIONAL = (("-march=native", "-fopenmp"), ("-march=native",), ("-fopenmp",), ())
COMPILE_SECONDS = 120.0

# The ctypes of the result and then of the arguments, as in (ctypes.c_double, ctypes.c_int).
Signature = tuple[Any, ...]


@dataclass(frozen=True)
class Library:
    """A compiled C source, the first line of its compiler's --version, and the command without file names."""

    functions: dict[str, Callable[..., Any]]
    compiler: str
    command: str
    path: Path = field(compare=False)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return a function by its name in C."""
        return self.functions[name]


def load_c(
    comm: MPI.Comm | None,
    name: str,
    functions: Mapping[str, Signature],
    mpi: bool | None = None,
    folder: Path | None = None,
    optional: Sequence[tuple[str, ...]] | None = None,
) -> tuple[Library | None, str]:
    """Compile bench/c/NAME.c unless the cache folder has it, load it, and return it.

    The compiled library is cached under a digest of source, compiler, flags and processor. OpenMP and tuning for this
    processor are left out where the compiler lacks them, so the source must test _OPENMP.

    Parameters
    ----------
    comm
        All ranks that need the library, or None for this process alone.
    functions
        The functions of the source by name, with their types.
    mpi
        Whether to compile with the compiler of MPI (default: if there is a comm): MPICC, or mpicc beside the
        interpreter or on PATH. Otherwise CC or cc compiles.
    folder
        The folder of NAME.c instead of bench/c.
    optional
        Sets of flags, of which the first that the compiler accepts is used.

    Returns
    -------
    tuple
        The library and how it was compiled, or None and the reason, for a row of a table. A missing compiler raises
        no error.

    Notes
    -----
    Collective over comm. One rank of each node compiles; either all ranks have the library or none has.
    """
    mpi = comm is not None if mpi is None else mpi
    source = (SOURCES if folder is None else folder) / f"{name}.c"
    options = OPTIONAL if optional is None else tuple(optional)
    if comm is None:
        path, text = _build(source, mpi, options)
    else:
        path, text = _build_on_node(comm, source, mpi, options)
    library, reason = (None, text) if path is None else _open(path, text, functions, mpi)
    if comm is not None:
        failed = [why for absent, why in comm.allgather((library is None, reason)) if absent]
        if failed:
            return None, failed[0]
    return library, reason


def address_of(comm: MPI.Comm) -> int:
    """Return the address of the communicator's handle: an `MPI_Comm *` for C, valid as long as comm exists."""
    from mpi4py import MPI

    return MPI._addressof(comm)


def _build_on_node(
    comm: MPI.Comm, source: Path, mpi: bool, optional: Sequence[tuple[str, ...]]
) -> tuple[Path | None, str]:
    """Build on one rank of each node while the others sleep. Collective."""
    from ridgeline.parallel.communicator import node_communicator, sleeping_barrier

    with node_communicator(comm) as node:
        built = _build(source, mpi, optional) if node.rank == 0 else None
        sleeping_barrier(node)
        result: tuple[Path | None, str] = node.bcast(built)
    return result


def _build(source: Path, mpi: bool, optional: Sequence[tuple[str, ...]]) -> tuple[Path | None, str]:
    """Return the path of the shared library and how it was compiled, or None and the reason."""
    compiler = _find_compiler(mpi)
    if compiler is None:
        missing = (
            "mpicc beside the interpreter, on PATH, or in the variable MPICC"
            if mpi
            else "cc on PATH or in CC"
        )
        return None, f"no C compiler: there is no {missing}"
    compiler_name = Path(compiler[0]).name
    version = _run([*compiler, "--version"])
    if version.returncode:
        return None, f"no C compiler: {compiler_name} says {_first_error(version)}"
    title = version.stdout.splitlines()[0] if version.stdout else compiler_name
    key = f"{compiler} {title} {cpu_name()} {COMMON} {optional}".encode() + source.read_bytes()
    # A private folder, because the code in it is run.
    folder = private_folder("c")
    path = folder / f"{source.stem}-{hashlib.blake2b(key, digest_size=8).hexdigest()}.so"
    record = path.with_suffix(".txt")
    why = ""
    try:
        if path.exists() and record.exists():
            return path, read_regular(record).decode(errors="replace")
        for flags in optional:
            command = [*compiler, *COMMON, *flags]
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                target = Path(scratch) / path.name
                done = _run([*command, str(source), "-o", str(target), "-lm"])
                if done.returncode == 0:
                    text = f"{title}\n{' '.join((compiler_name, *compiler[1:], *COMMON, *flags))}"
                    (Path(scratch) / record.name).write_text(text)
                    # Into place at once, so that another run never loads half a file.
                    os.replace(Path(scratch) / record.name, record)
                    os.replace(target, path)
                    return path, text
            why = why or _first_error(done)
    # Such as a full disk.
    except OSError as error:
        why = f"{folder}: {error.strerror}"
    return None, f"{compiler_name} cannot compile {source.name}: {why}"


def _find_compiler(mpi: bool) -> list[str] | None:
    """Return the compiler's path and the options that it is named with, or None."""
    chosen = shlex.split(os.environ.get("MPICC" if mpi else "CC", ""))
    if chosen:
        path = shutil.which(chosen[0])
    elif mpi:
        # The folder of the interpreter, links not followed, is the environment's, where its MPI lies too.
        path = shutil.which("mpicc", path=str(Path(sys.executable).parent)) or shutil.which("mpicc")
    else:
        path = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return None if path is None else [path, *chosen[1:]]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            env=child_environment(),
            capture_output=True,
            text=True,
            timeout=COMPILE_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", f"error: {error}")


def _first_error(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line or "not found" in line] or lines
    return errors[0].split("error:")[-1].strip() if errors else f"exit code {done.returncode}"


def _open(path: Path, text: str, functions: Mapping[str, Signature], mpi: bool) -> tuple[Library | None, str]:
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        return None, f"the compiled {path.name} cannot be loaded: {error}"
    if mpi and not _same_mpi(loaded):
        return None, (
            "mpicc belongs to a different MPI library than mpi4py uses; set the variable MPICC to the right compiler"
        )
    callables = {}
    for name, (result, *arguments) in functions.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
        callables[name] = function
    compiler, _, command = text.partition("\n")
    return Library(callables, compiler, command, path), text.replace("\n", ", ")


def _same_mpi(loaded: ctypes.CDLL) -> bool:
    """Return whether C calls the same library as mpi4py. A second copy of it would not be initialised."""
    from mpi4py import MPI

    def address(library: ctypes.CDLL) -> int | None:
        return ctypes.cast(library.MPI_Get_library_version, ctypes.c_void_p).value

    try:
        return address(loaded) == address(ctypes.CDLL(MPI.__file__))
    # Where mpi4py loads MPI in another way, the name of the library must do.
    except (AttributeError, OSError):
        text, length = ctypes.create_string_buffer(8192 * 2), ctypes.c_int()
        loaded.MPI_Get_library_version(text, ctypes.byref(length))
        return text.value.decode(errors="replace") == MPI.Get_library_version()
