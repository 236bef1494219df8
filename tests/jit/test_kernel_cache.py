"""The kernel cache finds what was compiled from the same sources, never what was compiled from others."""

import gc
import importlib
import logging
import os
import pkgutil
import random
import signal
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from posixpath import join
from types import CellType, FunctionType
from typing import Any

import numba
import pytest
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

import ridgeline
from ridgeline.jit import kernel_cache
from ridgeline.jit.kernel import compile_kernels, kernel, sharing_kernels, specialise
from ridgeline.jit.kernel_cache import KernelFiles, closure_of, keep_kernels
from ridgeline.jit.kernel_folders import KEPT_BYTES, KEPT_SECONDS, delete_old_kernels, kernel_folder
from ridgeline.jit.source_parts import SourcePart
from ridgeline.runtime.signals import SignalCatcher, StoppedError, stops_at_once

PACKAGE = Path(ridgeline.__file__).parent
FACTORS = (1.0,)
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "short": lambda content: content[:10],
    "cut": lambda content: content[: len(content) // 2],
    "zeroed": lambda content: bytes(len(content)),
    "garbage": lambda content: random.Random(1).randbytes(len(content)),
    "one bit": lambda content: content[:-30] + bytes([content[-30] ^ 1]) + content[-29:],
    "longer": lambda content: content + b"more",
}

# A kernel whose function, constant and generator of LLVM IR are each two imports away.
TOY = {
    "constants.py": "TWO = 2\n",
    "physics.py": (
        "from ridgeline.jit.kernel import subroutine\nfrom toy.constants import TWO\n"
        "@subroutine\ndef rate(u):\n    return TWO * u\n"
    ),
    # A class, which nothing but its source file shows.
    "emit.py": (
        "from llvmlite import ir\nclass Emitter:\n    def add(self, builder, a, b):\n"
        "        return builder.fadd(a, b)\nclass Unused:\n    size = 1\n"
    ),
    "operators.py": (
        "from numba.extending import intrinsic\nfrom toy.emit import Emitter\n"
        "@intrinsic\ndef plus(typing, a, b):\n"
        "    return a(a, b), lambda context, builder, signature, args: Emitter().add(builder, *args)\n"
        "def unused():\n    from toy import unused\n    return unused.HALF\n"
    ),
    "unused.py": "HALF = 0.5\n",
    "registry.py": "def register(function):\n    return function\n",
    "registered.py": "from toy.registry import register\n@register\ndef three():\n    return 3\n",
    "terms.py": (
        "from toy.physics import rate\nfrom ridgeline.jit.kernel import subroutine\nimport toy.registered\n"
        "@subroutine\ndef term(u):\n    return rate(u) + 1\n"
    ),
    "sweep.py": (
        "from typing import TYPE_CHECKING\nfrom numba import float64\nfrom ridgeline.jit.kernel import kernel\n"
        "from toy import terms, operators\nterm, plus = terms.term, operators.plus\n"
        "if TYPE_CHECKING:\n    from toy.types import Case\n"
        "@kernel((float64,))\ndef sweep(u):\n    return plus(term(u), 0.5)\n"
    ),
    "other.py": (
        "from numba import float64\nfrom ridgeline.jit.kernel import kernel\nfrom toy.constants import TWO\n"
        "@kernel((float64,))\ndef other(u):\n    return TWO * u\n"
    ),
    "types.py": "class Case:\n    pass\n",
    "__init__.py": "",
}
TOY_MODULES = {name.removesuffix(".py") for name in TOY}
USE = (
    "from toy.sweep import sweep\nfrom toy.other import other\n"
    "print(sweep(3.0), other(3.0), *(sum(k.stats.cache_misses.values()) for k in (sweep, other)))"
)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    folder = tmp_path / "sources" / "toy"
    folder.mkdir(parents=True)
    for name, text in TOY.items():
        (folder / name).write_text(text)
    return folder


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_an_edit_compiles_what_depends_on_it_again_and_nothing_else(toy: Path, tmp_path: Path) -> None:
    def use(folder: Path = toy) -> tuple[float, float, int, int]:
        """Return what the two kernels compute in a new process, and how many kernels of each it compiled."""
        environment = os.environ | {
            "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": str(folder.parent),
        }
        environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", USE], env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return tuple(map(float, done.stdout.split()))  # type: ignore[return-value]

    assert use() == (7.5, 6.0, 1, 1)
    assert use() == (7.5, 6.0, 0, 0)
    edit(toy / "physics.py", "TWO * u", "TWO * u * u")
    assert use() == (19.5, 6.0, 1, 0), "a function that is two imports away"
    edit(toy / "constants.py", "2", "3")
    assert use() == (28.5, 9.0, 1, 1), "a constant, which both kernels take"
    edit(toy / "emit.py", "fadd", "fsub")
    assert use() == (27.5, 9.0, 1, 0), "a class that makes LLVM IR"
    edit(toy / "registered.py", "3", "4")
    assert use() == (27.5, 9.0, 1, 0), "something that an import may have registered with Numba"
    edit(toy / "registry.py", "return", "function.known = True\n    return")
    assert use() == (27.5, 9.0, 1, 0), "what registers it"
    edit(toy / "emit.py", "size = 1", "size = 2")
    edit(toy / "unused.py", "0.5", "0.25")
    edit(toy / "physics.py", "@subroutine", "# A comment.\ndef unused():\n    return 5\n\n\n@subroutine")
    assert use() == (27.5, 9.0, 0, 0), "other parts of files that the kernels need"
    edit(toy / "terms.py", "def term(u):", 'def term(u):\n    """Return a term."""')
    edit(toy / "types.py", "class", "# no kernel depends on this\nclass")
    assert use() == (27.5, 9.0, 1, 0), "a docstring"
    copy = tmp_path / "checkout" / "toy"
    copy.parent.mkdir()
    toy.rename(copy)
    assert use(copy) == (27.5, 9.0, 0, 0), "the same sources in another place"


