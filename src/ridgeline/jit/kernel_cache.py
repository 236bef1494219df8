"""The kernel cache: which machine code is kept between processes, under which key, where, and for how long.

Each compiled kernel is one file. Its name holds a digest of what the machine code depends on:

- the parts of source files that its function reaches, through imports too (`source_parts`), without comments,
  docstrings and layout; an installed library counts by its version;
- the code, default arguments and closure of the function as it is in memory, the functions that it calls, and the
  numbers, strings and arrays that they name;
- the options, the types of the arguments, the processor, Numba's settings and the versions of what compiles.

An edit or an upgrade therefore recompiles the kernels that reach what it changed, and no others, and two checkouts
with the same sources share their kernels. Dependencies that no source file and no function shows are not covered,
such as an `overload` that only the caller has imported.

The parts of a file are remembered in `sources.json` beside the kernels for as long as the modification time and the
size of the file stay the same. A file that has changed since this process began may differ from what the process has
imported, so the kernels that depend on it are compiled but not kept.

Kernels are loaded and run unchecked, so `kernel_folders` says which folders are trusted: the user's own, and one that
a centre shares. Each file ends with a digest of its content: a file that is damaged, or was cut off by a full disk or
a crash, counts as missing. Files are replaced atomically. Processes of one host that need the same kernel wait for
the first to compile it. This module must be importable before Numba is.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import json
import logging
import os
import pickle
import platform
import struct
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import IO, Any

from ridgeline.jit.kernel_folders import (
    DAY,
    SUFFIX,
    kernel_folder,
    read_shared,
    shared_folder,
    warn_of_shared,
)
from ridgeline.jit.source_parts import ALL, SourceFile, SourcePart, parts_of, reached
from ridgeline.runtime.console import Tally
from ridgeline.runtime.files import DAMAGED, read_regular
from ridgeline.runtime.launcher import may_print
from ridgeline.runtime.machine import cpu_name
from ridgeline.runtime.user_cache import open_kept, read_kept_bytes

log = logging.getLogger(__name__)
_compiled = Tally("compiled {} kernels so far.", log)

# The environment variable for narrower vectors than the processor has, to compare widths: 16, 32 or 64 bytes.
VECTOR_BYTES_VARIABLE = "RIDGELINE_VECTOR_BYTES"

_DIGEST_BYTES = 16
_PACKAGE = __name__.partition(".")[0]
# Modules that put nothing into kernels. What `jit.kernel` declares, the options and the types, is in every key.
_NOT_COMPILED = {
    _PACKAGE,
    __name__,
    *(f"{_PACKAGE}.{name}" for name in ("jit.kernel", "runtime.errors", "runtime.numba_errors")),
}
_PYTHON = Path(os.__file__).parent
_POLL = 0.05  # seconds between two attempts to take a lock that another process holds
_SILENT = 2.0  # seconds of waiting before a message says for whom


def _process_start() -> float:
    """Return when this process began, in ns of the clock of file times."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    # The end of that clock tick: no module can have been imported earlier.
    return time.time_ns() - since_boot + (ticks + 1) * 1e9 / os.sysconf("SC_CLK_TCK")


# Computed now, because a child that is forked later has what this process has imported.
_PROCESS_START = _process_start()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


# ---- the import closure ----


def closure_of(module: str, name: str = ALL) -> dict[str, str] | None:
    """Return a digest of what a name of a module reaches in each file, by the names of the modules.

    Imports of the same package, of Ridgeline and of modules outside the installed libraries are followed, including
    those inside functions, but not those that are only for type checkers.

    Returns
    -------
    dict or None
        The digest for each file, and the version of each library; None if there is no such file, or one of the files
        has changed since this process began.
    """
    own = {module.partition(".")[0], _PACKAGE}

    def look_up(name: str) -> SourceFile | str | None:
        path = None if name in _NOT_COMPILED else _file_of(name)
        if path is None:
            return None  # a name in a module, or a module of Python itself
        top = name.partition(".")[0]
        if top not in own and _is_library(path):
            return _version_of(top)
        source = _source(path)
        if source is None:
            raise LookupError(path)
        return source

    try:
        parts, libraries = reached(module, name, look_up)
    except LookupError:
        return None
    digests = {name: _digest(json.dumps(part).encode()).hex() for name, part in parts.items()}
    return digests | libraries if module in digests else None


