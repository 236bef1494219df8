"""The kernel cache: which machine code is kept between processes, under which key, where, and for how long.

Each compiled kernel is one file. Its name holds a digest of everything that the machine code depends on: the text of
the source file that declares the kernel and of all files that this one imports, directly or not; the code and the
closure of the function itself; its options and the types of its arguments; the processor, and the versions of Python,
Numba and the other libraries. An edit therefore recompiles the kernels of the edited file and of the files that
import it, and no others; a stale kernel cannot be found; and two checkouts with the same sources share their kernels.

The import closure is read with `ast`. What a file imports, and the digest of its text, are remembered in
`sources.json` beside the kernels for as long as the modification time and the size of the file stay the same.
A file that has changed since this process began may differ from what the process has imported, so the kernels that
depend on it are compiled but not kept.

The kernels are run as they are, so the folder must be private (`runtime.private_folder`), and every file ends with a
digest of its content: a file that is damaged, or was cut off by a full disk or a crash, counts as missing. Files are
replaced atomically. Processes of one host that need the same kernel wait for the first of them to compile it.
This module must be importable before Numba is.
"""

from __future__ import annotations

import ast
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
import sysconfig
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType, FunctionType
from typing import IO, Any, NamedTuple

from ridgeline.runtime.launcher import speaks
from ridgeline.runtime.machine import cpu_name
from ridgeline.runtime.private_folder import private_folder

log = logging.getLogger(__name__)

# Narrower vectors than the processor has, to compare widths: 16, 32 or 64.
VECTOR_BYTES_VARIABLE = "RIDGELINE_VECTOR_BYTES"
KEPT_SECONDS = 30 * 86400.0  # since a kernel was used last
KEPT_BYTES = 2 * 1024**3  # of all kernels together

_DAY = 86400.0
_DIGEST_BYTES = 16
_PACKAGE = Path(__file__).parents[1]
_POLL = 0.05  # seconds between two attempts to take a lock that another process holds
_SILENT = 2.0  # seconds of waiting before a message says for whom
_SUFFIX = ".kernel"


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


# ---- the import closure ----


class SourceFile(NamedTuple):
    """What is remembered of a source file: when it changed last and its size, its digest, and what it imports."""

    stamp: list[int]
    digest: str
    imports: list[str]  # absolute dotted names, of modules or of names in modules


def closure_of(file: Path, module: str) -> dict[str, str] | None:
    """Return the digest of every file that a source file imports, directly or not, and of the file itself, by name.

    Modules of the package that the file belongs to, of Ridgeline, and modules outside the installed libraries are
    followed, late imports included, imports for type checkers alone not. A library is represented by its version.

    Parameters
    ----------
    file
        The source file.
    module
        Its dotted name, which says where the package begins that it belongs to.

    Returns
    -------
    dict or None
        None if there is no such file, or one of the files has changed since this process began.
    """
    depth = module.count(".")
    root = (
        file.parent
        if file.with_suffix("").parts[-depth - 1 :] != tuple(module.split("."))
        else file.parents[depth]
    )
    own = module.partition(".")[0]
    found: dict[str, str] = {}
    ahead = [(file, root)]
    while ahead:
        path, root = ahead.pop()
        name = path.relative_to(root).as_posix()
        if name in found or path == Path(__file__):
            continue  # this file stores kernels, and nothing of it is compiled into them
        source = _source(path)
        if source is None:
            return None
        found[name] = source.digest
        package = ".".join(path.relative_to(root).parts[:-1])
        for imported in source.imports:
            if imported.startswith("."):
                imported = _absolute(imported, package)
            top = imported.partition(".")[0]
            place = root if top == own else _root_of(top, root)
            if isinstance(place, str):
                found[top] = place
            elif place is not None:
                ahead += [(other, place) for other in _files_of(imported, place)]
    return found


