"""Kernels that a centre shares are loaded if only root or the owner of the installation can have put them there.

The owners of files are what a stand-in for `os.stat` says, so that the tests need no other users.
"""

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

from ridgeline.jit import kernel_folders
from ridgeline.jit.kernel_cache import keep_kernels
from ridgeline.jit.kernel_folders import kernel_folder, shared_folder

ATTACKER, UNKNOWN = 64002, 65534


class Places(SimpleNamespace):
    """root: above the shared folder; shared, own: folders of kernels; own_user(path, user): let a user own a path."""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """A shared folder with the kernel of `twice`, which root owns, and an empty folder of this user."""
    owners: dict[int, int] = {}  # by the number of the inode
    kind = type(tmp_path)
    stat_of, fstat_of = kind.stat, os.fstat

    def owned(facts: os.stat_result) -> os.stat_result:
        if facts.st_ino not in owners:
            return facts
        fields = list(facts)
        fields[stat.ST_UID] = owners[facts.st_ino]
        return os.stat_result(fields)

    place = tmp_path / "place"
    shared = place / "kernels"
    shared.mkdir(parents=True)
    shared.chmod(0o755)
    monkeypatch.setattr(kind, "stat", lambda path, **how: owned(stat_of(path, **how)))
    monkeypatch.setattr(kernel_folders.os, "fstat", lambda descriptor: owned(fstat_of(descriptor)))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(shared))
    monkeypatch.setenv("RIDGELINE_SHARED_KERNELS", str(tmp_path / "none"))
    assert [hits(), hits()] == [0, 1]
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("RIDGELINE_SHARED_KERNELS", str(shared))
    (kernel,) = shared.glob("*.kernel")

    def give(path: Path, user: int) -> None:
        owners[stat_of(path).st_ino] = user

    for path in (*place.parents, place, shared, kernel):
        give(path, 0)
    return Places(root=place, shared=shared, kernel=kernel, give=give)


def hits() -> int:
    """Return how often a new run of `twice` finds its kernel in a cache: 1 or 0."""
    for function in (
        kernel_folders._shared_folder,
        kernel_folders._trusted_owners,
        kernel_folders.warn_of_shared,
    ):
        function.cache_clear()
    compiled = numba.njit(twice)
    keep_kernels(compiled, FunctionCache, dumps)
    assert compiled(21) == 42
    return sum(compiled.stats.cache_hits.values())


def twice(x):
    return 2 * x


def test_a_shared_kernel_is_loaded_and_nothing_is_written(places, monkeypatch, caplog) -> None:
    os.utime(places.kernel, (0, 0))
    assert hits() == 1
    assert not list(kernel_folder().glob("*.kernel"))
    assert places.kernel.stat().st_mtime == 0
    assert [path.name for path in places.shared.glob("*.new")] == []
    assert stat.S_IMODE(places.kernel.stat().st_mode) == 0o644
    assert not caplog.records
    monkeypatch.delenv("RIDGELINE_SHARED_KERNELS")
    monkeypatch.setattr(kernel_folders.sys, "prefix", str(places.root))
    (places.root / "share" / "ridgeline").mkdir(parents=True)
    (places.root / "share" / "ridgeline" / "kernels").symlink_to(places.shared)
    places.give(places.root / "share", 0)
    assert hits() == 1, "that of the installation"
    assert shared_folder() == (places.shared, "")


def test_the_owner_of_the_installation_is_trusted_and_nobody_is_not(places) -> None:
    installer = Path(kernel_folders.__file__)
    places.give(installer, 64001)
    places.give(places.kernel, 64001)
    places.give(places.shared, 64001)
    assert hits() == 1
    for path in (installer, places.kernel, places.shared):
        places.give(path, UNKNOWN)
    assert hits() == 0, "whoever cannot be named"


ATTACKS: dict[str, tuple[Callable[[Places], object], str]] = {
    "a file of another user": (
        lambda p: p.give(p.kernel, ATTACKER),
        "belong neither to root nor to the owner",
    ),
    "a file open to a group": (lambda p: p.kernel.chmod(0o664), "other users can write to them"),
    "a file open to all": (lambda p: p.kernel.chmod(0o646), "other users can write to them"),
    "a folder of another user": (
        lambda p: p.give(p.shared, ATTACKER),
        "belongs neither to root nor to the owner",
    ),
    "a folder open to a group": (lambda p: p.shared.chmod(0o775), "other users can write to"),
    "a sticky folder": (lambda p: p.shared.chmod(0o1777), "other users can write to"),
    "a parent of another user": (
        lambda p: p.give(p.root, ATTACKER),
        "belongs neither to root nor to the owner",
    ),
    "a parent open to all": (lambda p: p.root.chmod(0o777), "other users can write to"),
    "a link to a kernel": (lambda p: p.kernel.symlink_to(p.kernel.rename(p.root / "other")), "symbolic link"),
    "a pipe": (lambda p: (p.kernel.unlink(), os.mkfifo(p.kernel)), "not a regular file"),
    "a damaged file": (lambda p: p.kernel.write_bytes(p.kernel.read_bytes()[:-40]), "they are damaged"),
    "no folder": (lambda p: p.shared.rename(p.root / "elsewhere"), "it does not exist"),
    "a file in place of the folder": (
        lambda p: (p.shared.rename(p.root / "elsewhere"), p.shared.touch(), p.give(p.shared, 0)),
        "it is not a folder",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_others_may_have_planted_is_compiled_into_the_own_folder(attack, places, caplog) -> None:
    plant, words = ATTACKS[attack]
    plant(places)
    assert hits() == 0
    (warning,) = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert "are not used: " in warning
    assert words in warning
    assert len(list(kernel_folder().glob("*.kernel"))) == 1
    assert hits() == 1, "from the own folder"


def test_a_sticky_parent_of_root_and_a_stale_kernel_are_nothing_to_warn_of(places, caplog) -> None:
    places.root.chmod(0o1777)
    assert hits() == 1
    places.kernel.rename(places.shared / "twice-of-an-earlier-version.kernel")
    assert hits() == 0
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_a_missing_folder_of_the_installation_is_silent_but_not_one_that_is_open(
    places, monkeypatch, caplog
) -> None:
    monkeypatch.delenv("RIDGELINE_SHARED_KERNELS")
    monkeypatch.setattr(kernel_folders.sys, "prefix", str(places.root))
    assert hits() == 0
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
    (places.root / "share" / "ridgeline").mkdir(parents=True)
    places.shared.rename(places.root / "share" / "ridgeline" / "kernels")
    places.root.chmod(0o777)
    assert hits() == 1, "from the own folder"
    assert "other users can write to" in caplog.text


def test_files_are_readable_by_all_whatever_the_umask_of_root(places, monkeypatch) -> None:
    places.kernel.unlink()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(places.shared))
    before = os.umask(0o077)
    try:
        assert hits() == 0
    finally:
        os.umask(before)
    (kernel,) = places.shared.glob("*.kernel")
    assert stat.S_IMODE(kernel.stat().st_mode) == 0o644