@cache
def _file_of(name: str) -> Path | None:
    """Return the source file of a module, as Python found it or would find it; None for anything else."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if module is None:
        parent = name.rpartition(".")[0]
        package = sys.modules.get(parent)
        folders = list(package.__path__) if package and hasattr(package, "__path__") else None
        if package is None and parent:
            path = _file_of(parent)
            folders = [str(path.parent)] if path is not None and path.name == "__init__.py" else None
        if folders is not None or not parent:
            # A finder may fail in its own way: the path of a namespace package looks for parents that are not loaded.
            with suppress(ImportError, AttributeError, ValueError, KeyError):
                finders = [finder.find_spec(name, folders) for finder in sys.meta_path]
                file = next((spec.origin for spec in finders if spec is not None), None)
    if file is None or not file.endswith(".py"):
        return None
    source = Path(file)
    return None if source.is_relative_to(_PYTHON) and not _is_library(source) else source


def _is_library(path: Path) -> bool:
    """Say whether a file belongs to an installed library, whose version stands for it."""
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts)


def _is_of_python(module: str) -> bool:
    """Say whether a module is one of Python itself, whose version is part of every key."""
    return module.partition(".")[0] in sys.stdlib_module_names and _file_of(module) is None


@cache
def _version_of(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:  # its distribution has another name
        return str(getattr(sys.modules.get(library), "__version__", ""))


@cache
def _source(path: Path) -> SourceFile | None:
    """Return the facts of a source file; None if it is missing or has changed since this process began."""
    try:
        facts = path.stat()
        stamp = [facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size]
        if max(stamp[:2]) > _PROCESS_START:
            if max(stamp[:2]) > time.time_ns():
                log.warning("%s has a modification time in the future, so its kernels are not stored.", path)
            return None
        remembered = _remembered()
        known = remembered.get(str(path))
        if known is None or known.stamp != stamp:
            known = SourceFile(stamp, parts_of(path.read_bytes()), path.name == "__init__.py")
            remembered[str(path)] = known
            _write_at_exit()
    except OSError:
        return None
    return known


@cache
def _remembered() -> dict[str, SourceFile]:
    """Return what earlier processes have recorded about source files, by path."""
    with suppress(OSError, *DAMAGED):
        kept = json.loads(_read(kernel_folder() / "sources.json"))
        return {
            path: SourceFile(list(stamp), [SourcePart(*part) for part in parts], bool(package))
            for path, (stamp, parts, package) in kept.items()
        }
    return {}


@cache
def _write_at_exit() -> None:
    """Write the facts of source files for later processes when this process ends."""
    folder = kernel_folder()

    def write() -> None:
        kept = {path: source for path, source in _remembered().items() if os.path.exists(path)}
        with suppress(OSError):
            _replace(folder / "sources.json", json.dumps(kept).encode())

    if may_print():
        atexit.register(write)


# ---- the key of a function ----


def text_of(value: Any, seen: frozenset[int] = frozenset()) -> str:
    """Return a text of a value that is the same in every process; for a function, of all that its code depends on.

    seen: the functions that refer to this one, which may refer to themselves.

    Raises
    ------
    TypeError
        For anything but functions, compiled functions, numbers, strings, arrays, dtypes, types and tuples of them.
    LookupError
        If the sources of a function are not known; see `closure_of`.
    """
    options = _text_of_options(getattr(value, "targetoptions", {}))
    # A compiled function, an intrinsic, or the value itself.
    value = getattr(value, "py_func", getattr(value, "_defn", value))
    if isinstance(value, FunctionType):
        top = str(value.__module__).partition(".")[0]
        installed = _is_library(Path(value.__code__.co_filename)) or _is_of_python(str(value.__module__))
        if id(value) in seen or (seen and top != _PACKAGE and installed):
            return f"{value.__module__}.{value.__qualname__} {_version_of(top)}"
        seen |= {id(value)}
        # A function that `eval` made has no module; the file that closes over it has given it its names.
        name = value.__qualname__.partition(".")[0]
        sources = "" if value.__module__ is None else _closure_digest(value.__module__, name)
        if sources is None:
            raise LookupError(value.__module__)
        inner: dict[str, str] = {}
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            with suppress(ValueError):  # the cell is empty: a function that calls itself is not defined yet
                inner[name] = text_of(cell.cell_contents, seen)
        defaults = text_of((value.__defaults__ or ()) + tuple((value.__kwdefaults__ or {}).values()), seen)
        code = text_of(value.__code__, seen)
        return (
            f"{value.__module__}.{value.__qualname__} {sources} {options} {code} {defaults} {inner} "
            f"{_text_of_globals(value, seen)}"
        )
    if isinstance(value, CodeType):
        return f"{value.co_code.hex()} {value.co_names} {text_of(value.co_consts, seen)}"
    if isinstance(value, tuple):
        return f"({', '.join(text_of(item, seen) for item in value)})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(text_of(item, seen) for item in value))}}}"
    if value is None or value is Ellipsis or isinstance(value, int | float | complex | str | bytes):
        return repr(value)
    import numpy as np
    from numba import types

    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{value.dtype} {value.shape} {_digest(value.tobytes()).hex()}"
    if isinstance(value, np.generic | np.dtype | types.Type):
        return repr(value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return value.__name__
    raise TypeError(
        f"A kernel that is stored cannot close over a value of {type(value)}, which has no lasting text."
    )


def _text_of_options(options: Mapping[str, Any]) -> str:
    """Return options of Numba as text. The flags of fastmath are a set, whose order differs between processes."""
    lasting = {k: sorted(v) if isinstance(v, set | frozenset) else v for k, v in options.items()}
    return str(sorted(lasting.items()))


def _text_of_globals(function: FunctionType, seen: frozenset[int]) -> dict[str, str]:
    """Return the present values of the global names in a function, those that have a lasting text."""
    names: set[str] = set()
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        names |= set(code.co_names)
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
    texts = {}
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        items = [(name, value)]
        if isinstance(value, ModuleType):
            path = _file_of(value.__name__)
            inside = [] if path is None or _is_library(path) else sorted(names)
            items = [(f"{name}.{part}", getattr(value, part)) for part in inside if hasattr(value, part)]
        for key, item in items:
            with suppress(TypeError):  # a class, for example, for which its source file stands
                texts[key] = text_of(item, seen)
    return texts


@cache
def _closure_digest(module: str, name: str) -> str | None:
    closure = closure_of(module, name)
    return None if closure is None else _digest(json.dumps(sorted(closure.items())).encode()).hex()


@cache
def _machine() -> str:
    """Return what all kernels of this process depend on: the processor, Numba's settings and the versions."""
    libraries = " ".join(f"{name} {version(name)}" for name in ("numba", "llvmlite", "numpy"))
    settings = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith("NUMBA_") and not name.endswith(("_DIR", "_NUM_THREADS", "_LAYER", "_CUDASIM"))
    }
    width = os.environ.get(VECTOR_BYTES_VARIABLE, "")
    return f"{platform.machine()} {cpu_name()} {width} {settings} {sys.version} {libraries}"