def test_a_closure_holds_what_a_file_imports_and_the_versions_of_libraries(toy: Path, monkeypatch) -> None:
    monkeypatch.setattr(kernel_cache, "_PROCESS_START", float("inf"))
    monkeypatch.syspath_prepend(str(toy.parent))
    (toy / "late.py").write_text("half = 0.5\n")
    edit(
        toy / "sweep.py",
        "    return",
        "    from .late import half\n    import json, scipy.special\n    return",
    )
    found = closure_of("toy.sweep")
    assert found is not None
    ours = {
        "toy",
        *(f"toy.{name}" for name in TOY_MODULES - {"other", "types", "__init__"}),
        "toy.late",
    }
    assert {name for name in found if name.startswith("toy")} == ours
    assert found["scipy"] == importlib.metadata.version("scipy")
    assert "json" not in found
    (toy / "sub").mkdir()
    (toy / "sub" / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\nfrom ..physics import rate\nif not TYPE_CHECKING:\n    import toy.late\n"
    )
    inside = closure_of("toy.sub")
    assert inside is not None
    assert {"toy", "toy.sub", "toy.physics", "toy.constants", "toy.late"} <= set(inside)
    # kernel.py puts nothing into a kernel and is therefore left out.
    assert {name for name in found if name.startswith("ridgeline")} == {"ridgeline.jit"}
    needed = closure_of("toy.operators", "plus")
    assert needed is not None
    assert {name for name in needed if name.startswith("toy")} == {"toy.operators", "toy.emit"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kernel_cache._say.cache_clear()
    return tmp_path


def twice(x):
    return 2 * x


def hits() -> int:
    """Return how often a new run of `twice` finds its kernel in the cache: 1 or 0."""
    compiled = numba.njit(twice)
    keep_kernels(compiled, FunctionCache, dumps)
    assert compiled(21) == 42
    return sum(compiled.stats.cache_hits.values())


def test_options_closures_types_and_the_width_of_vectors_are_part_of_the_key(cache, monkeypatch) -> None:
    def make(factor, **options):
        return kernel((numba.float64,), **options)(lambda x: factor * x)

    makers = [lambda: make(2.0), lambda: make(3.0), lambda: make(2), lambda: make(2.0, fastmath=True)]
    assert [maker()(2.0) for maker in makers] == [4.0, 6.0, 4.0, 4.0]
    assert len(list(cache.glob("*.kernel"))) == 4
    make(2.0)
    assert len(list(cache.glob("*.kernel"))) == 4
    monkeypatch.setenv(kernel_cache.VECTOR_BYTES_VARIABLE, "16")
    kernel_cache._machine.cache_clear()
    make(2.0)
    kernel_cache._machine.cache_clear()
    assert len(list(cache.glob("*.kernel"))) == 5


def test_defaults_options_and_globals_of_what_a_kernel_calls_are_part_of_its_key(cache, monkeypatch) -> None:
    def make(factor, error_model):
        @numba.njit(error_model=error_model)
        def rate(u, factor=factor):
            return factor / u

        return kernel((numba.float64,))(lambda u: rate(u) * FACTORS[0])

    assert [make(factor, "numpy")(2.0) for factor in (2.0, 7.0)] == [1.0, 3.5]
    assert make(2.0, "numpy")(0.0) == float("inf")
    with pytest.raises(ZeroDivisionError):
        make(2.0, "python")(0.0)
    monkeypatch.setitem(globals(), "FACTORS", (3.0,))
    assert make(2.0, "numpy")(2.0) == 3.0, "a global that a program sets"


def test_functions_of_python_itself_count_by_their_name() -> None:
    """A formula's function names one that suggests words. Other code without a file has no lasting text."""

    def suggest(word):
        return get_close_matches(word, [join("a", word)])

    def call(word):
        return suggest(word)

    text = kernel_cache.text_of(call)
    assert "difflib.get_close_matches" in text
    assert "posixpath.join" in text
    typed = FunctionType((lambda: 1).__code__, {"__name__": "typed_at_a_prompt"})
    with pytest.raises(LookupError):
        kernel_cache.text_of(FunctionType(call.__code__, globals(), closure=(CellType(typed),)))


def test_a_kernel_has_the_same_key_in_every_process() -> None:
    """Flags of fastmath are a set of strings, which each process hashes in its own way."""
    code = (
        "from ridgeline.jit.kernel_cache import KernelFiles; from ridgeline.jit import stream_kernels as stream; "
        "print([KernelFiles(stream._dot.py_func, one.targetoptions, None).about() for one in (stream._dot, "
        "stream._dot_blocks)])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_the_fields_of_an_argument_are_part_of_the_key(cache) -> None:
    def first_of(fields):
        pair = namedtuple("Pair", fields)
        compiled = numba.njit(lambda pair: pair.a)
        keep_kernels(compiled, FunctionCache, dumps)
        return compiled(pair(1.0, 2.0))

    assert [first_of("a b"), first_of("b a")] == [1.0, 2.0]


def test_a_kernel_that_no_other_process_could_find_is_not_kept(cache) -> None:
    compiled = numba.njit(lambda function, x: function(x))
    keep_kernels(compiled, FunctionCache, dumps)
    assert compiled(numba.njit(twice), 2) == 4
    assert not list(cache.glob("*.kernel"))


@pytest.mark.parametrize(
    "content", ["", "[]", "null", "7", '{"a": 3}', '{"a": [[1, 2, 3], "b", 4]}', "[" * 10**5]
)
def test_a_damaged_memory_of_sources_is_none(content, cache) -> None:
    (cache / "sources.json").write_text(content)
    kernel_cache._remembered.cache_clear()
    assert kernel_cache._remembered() == {}
    kernel_cache._remembered.cache_clear()


def test_code_without_a_module_counts_by_its_text_and_is_not_kept_by_itself(cache) -> None:
    def make(text):
        inner = numba.njit(eval(text, {"__builtins__": {}}))
        return kernel((numba.float64,))(lambda x: inner(x) + 1)

    assert [make(text)(2.0) for text in ("lambda x: x", "lambda x: x * x", "lambda x: x")] == [3.0, 5.0, 3.0]
    assert len(list(cache.glob("*.kernel"))) == 2
    assert kernel((numba.float64,))(eval("lambda x: x + x", {"__builtins__": {}}))(2.0) == 4.0
    assert len(list(cache.glob("*.kernel"))) == 2


def test_a_file_that_changed_since_the_process_began_keeps_no_kernel(cache, monkeypatch) -> None:
    monkeypatch.setattr(kernel_cache, "_PROCESS_START", 0.0)
    for function in (kernel_cache._source, kernel_cache._closure_digest, kernel_cache._file_of):
        function.cache_clear()
    assert [hits(), hits()] == [0, 0]
    inner = numba.njit(twice)
    assert kernel((numba.int64,))(lambda x: inner(x))(2) == 4, (
        "one that closes over a function of such a file"
    )
    assert not list(cache.glob("*.kernel"))
    for function in (kernel_cache._source, kernel_cache._closure_digest, kernel_cache._file_of):
        function.cache_clear()
    monkeypatch.undo()
    assert Path(__file__).stat().st_mtime_ns < kernel_cache._PROCESS_START < time.time_ns()


def test_what_is_remembered_of_a_file_holds_for_its_time_and_size_alone(toy, monkeypatch) -> None:
    def parts() -> list[SourcePart]:
        kernel_cache._source.cache_clear()
        source = kernel_cache._source(toy / "terms.py")
        assert source is not None
        return source.parts

    monkeypatch.setattr(kernel_cache, "_PROCESS_START", float("inf"))
    remembered: dict = {}
    monkeypatch.setattr(kernel_cache, "_remembered", lambda: remembered)
    before, facts = parts(), (toy / "terms.py").stat()
    monkeypatch.setattr(kernel_cache, "parts_of", lambda text: [])
    assert parts() == before
    edit(toy / "terms.py", "+ 1", "+ 2")
    os.utime(toy / "terms.py", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert parts() == [], "of the same size and time of modification, but written later"
    kernel_cache._source.cache_clear()


def files_of(thing: Any, seen: set[int]) -> Iterator[Path]:
    """Yield the files of ours of a compiled function and of all functions that it names, compiled or not."""
    function = getattr(thing, "py_func", None) or getattr(thing, "_defn", thing)
    if id(function) in seen or not isinstance(function, FunctionType):
        return
    seen.add(id(function))
    path = Path(function.__code__.co_filename)
    if path.is_relative_to(PACKAGE):
        yield path
        named = [function.__globals__.get(name) for name in function.__code__.co_names]
        named += [cell.cell_contents for cell in function.__closure__ or () if cell != type(cell)()]
        for other in named:
            yield from files_of(other, seen)


def test_the_closure_of_every_kernel_holds_the_files_of_all_that_it_calls() -> None:
    for module in pkgutil.walk_packages([str(PACKAGE)], "ridgeline."):
        if "cuda" not in module.name and not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError:
                continue  # an optional library is not installed
    dispatchers = [thing for thing in gc.get_objects() if issubclass(type(thing), Dispatcher)]
    ours = [d.py_func for d in dispatchers if Path(d.py_func.__code__.co_filename).is_relative_to(PACKAGE)]
    assert len(ours) > 300
    for function in ours:
        closure = closure_of(function.__module__, function.__qualname__.partition(".")[0])
        assert closure is not None, f"{function.__module__} has changed since the tests began"
        called = {
            ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            for path in files_of(function, set())
        }
        assert called <= set(closure), function


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_compiled_again_and_replaced(damage, cache, caplog) -> None:
    assert [hits(), hits()] == [0, 1]
    (path,) = cache.glob("*.kernel")
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert [hits(), hits()] == [0, 1]
    assert len(caplog.records) == 1, "once"
    assert "damaged" in caplog.text
    assert str(cache) in caplog.text


def test_a_file_that_cannot_be_read_is_compiled_again(cache, caplog) -> None:
    hits()
    (path,) = cache.glob("*.kernel")
    path.unlink()
    path.mkdir()
    assert hits() == 0
    assert "cannot be read (Is a directory)" in caplog.text


def test_that_kernels_are_compiled_and_where_they_are_kept_is_said_once(cache, caplog) -> None:
    caplog.set_level("INFO")
    assert hits() == 0
    numba_kernel = kernel((numba.float64,))(lambda x: 3 * x)
    assert numba_kernel(2.0) == 6.0
    assert hits() == 1
    assert caplog.messages == [f"compiling kernels once, for up to minutes; they stay in {cache}."]


def test_a_full_disk_costs_the_next_run_a_compilation_and_not_this_one_its_end(
    cache, caplog, monkeypatch
) -> None:
    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(kernel_cache, "_replace", full)
        assert hits() == 0
    assert "cannot be stored" in caplog.text
    assert "No space left on device" in caplog.text
    assert [hits(), hits()] == [0, 1]


def test_a_writer_that_is_killed_leaves_nothing_under_the_name_of_a_kernel(cache) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "replace", lambda self, target: os.kill(os.getpid(), signal.SIGKILL))
        patched.setattr(Path, "unlink", lambda self, missing_ok: None)
        child = os.fork()
        if child == 0:
            KernelFiles(twice, {}, dumps).save((("float64",), "target"), "kernel")
            os._exit(0)  # not reached
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not list(cache.glob("*.kernel"))
    files = KernelFiles(twice, {}, dumps)
    key = (("float64",), "target")
    assert files.load(key) is None
    files.save(key, "kernel")
    assert files.load(key) == "kernel"
    assert files.load((("float32",), "target")) is None


def old_file(path: Path, days: float, size: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    used = time.time() - days * 86400
    os.utime(path, (used, used))
    return path


def test_kernels_not_used_for_long_are_deleted_and_the_rest_once_it_is_too_large(tmp_path: Path) -> None:
    large = [old_file(tmp_path / f"large{days}.kernel", days, KEPT_BYTES // 3) for days in range(1, 5)]
    young, old = (old_file(tmp_path / f"at{days}.kernel", days) for days in (0, KEPT_SECONDS / 86400 + 1))
    earlier = old_file(tmp_path / "py311-numba0.60-a-b-keyed" / "kernels_1" / "sweep.nbc", 31)
    link = tmp_path / "link.kernel"
    link.symlink_to(young)
    delete_old_kernels(tmp_path)
    assert [path.exists() for path in large] == [True, True, False, False]
    assert young.exists()
    assert not old.exists()
    assert not earlier.parent.parent.exists()
    late = old_file(tmp_path / "late.kernel", 40)
    delete_old_kernels(tmp_path)
    assert late.exists(), "looked at once a day"
    os.utime(tmp_path / "cleaned", (0, 0))
    delete_old_kernels(tmp_path)
    assert not late.exists()
    assert young.exists()
    delete_old_kernels(tmp_path / "missing")


def test_a_kernel_that_is_loaded_counts_as_used(cache) -> None:
    hits()
    (path,) = cache.glob("*.kernel")
    os.utime(path, (0, 0))
    assert hits() == 1
    assert path.stat().st_mtime > time.time() - 3600


def test_kernels_are_kept_where_the_environment_says(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "chosen"))
    assert kernel_folder() == tmp_path / "chosen"
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path))
    assert kernel_folder() == tmp_path / "kernels"
    assert (tmp_path / "kernels" / "cleaned").exists()


def place_of(dispatcher: Any, signature: Any) -> int:
    """Return which byte of the lock file is locked while a kernel is compiled."""
    return int.from_bytes(kernel_cache._digest(f"{dispatcher._cache.files.about()} {signature}".encode())[:7])


@pytest.fixture
def held(cache: Path) -> Iterator[subprocess.Popen]:
    """Let another process hold the lock on `twice` until its standard input is closed."""
    code = (
        "import fcntl, sys\nfile = open(sys.argv[1], 'ab')\nfcntl.lockf(file, fcntl.LOCK_EX, 1, int(sys.argv[2]))\n"
        "print('locked', flush=True)\nsys.stdin.read()"
    )
    compiled = numba.njit(twice)
    keep_kernels(compiled, FunctionCache, dumps)
    path, place = cache / f"{os.uname().nodename}.lock", place_of(compiled, (numba.int64,))
    command = [sys.executable, "-c", code, str(path), str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.communicate()


def test_a_process_waits_for_another_that_compiles_the_same_kernel(held, cache, monkeypatch, caplog) -> None:
    polls = iter(range(9))
    monkeypatch.setattr(
        kernel_cache.time, "sleep", lambda seconds: held.communicate() if next(polls) == 3 else None
    )
    monkeypatch.setattr(kernel_cache, "_SILENT", -1.0)
    with caplog.at_level(logging.INFO):
        assert hits() == 0
    assert next(polls) == 4
    record, _ = caplog.records  # the other one says that this process compiles then
    assert record.levelno == logging.INFO
    assert f"waiting for process {held.pid} of" in record.getMessage()
    assert "twice" in record.getMessage()
    assert str(cache) in record.getMessage()


def test_another_kernel_and_a_short_wait_are_silent(held, monkeypatch, caplog) -> None:
    monkeypatch.setattr(kernel_cache.time, "sleep", lambda seconds: held.communicate())
    assert kernel((numba.int64,))(lambda x: x + 1)(1) == 2
    assert held.poll() is None, "it waited for a kernel that it does not need"
    assert hits() == 0
    assert not caplog.records


@pytest.mark.parametrize("name", ["sources.json", f"{os.uname().nodename}.lock", "a kernel"])
@pytest.mark.parametrize("kind", ["a pipe", "a link"])
def test_pipes_are_not_waited_for_nor_links_followed(name, kind, cache, tmp_path, monkeypatch) -> None:
    """As somebody may have left them while the folder was open to others."""
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path / "own"))
    hits()
    (kept,) = kernel_folder().glob("*.kernel")
    path = kept if name == "a kernel" else kernel_folder() / name
    path.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "precious")
    kernel_cache._lock_file.cache_clear()
    kernel_cache._remembered.cache_clear()
    assert hits() == (name != "a kernel")
    assert not (tmp_path / "precious").exists()
    assert hits() == 1


