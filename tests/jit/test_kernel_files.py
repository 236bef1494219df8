"""A damaged file of the kernel cache is compiled again and replaced, and said so once."""

import logging
import random
from collections.abc import Callable
from pathlib import Path

import numba
import pytest

from ridgeline.jit import kernel_files
from ridgeline.jit.kernel_files import CheckedFiles

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
    monkeypatch.setattr(numba.core.caching, "IndexDataCacheFile", CheckedFiles)
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
        patched.setattr(CheckedFiles, "_save_data", full)
        assert hits() == 0
    assert "cannot be kept" in caplog.text
    assert "No space left on device" in caplog.text
    assert [hits(), hits()] == [0, 1]


def test_every_module_that_keeps_kernels_checks_its_files() -> None:
    package = Path(kernel_files.__file__).parents[1]
    kept = [path for path in package.rglob("*.py") if "cache=True" in path.read_text()]
    assert kept
    unchecked = [path for path in kept if "jit.kernel" not in path.read_text() and path.name != "kernel.py"]
    assert not unchecked, (
        "declare it by ridgeline.jit.kernel, which tells Numba to check the files of its cache"
    )