# ---- the files of a function ----


class KernelFiles:
    """The kernels of one function on disk: the object that Numba's caches call to load and to save."""

    def __init__(self, function: FunctionType, options: Any, dump: Callable[[Any], bytes]) -> None:
        """Take the function, the options that it is compiled with, and the function that pickles its kernels."""
        self._function, self._options, self._dump = function, _text_of_options(options), dump
        name = f"{(function.__module__ or '').rpartition('.')[2]}.{function.__qualname__}"
        self.name = name.replace("<", "").replace(">", "").encode()[:120].decode(errors="ignore")

    def about(self) -> str:
        """Return a digest of what all kernels of the function depend on; "" if they cannot be kept."""
        if self._function.__module__ is None:
            return ""
        with suppress(LookupError):
            return _digest(f"{_machine()} {self._options} {text_of(self._function)}".encode()).hex()
        return ""

    def _path(self, key: Any) -> Path | None:
        about = self.about()
        signature, *further = key
        types = [(str(kind), getattr(kind, "fields", "")) for kind in getattr(signature, "args", signature)]
        if not about or " at 0x" in str(types):  # an address, which no other process has
            return None
        digest = _digest(f"{about} {types} {further}".encode()).hex()
        return kernel_folder() / f"{self.name}-{digest}{SUFFIX}"

    def load(self, key: Any) -> Any:
        """Return the kernel of a key: argument types, target and more of Numba's; None if there is none."""
        path = self._path(key)
        if path is None:
            return None
        content = read_shared(path.name)
        if content is not None:
            if _is_whole(content):
                return _unpickle(content, key) or self._load_own(path, key)
            warn_of_shared(f"some shared kernels in {shared_folder()[0]}", "they are damaged")
        return self._load_own(path, key)

    def _load_own(self, path: Path, key: Any) -> Any:
        try:
            content = _read(path)
        except FileNotFoundError:
            _say(logging.INFO, f"compiling kernels once, for up to minutes; they stay in {path.parent}.")
            return None
        except OSError as error:
            why = error.strerror or error
            _say(logging.WARNING, f"kernels in {path.parent} cannot be read ({why}) and are compiled again.")
            return None
        if not _is_whole(content):
            _say(logging.WARNING, f"compiled kernels in {path.parent} are damaged and are compiled again.")
            return None
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - DAY:
                os.utime(path)  # it is in use
        return _unpickle(content, key)

    def save(self, key: Any, kernel: Any) -> None:
        """Keep the kernel of a key. Where it cannot be written, warn and continue with the kernel in memory."""
        path = self._path(key)
        if path is not None:
            body = self._dump((key, kernel))
            _compiled.add()
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                _replace(path, body + _digest(body))
            except OSError as error:
                _say(
                    logging.WARNING,
                    f"compiled kernels cannot be stored in {path.parent} ({error.strerror or error}). The next run "
                    "compiles them again.",
                )