@pytest.mark.parametrize("made_by", ["a list", "a factory"])
def test_a_kernel_that_another_process_compiles_comes_last(made_by, held, monkeypatch) -> None:
    compiled_first: list[int] = []
    free = kernel(lambda: (numba.int64,))(lambda x: x + 7)

    def wait(seconds):
        compiled_first.append(len(free.signatures))
        held.communicate()

    monkeypatch.setattr(kernel_cache.time, "sleep", wait)
    with sharing_kernels(0, 2):
        if made_by == "a list":
            busy = kernel(lambda: (numba.int64,))(twice)
            compile_kernels(specialise([busy, free]))
        else:
            busy = kernel((numba.int64,))(twice)
            compile_kernels(specialise([free]))
    assert compiled_first == [1]
    assert len(busy.signatures) == 1
    busy(1.5)
    assert len(busy.signatures) == (1 if made_by == "a factory" else 2), (
        "a factory's kernel takes no other types"
    )


def test_a_signal_ends_the_wait(held, monkeypatch) -> None:
    monkeypatch.setattr(kernel_cache.time, "sleep", lambda seconds: os.kill(os.getpid(), signal.SIGTERM))
    with SignalCatcher(), pytest.raises(StoppedError, match="SIGTERM"), stops_at_once():
        hits()


def test_without_a_folder_that_can_be_locked_kernels_are_compiled_all_the_same(monkeypatch, caplog) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", os.devnull)
    assert hits() == 0
    assert hits() == 0


def test_the_lock_is_released_when_compiling_fails(cache) -> None:
    @numba.njit
    def wrong(x):
        return x.no_such_attribute

    keep_kernels(wrong, FunctionCache, dumps)
    with pytest.raises(numba.TypingError):
        wrong(1)
    place = place_of(wrong, (numba.int64,))
    command = ["import fcntl, sys", "f = open(sys.argv[1], 'ab')", "fcntl.lockf(f, 6, 1, int(sys.argv[2]))"]
    path = cache / f"{os.uname().nodename}.lock"
    assert subprocess.run([sys.executable, "-c", ";".join(command), str(path), str(place)]).returncode == 0
