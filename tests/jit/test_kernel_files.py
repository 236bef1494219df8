"""A damaged file of the kernel cache is compiled again and replaced, and said so once."""

import importlib
import logging
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numba
import pytest

from ridgeline.jit import kernel_files
from ridgeline.jit.kernel_files import check_kernel_files

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "short": lambda content: content[:10],
    "cut": lambda content: content[: len(content) // 2],
    "zeroed": lambda content: bytes(len(content)),
    "garbage": lambda content: random.Random(1).randbytes(len(content)),
    "one bit": lambda content: content[:-30] + bytes([content[-30] ^ 1]) + content[-29:],
    "longer": lambda content: content + b"more",
}


def twice(x):
    return 2 * x


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    check_kernel_files()
    for say in (kernel_files._say_damaged, kernel_files._say_not_kept):
        say.cache_clear()
    return tmp_path


def hits() -> int:
    """Return how often a new run of `twice` finds its kernel in the cache: 1 or 0."""
    compiled = numba.njit(cache=True)(twice)
    assert compiled(21) == 42
    return sum(compiled.stats.cache_hits.values())


def test_a_kernel_is_compiled_once() -> None:
    assert [hits(), hits()] == [0, 1]


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_compiled_again_and_replaced(suffix, damage, cache, caplog) -> None:
    hits()
    (path,) = cache.rglob(f"*{suffix}")
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert [hits(), hits()] == [0, 1]
    assert len(caplog.records) == 1, "once"
    assert "damaged" in caplog.text
    assert str(cache) in caplog.text


def test_a_file_that_cannot_be_read_is_compiled_again(cache, caplog, monkeypatch) -> None:
    hits()
    (path,) = cache.rglob("*.nbi")
    path.unlink()
    path.mkdir()
    assert hits() == 0
    assert "cannot be read (Is a directory)" in caplog.text


def test_a_full_disk_costs_the_next_run_a_compilation_and_not_this_one_its_end(
    cache, caplog, monkeypatch
) -> None:
    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(numba.core.caching.IndexDataCacheFile, "_save_data", full)
        assert hits() == 0
    assert "cannot be kept" in caplog.text
    assert "No space left on device" in caplog.text
    assert [hits(), hits()] == [0, 1]


def of_cpus() -> ModuleType:
    return numba.core.caching


def of_gpus() -> ModuleType:
    pytest.importorskip("numba_cuda")
    caching = importlib.import_module("numba.cuda.core.caching")
    check_kernel_files(caching)
    return caching


@pytest.mark.parametrize("caching", [of_cpus, of_gpus])
def test_a_number_that_two_processes_took_is_the_kernel_of_one(cache, caching) -> None:
    def process(stamp: str = "now"):
        return caching().IndexDataCacheFile(str(cache), "kernels", stamp)

    assert process().load("float32") is None
    process().save("float32", ("kernel", "of", "float32"))
    assert process().load("float32") == ("kernel", "of", "float32")
    late = process()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(late, "_load_index", dict)  # it looked before the other one wrote
        late.save("float64", ("kernel", "of", "float64"))
    assert len(list(cache.rglob("*.nbc"))) == 1
    assert process().load("float64") == ("kernel", "of", "float64")
    index = process()
    index._save_index(dict.fromkeys(("float32", "float64"), index._data_name(1)))  # both have written it
    assert process().load("float32") is None
    process().save("float32", ("kernel", "of", "float32"))
    for key in ("float32", "float64"):
        assert process().load(key) == ("kernel", "of", key)


@pytest.mark.parametrize("caching", [of_cpus, of_gpus])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_of_either_processor_are_missing(cache, caching, damage) -> None:
    files = caching().IndexDataCacheFile(str(cache), "kernels", "now")
    for suffix in (".nbi", ".nbc"):
        files.save("key", "kernel")
        (path,) = cache.rglob(f"*{suffix}")
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
        assert files.load("key") is None


def test_a_file_of_numba_alone_is_missing(cache) -> None:
    files = numba.core.caching.IndexDataCacheFile(str(cache), "kernels", "now")
    files.save("key", "kernel")
    files._save_data(files._data_name(1), ("not", "of", "ours"))
    assert files.load("key") is None


def test_every_module_that_keeps_kernels_checks_its_files() -> None:
    package = Path(kernel_files.__file__).parents[1]
    kept = [path for path in package.rglob("*.py") if "cache=True" in path.read_text()]
    assert kept
    unchecked = [path for path in kept if "jit.kernel" not in path.read_text() and path.name != "kernel.py"]
    assert not unchecked, (
        "declare it by ridgeline.jit.kernel, which tells Numba to check the files of its cache"
    )