def _is_whole(content: bytes) -> bool:
    return _digest(content[:-_DIGEST_BYTES]) == content[-_DIGEST_BYTES:]


def _unpickle(content: bytes, key: Any) -> Any:
    """Return the kernel in a file, None if it is not that of the key."""
    try:
        kept_key, kernel = pickle.loads(content[:-_DIGEST_BYTES])
    except Exception:  # its module cannot be imported by its name here, or no longer has what it had
        return None
    return kernel if kept_key == key else None


def _read(path: Path) -> bytes:
    """Return what a file of the cache holds. Files in NUMBA_CACHE_DIR are trusted, whoever owns them."""
    return read_regular(path) if os.environ.get("NUMBA_CACHE_DIR") else read_kept_bytes(path)


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, which all may read and this user alone may write, whatever the umask."""
    new = path.with_name(f".{uuid.uuid4().hex}.new")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(content)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@cache  # once is enough; the log of ranks other than the first is silent
def _say(level: int, words: str) -> None:
    log.log(level, "%s", words)


def keep_kernels(dispatcher: Any, base: Any, dump: Callable[[Any], bytes]) -> None:
    """Make a dispatcher of Numba or numba-cuda keep what it compiles, one process of this host at a time.

    Parameters
    ----------
    dispatcher
        The dispatcher, which has compiled nothing yet and was made without `cache=True`.
    base
        The class of the caches of its kind: FunctionCache or CUDACache.
    dump
        The function that pickles the kernels of its kind.
    """
    for cell in dispatcher.py_func.__closure__ or ():
        # Check now, while the declaration is in the traceback. A file that has changed or an empty cell is not an
        # error: the kernel is then not kept, or gets its key when it is compiled.
        with suppress(LookupError, ValueError):
            text_of(cell.cell_contents)
    dispatcher._cache = _cache_class(base)(dispatcher, dump)
    dispatcher.compile = partial(_compile_exclusively, dispatcher._cache, dispatcher.compile)


@cache
def _cache_class(base: Any) -> Any:
    """Return a subclass of one of Numba's cache classes that keeps its kernels in `KernelFiles`."""

    class Locator:
        """What Numba needs to know about the place of a function's kernels; `KernelFiles` decides it."""

        def __init__(self, function: FunctionType, file: str) -> None:
            self._py_file = file

        from_function = classmethod(lambda cls, function, file: cls(function, file))
        ensure_cache_path = get_source_stamp = get_disambiguator = lambda self: None
        get_cache_path = staticmethod(lambda: str(kernel_folder()))

    class KernelCache(base):  # type: ignore[misc]  # Numba has no types
        """The kernels of one function."""

        _impl_class = type("Implementation", (base._impl_class,), {"_locator_classes": [Locator]})

        def __init__(self, dispatcher: Any, dump: Callable[[Any], bytes]) -> None:
            super().__init__(dispatcher.py_func)
            self._cache_file = self.files = KernelFiles(dispatcher.py_func, dispatcher.targetoptions, dump)

        def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
            return sig, codegen.magic_tuple(), getattr(self, "_launch_config_key", None)

    return KernelCache


