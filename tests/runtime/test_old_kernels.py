"""Kernel caches that nobody uses any more are deleted; those in use, of others and of late are not."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ridgeline.runtime import private_folder as private
from ridgeline.runtime.compile_cache import configure_kernel_cache
from ridgeline.runtime.old_kernels import KEPT, KEPT_SECONDS, delete_old_kernels, mark_in_use

DAY = 86400.0


def cache(folder: Path, number: int, days: float, marked: bool = True) -> Path:
    """Make a cache that was used so many days ago."""
    path = folder / f"py311-numba0.60-{number:08x}-{number:016x}-checked"
    path.mkdir(parents=True, mode=0o700)
    (path / "kernel.nbi").write_text("compiled")
    used = time.time() - days * DAY
    if marked:
        (path / "in-use").touch()
        os.utime(path / "in-use", (used, used))
    os.utime(path, (used, used))
    return path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_only_the_last_ones_of_a_month_are_kept(tmp_path: Path) -> None:
    many = [cache(tmp_path, number, number / 10) for number in range(KEPT + 3)]
    cache(tmp_path, 99, KEPT_SECONDS / DAY + 1)
    delete_old_kernels(tmp_path)
    assert names(tmp_path) == {path.name for path in many[:KEPT]}


def test_those_without_a_mark_may_be_in_use_and_are_kept_for_a_month(tmp_path: Path) -> None:
    many = [cache(tmp_path, number, number / 10, marked=False) for number in range(KEPT + 3)]
    cache(tmp_path, 99, KEPT_SECONDS / DAY + 1, marked=False)
    delete_old_kernels(tmp_path)
    assert names(tmp_path) == {path.name for path in many}


def test_old_ones_go_even_if_they_are_few(tmp_path: Path) -> None:
    young, old = cache(tmp_path, 1, 29), cache(tmp_path, 2, 31)
    delete_old_kernels(tmp_path)
    assert names(tmp_path) == {young.name}
    assert not old.exists()


def test_one_that_a_process_uses_is_kept_however_old(tmp_path: Path) -> None:
    old = cache(tmp_path, 1, 40)
    code = (
        "import sys, pathlib\nfrom ridgeline.runtime.old_kernels import mark_in_use\n"
        "assert mark_in_use(pathlib.Path(sys.argv[1]))\nprint('marked', flush=True)\nsys.stdin.read()"
    )
    user = [sys.executable, "-c", code, str(old)]
    with subprocess.Popen(user, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "marked\n"
        used = time.time() - 40 * DAY
        os.utime(old / "in-use", (used, used))
        delete_old_kernels(tmp_path)
        assert (old / "kernel.nbi").exists()
    delete_old_kernels(tmp_path)
    assert not old.exists()


def test_what_is_not_a_private_cache_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    target = cache(elsewhere, 1, 40)
    folder = tmp_path / "kernels"
    shared, other = cache(folder, 2, 40), folder / "notes"
    shared.chmod(0o777)
    other.mkdir()
    os.utime(other, (0, 0))
    (folder / target.name).symlink_to(target)
    delete_old_kernels(folder)
    assert names(folder) == {shared.name, "notes", target.name}
    assert (target / "kernel.nbi").exists()


def test_remains_of_a_killed_deletion_go(tmp_path: Path) -> None:
    (tmp_path / ".deleted-12-py311").mkdir()
    delete_old_kernels(tmp_path)
    delete_old_kernels(tmp_path / "missing")
    assert not names(tmp_path)


def test_one_deleted_at_the_moment_it_is_asked_for_is_told(tmp_path: Path) -> None:
    assert not mark_in_use(tmp_path / "gone")
    assert mark_in_use(cache(tmp_path, 1, 0))


def test_a_command_marks_its_own_cache_and_deletes_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    private._warn.cache_clear()
    (tmp_path / "kernels").mkdir(mode=0o700)
    cache(tmp_path / "kernels", 1, 31)
    path = configure_kernel_cache()
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert names(tmp_path / "kernels") == {path.name}
    assert names(path) == {"in-use"}
    assert capsys.readouterr() == ("", "")