@cache
def _source(path: Path) -> SourceFile | None:
    """Return what is known of a source file; None if it is missing or has changed since this process began."""
    try:
        facts = path.stat()
        stamp = [facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size]
        if max(stamp[:2]) > _began():
            return None
        remembered = _remembered()
        known = remembered.get(str(path))
        if known is None or known.stamp != stamp:
            text = path.read_bytes()
            known = SourceFile(stamp, _digest(text).hex(), sorted(_imports(ast.parse(text))))
            remembered[str(path)] = known
            _write_at_exit()
    except (OSError, SyntaxError, ValueError):
        return None
    return known


def _imports(tree: ast.AST) -> set[str]:
    """Return the dotted names that a module imports; those of a relative import begin with its dots."""
    names: set[str] = set()
    ahead: list[ast.AST] = [tree]
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            joined = module if module.endswith(".") else f"{module}."
            names |= {module, *(f"{joined}{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            ahead += node.orelse
        else:
            ahead += ast.iter_child_nodes(node)
    return names


def _absolute(imported: str, package: str) -> str:
    """Return the absolute name of a relative import that stands in a module of a package."""
    name = imported.lstrip(".")
    up = len(imported) - len(name) - 1
    parents = package.split(".")[: len(package.split(".")) - up]
    return ".".join([*parents, name] if name else parents)


@cache
def _root_of(top: str, beside: Path) -> Path | str | None:
    """Return the folder that holds a top-level module; the version of a library; None for what belongs to Python.

    beside: the root of the file that imports it, which is searched first.
    """
    if top == _PACKAGE.name:
        return _PACKAGE.parent
    if top in sys.stdlib_module_names:
        return None
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    for folder in (beside, *(Path(folder).resolve() for folder in sys.path)):
        if (folder / f"{top}.py").is_file() or (folder / top).is_dir():
            if str(folder) not in installed:
                return folder
            break
    try:
        return version(top)
    except PackageNotFoundError:  # its distribution has another name
        return str(getattr(sys.modules.get(top), "__version__", ""))


@cache
def _files_of(name: str, root: Path) -> list[Path]:
    """Return the files that a dotted name may stand for: a module, a package, or a name in one of them."""
    base = root.joinpath(*name.split("."))
    return [path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()]


@cache
def _began() -> float:
    """Return when this process began, in ns of the clock that files are stamped with."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    # The next tick: no module can have been imported earlier.
    return time.time_ns() - since_boot + (ticks + 1) * 1e9 / os.sysconf("SC_CLK_TCK")


@cache
def _remembered() -> dict[str, SourceFile]:
    """Return what earlier processes found out about source files, by path."""
    with suppress(OSError, ValueError, TypeError):
        kept = json.loads((kernel_folder() / "sources.json").read_text())
        return {path: SourceFile(*facts) for path, facts in kept.items()}
    return {}


@cache
def _write_at_exit() -> None:
    """Keep what is known of source files for later processes, when this one ends."""
    folder = kernel_folder()

    def write() -> None:
        kept = {path: source for path, source in _remembered().items() if os.path.exists(path)}
        with suppress(OSError):
            _replace(folder / "sources.json", json.dumps(kept).encode())

    if speaks():
        atexit.register(write)


# ---- the key of a function ----


def text_of(value: Any) -> str:
    """Return what a value reads like in every process: a function, its sources, its code and what it closes over.

    Raises
    ------
    TypeError
        For anything but functions, compiled ones, numbers, strings, dtypes, types and tuples of them.
    LookupError
        If the sources of a function are not known; see `closure_of`.
    """
    value = getattr(value, "py_func", value)
    if isinstance(value, FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        inner = {name: text_of(cell.cell_contents) for name, cell in cells}
        sources: str | None = ""
        # What `eval` made has no module. It names what the file gives it that closes over it.
        if value.__module__ is not None:
            sources = _closure_digest(Path(value.__code__.co_filename), value.__module__)
        if sources is None:
            raise LookupError(value.__code__.co_filename)
        return f"{value.__module__}.{value.__qualname__} {sources} {text_of(value.__code__)} {inner}"
    if isinstance(value, CodeType):
        return f"{value.co_code.hex()} {value.co_names} {text_of(value.co_consts)}"
    if isinstance(value, tuple):
        return f"({', '.join(map(text_of, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(text_of, value)))}}}"
    if value is None or value is Ellipsis or isinstance(value, int | float | complex | str | bytes):
        return repr(value)
    import numpy as np
    from numba import types

    if isinstance(value, np.generic | np.dtype | types.Type):
        return repr(value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return value.__name__
    raise TypeError(
        f"a kernel that is kept cannot close over a value of {type(value)}, which has no lasting text"
    )


@cache
def _closure_digest(file: Path, module: str) -> str | None:
    found = closure_of(file, module)
    return None if found is None else _digest(json.dumps(sorted(found.items())).encode()).hex()


@cache
def _machine() -> str:
    """Return what all kernels of this process depend on: the processor, and the versions of what compiles."""
    libraries = " ".join(f"{name} {version(name)}" for name in ("numba", "llvmlite", "numpy"))
    return f"{platform.machine()} {cpu_name()} {os.environ.get(VECTOR_BYTES_VARIABLE, '')} {sys.version} {libraries}"


# ---- the files of a function ----


class KernelFiles:
    """The kernels of one function on disk: what Numba's caches call to load and to save."""

    def __init__(self, function: FunctionType, options: Any, dump: Callable[[Any], bytes]) -> None:
        """Take the function, the options that it is compiled with, and what pickles its kernels."""
        self._function, self._options, self._dump = function, options, dump
        name = f"{(function.__module__ or '').rpartition('.')[2]}.{function.__qualname__}"
        self.name = name.replace("<", "").replace(">", "")[:120]

    def about(self) -> str:
        """Return a digest of all that the kernels of the function share; "" if they cannot be kept."""
        if self._function.__module__ is None:
            return ""
        with suppress(LookupError):
            return _digest(f"{_machine()} {self._options} {text_of(self._function)}".encode()).hex()
        return ""

    def _path(self, key: Any) -> Path | None:
        about = self.about()
        if not about:
            return None
        return kernel_folder() / f"{self.name}-{_digest(f'{about} {key}'.encode()).hex()}{_SUFFIX}"

    def load(self, key: Any) -> Any:
        """Return the kernel of a key: argument types, target and more of Numba's; None if there is none."""
        path = self._path(key)
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _say_damaged(path.parent, f"cannot be read ({error.strerror})")
            return None
        body = content[:-_DIGEST_BYTES]
        if _digest(body) != content[-_DIGEST_BYTES:]:
            _say_damaged(path.parent, "are damaged")
            return None
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _DAY:
                os.utime(path)  # it is in use
        try:
            kept_key, kernel = pickle.loads(body)
        except (ImportError, AttributeError):  # the function's module cannot be imported by its name here
            return None
        return kernel if kept_key == key else None

    def save(self, key: Any, kernel: Any) -> None:
        """Keep the kernel of a key. Where the disk takes no more, say so and continue with the kernel in memory."""
        path = self._path(key)
        if path is not None:
            body = self._dump((key, kernel))
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                _replace(path, body + _digest(body))
            except OSError as error:
                _say_not_kept(path.parent, error.strerror or str(error))


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    new = path.with_name(f".{uuid.uuid4().hex}.new")
    try:
        new.write_bytes(content)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


# Once is enough; ranks other than the first are silent.
@cache
def _say_damaged(folder: Path, what: str) -> None:
    log.warning("compiled kernels in %s %s; they are compiled again", folder, what)


@cache
def _say_not_kept(folder: Path, why: str) -> None:
    log.warning("compiled kernels cannot be kept in %s (%s); the next run compiles them again", folder, why)


def keep_kernels(dispatcher: Any, base: Any, dump: Callable[[Any], bytes]) -> None:
    """Keep what a dispatcher of Numba or numba-cuda compiles, one process of this host at a time.

    Parameters
    ----------
    dispatcher
        The dispatcher, which has compiled nothing yet and was made without `cache=True`.
    base
        The class of the caches of its kind: FunctionCache or CUDACache.
    dump
        What pickles the kernels of its kind.
    """
    dispatcher._cache = _cache_class(base)(dispatcher, dump)
    dispatcher.compile = partial(_compile_alone, dispatcher._cache, dispatcher.compile)


@cache
def _cache_class(base: Any) -> Any:
    """Return a class of caches that keeps kernels in `KernelFiles`, and everything else as Numba has it."""

    class Locator:
        """What Numba asks of the place of a function's kernels, which `KernelFiles` knows alone."""

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


def _compile_alone(kernels: Any, compile: Callable[[Any], Any], signature: Any) -> Any:
    """Compile a kernel or load it, while other processes of this host that want the same function wait."""
    from numba.core.compiler_lock import global_compiler_lock

    # In this order: Numba's lock is held where a kernel that is being compiled calls another.
    with global_compiler_lock, _lock(kernels.files):
        return compile(signature)


# ---- folder and its lock ----


def kernel_folder() -> Path:
    """Return the folder that kernels are kept in, which it makes if it is missing.

    NUMBA_CACHE_DIR, if set, is taken as it is: its owner answers for who can write there. Otherwise it is `kernels`
    in the user's cache directory, as `private_folder` says, and kernels that have not been used for long are deleted.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return (
        Path(chosen)
        if chosen
        else _own_folder(*map(os.environ.get, ("RIDGELINE_CACHE_DIR", "XDG_CACHE_HOME")))
    )


@cache
def _own_folder(*environment: str | None) -> Path:
    folder = private_folder("kernels")
    if speaks():
        delete_old_kernels(folder)
    return folder


def delete_old_kernels(folder: Path) -> None:
    """Delete kernels that have not been used for 30 days, and those used least lately beyond 2 GiB; once a day.

    What earlier versions kept in folders of their own goes after 30 days too. A process that is about to load a
    deleted kernel compiles it again.
    """
    mark, now = folder / "cleaned", time.time()
    with suppress(OSError):
        if mark.exists() and now - mark.stat().st_mtime < _DAY:
            return
        mark.touch(mode=0o600)
        os.utime(mark)
        paths = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
        facts = {path: path.lstat() for path in paths if path != mark}
        total = 0
        for path in sorted(facts, key=lambda path: facts[path].st_mtime, reverse=True):
            total += facts[path].st_size
            is_kernel = path.suffix == _SUFFIX
            if now - facts[path].st_mtime > KEPT_SECONDS or (is_kernel and total > KEPT_BYTES):
                path.unlink(missing_ok=True)
        for parent, folders, _ in os.walk(folder, topdown=False):
            for name in folders:
                with suppress(OSError):  # it is not empty
                    Path(parent, name).rmdir()


@contextmanager
def _lock(files: KernelFiles) -> Iterator[None]:
    """Keep other processes of this host from compiling one function meanwhile; after 2 s say what it waits for.

    The lock is one byte of a file, at a place that the function's digest chooses. The hosts that share a cache are
    not kept apart, and where files cannot be locked nobody is.
    """
    about = files.about()
    file = _lock_file(kernel_folder() / f"{platform.node()}.lock") if about else None
    if file is None:
        yield
        return
    place = int(about[:14], 16)
    begin, silent = time.monotonic(), True
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            break
        except BlockingIOError:
            time.sleep(_POLL)
        except OSError:
            break
        if silent and time.monotonic() - begin > _SILENT:
            silent = False
            asked = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
            *_, holder = struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_GETLK, asked))
            who = f"process {holder} of {platform.node()}"
            log.warning("waiting for %s, which compiles the kernel %s (lock: %s)", who, files.name, file.name)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


@cache
def _lock_file(path: Path) -> IO[bytes] | None:
    """Return a file to lock, open until this process ends; None if it cannot be made."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab")
    return None