class KernelBusyError(Exception):
    """Another process of this host is compiling the kernel."""


@contextmanager
def refusing_busy_kernels() -> Iterator[None]:
    """Let the next compilation raise KernelBusyError where it would wait for another process."""
    before = _refuses.set(True)
    try:
        yield
    finally:
        _refuses.reset(before)


_refuses: ContextVar[bool] = ContextVar("refuses", default=False)


def _compile_exclusively(kernels: Any, compile: Callable[[Any], Any], signature: Any) -> Any:
    """Compile a kernel or load it, while other processes of this host that want the same function wait."""
    from numba.core.compiler_lock import global_compiler_lock

    # In this order, because Numba's lock is already held where a kernel that is being compiled calls another one.
    with global_compiler_lock, _lock(kernels.files, signature):
        return compile(signature)


# ---- the lock ----


@contextmanager
def _lock(files: KernelFiles, signature: Any) -> Iterator[None]:
    """Keep other processes of this host from compiling the same kernel; after 2 s of waiting, say for what.

    The lock is one byte of a file, at a place that the kernel's digest chooses. Different hosts that share a cache do
    not wait for each other, and where files cannot be locked no process waits.
    """
    about = files.about()
    file = _lock_file(kernel_folder() / f"{platform.node()}.lock") if about else None
    if file is None:
        yield
        return
    place = int.from_bytes(_digest(f"{about} {signature}".encode())[:7])
    # Kernels that this one calls are waited for.
    refuses = _refuses.get()
    _refuses.set(False)
    begin, silent = time.monotonic(), True
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            break
        except BlockingIOError:
            if refuses:
                raise KernelBusyError from None
            time.sleep(_POLL)
        except OSError:
            break
        if silent and time.monotonic() - begin > _SILENT:
            silent = False
            query = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
            *_, holder = struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_GETLK, query))
            process = f"process {holder} of {platform.node()}"
            log.info(
                "waiting for %s, which is compiling the kernel %s (lock: %s).", process, files.name, file.name
            )
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


@cache
def _lock_file(path: Path) -> IO[bytes] | None:
    """Return a file to lock, open until this process ends; None if it cannot be created."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "ab", opener=open_kept)
    return None
