"""What is kept between runs lies only where nobody else can have put it."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ridgeline.runtime import user_cache as module
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.user_cache import cache_root, private_folder

OWN = f"ridgeline-{os.geteuid()}"


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch) -> Path:
    """Let the cache be tmp_path/cache and the system's temporary folder tmp_path/temp."""
    (tmp_path / "temp").mkdir()
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    module._warn.cache_clear()
    module._folder_of_this_process.cache_clear()
    return tmp_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_made_for_this_user_alone_whatever_the_umask(places) -> None:
    before = os.umask(0)
    try:
        folder = private_folder("kernels", "these")
    finally:
        os.umask(before)
    assert folder == places / "cache" / "kernels" / "these"
    assert {mode(path) for path in (folder, folder.parent, folder.parent.parent)} == {0o700}


@pytest.mark.parametrize("others", [0o770, 0o1777])
def test_a_shared_folder_gets_one_for_each_user(others, places) -> None:
    (places / "cache").mkdir()
    (places / "cache").chmod(others)
    folder = private_folder("c")
    assert folder == places / "cache" / OWN / "c"
    assert mode(folder) == mode(folder.parent) == 0o700


def test_a_folder_that_anybody_can_replace_is_not_used(places, capsys) -> None:
    (places / "cache").mkdir()
    (places / "cache").chmod(0o777)
    assert private_folder("c") == places / "temp" / OWN / "c"
    assert f"other users can replace files in {places / 'cache'}" in capsys.readouterr().err


def test_a_folder_inside_that_others_can_write_is_not_used(places, capsys) -> None:
    (places / "cache" / "kernels").mkdir(parents=True)
    (places / "cache" / "kernels").chmod(0o777)
    assert private_folder("kernels", "these") == places / "temp" / OWN / "kernels" / "these"
    err = capsys.readouterr().err
    assert f"other users can write to {places / 'cache' / 'kernels'}" in err
    assert "RIDGELINE_CACHE_DIR" in err


@pytest.mark.parametrize("planted", ["writable by all", "a file", "a link"])
def test_what_somebody_left_under_the_guessable_name_is_not_used(planted, places, capsys) -> None:
    (places / "cache").write_text("no folder can be made here")
    guessable = places / "temp" / OWN
    if planted == "writable by all":
        (guessable / "kernels" / "these").mkdir(parents=True)
        guessable.chmod(0o777)
    elif planted == "a file":
        guessable.write_text("")
    else:
        (places / "elsewhere").mkdir()
        (places / "elsewhere").chmod(0o777)
        guessable.symlink_to(places / "elsewhere")
    folder = private_folder("kernels", "these")
    assert not folder.is_relative_to(guessable)
    assert mode(folder) == 0o700
    assert not list(folder.iterdir())
    assert "are not stored after this run" in capsys.readouterr().err


def test_another_users_folder_is_not_used(places, monkeypatch) -> None:
    private_folder("kernels")
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(places).st_uid + 1)
    folder = private_folder("kernels")
    assert not folder.is_relative_to(places / "cache")
    assert folder.parent.name.startswith("ridgeline-")


@pytest.mark.parametrize("where", ["cache", "temp"])
@pytest.mark.parametrize("make", [True, False])
def test_another_users_link_is_not_followed_even_to_a_folder_of_mine(
    make, where, places, monkeypatch
) -> None:
    """Whoever owns the link could turn it after the check."""
    (places / "mine").mkdir(mode=0o700)
    (places / "cache").mkdir()
    (places / "cache").chmod(0o1777 if where == "cache" else 0o777)
    link = places / where / OWN
    link.symlink_to(places / "mine")
    if os.geteuid() == 0:
        os.lchown(link, 65534, 65534)
    else:
        real = Path.lstat
        others = os.stat_result([0o120777, 0, 0, 1, os.geteuid() + 1, 0, 0, 0, 0, 0])
        monkeypatch.setattr(Path, "lstat", lambda path: others if path == link else real(path))
    found = private_folder("fft", make=make)
    assert found == places / "temp" / OWN / "fft" or (
        where == "temp" and found.parent.name.startswith("ridgeline-")
    )
    assert not found.resolve().is_relative_to(places / "mine")
    assert not list((places / "mine").iterdir())


def test_a_look_makes_nothing(places) -> None:
    assert private_folder("machines", make=False) == places / "cache" / "machines"
    assert not (places / "cache").exists()
    (places / "cache").mkdir()
    (places / "cache").chmod(0o1777)
    assert private_folder("machines", make=False) == places / "cache" / OWN / "machines"
    assert not list((places / "cache").iterdir())


def test_a_link_is_followed_once(places) -> None:
    (places / "mine").mkdir(mode=0o700)
    (places / "cache").symlink_to(places / "mine")
    assert private_folder("c") == places / "mine" / "c", "who turns the link after the check changes nothing"


def test_the_folder_that_is_not_kept_is_gone_at_the_end(places) -> None:
    code = "from ridgeline.runtime.user_cache import private_folder; print(private_folder('c'))"
    environ = {**os.environ, "RIDGELINE_CACHE_DIR": "/dev/null/cache", "TMPDIR": str(places / "temp")}
    (places / "temp" / OWN).write_text("")
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).parent.parent == places / "temp"
    assert sorted(path.name for path in (places / "temp").iterdir()) == [OWN]


def test_no_folder_at_all_is_said_in_one_sentence(places, monkeypatch) -> None:
    (places / "cache").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(places / "cache" / "temp"))
    with pytest.raises(
        OutputError, match=r"no folder for compiled code and measurements: .*RIDGELINE_CACHE_DIR"
    ):
        private_folder("c")


def test_a_cache_of_its_own_wins_over_home(monkeypatch, places) -> None:
    assert cache_root() == places / "cache"
    monkeypatch.delenv("RIDGELINE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(places / "xdg"))
    assert cache_root() == places / "xdg" / "ridgeline"
    monkeypatch.setenv("HOME", str(places))
    for none in ("", "relative", "~/cache"):  # by the XDG specification: each folder would have its own cache
        monkeypatch.setenv("XDG_CACHE_HOME", none)
        assert cache_root() == places / ".cache" / "ridgeline"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == places / ".cache" / "ridgeline"
    monkeypatch.setenv("HOME", "relative")
    assert not cache_root().is_relative_to(Path.cwd())
