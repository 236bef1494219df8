"""A cache folder that all share, in which another user has put something before: nothing of it is read or written.

The commands run as a user who is not root, so these tests need root, who starts them.
"""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from attack_cases import CASES
from ridgeline.fourier.planning import wisdom_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start commands as other users"),
]

VICTIM, ATTACKER = 64001, 64002
TIMEOUT = 500  # seconds; everything is compiled
OPEN = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody can enter, with a home of the victim and two folders that all share."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-users-") as name:
        place = Path(name)
        place.chmod(0o755)
        for folder, owner, mode in (("home", VICTIM, 0o700), ("cache", 0, 0o1777), ("temp", 0, 0o1777)):
            (place / folder).mkdir()
            (place / folder).chmod(mode)
            os.chown(place / folder, owner, owner)
        try:
            readable = as_user(VICTIM, place, "-c", "import ridgeline.cli.main, mpi4py").returncode == 0
        except PermissionError:  # not even the interpreter
            readable = False
        if not readable:
            pytest.skip("another user cannot read this installation")
        yield place


def as_user(user: int, place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a user, in the home of the victim."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "temp"),
        "RIDGELINE_CACHE_DIR": str(place / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=place / "home",
        env=environment,
        user=user,
        group=user,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def give(user: int, path: Path) -> None:
    """Make everything at a path that user's, open to all."""
    for each in [path, *path.rglob("*")]:
        os.lchown(each, user, user)
        if not each.is_symlink():
            each.chmod(OPEN)


def plant(kind: str, place: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put something of the attacker under the guessable name, in which the victim's files are within reach."""
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(place / "unused"))
    library = wisdom_folder().name
    if kind == "link to a folder of the victim":
        root.symlink_to(place / "home" / "study")
        os.lchown(root, ATTACKER, ATTACKER)
        return
    (root / "fft").mkdir(parents=True)
    if kind == "link":
        (root / "fft" / library).symlink_to(place / "home" / "study")
    else:
        (root / "fft" / library).mkdir()
        for name in ("double.wisdom", "choices.json"):
            if kind == "pipe":
                os.mkfifo(root / "fft" / library / name)
            else:
                (root / "fft" / library / name).write_text("{}")
    (root / "choices").mkdir()
    (root / "choices" / "choices.json").symlink_to(place / "home" / "study" / "choices.json")
    (root / "machines").mkdir()
    (root / "kernels").mkdir()
    (root / "kernels" / "sources.json").symlink_to(place / "home" / "study" / "choices.json")
    give(ATTACKER, root)


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else ""
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("everywhere", [False, True], ids=["cache", "cache and temporary folder"])
@pytest.mark.parametrize("kind", ["link", "pipe", "files", "link to a folder of the victim"])
def test_what_another_user_has_planted_is_neither_read_nor_written(
    kind, everywhere, place, monkeypatch
) -> None:
    study = place / "home" / "study"
    study.mkdir()
    for name in ("double.wisdom", "choices.json"):
        (study / name).write_text("mine, and precious")
    (place / "home" / "case.toml").write_text(CASES["turbulence"][0].replace("steps = 60", "steps = 2"))
    for path in (study, *study.iterdir(), place / "home" / "case.toml"):
        os.chown(path, VICTIM, VICTIM)
    roots = [place / folder / f"ridgeline-{VICTIM}" for folder in ("cache", "temp")[: 1 + everywhere]]
    for root in roots:
        plant(kind, place, root, monkeypatch)
    planted = [content(root) if root.is_dir() and not root.is_symlink() else {} for root in roots]
    mine = content(study)
    done = as_user(VICTIM, place, "-P", "-m", "ridgeline", "run", "case.toml")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "belongs to another user" in done.stderr
    assert ("are not stored after this run" in done.stderr) == everywhere
    assert content(study) == mine
    for root, before in zip(roots, planted, strict=True):
        assert (content(root) if before else {}) == before
    if not everywhere:
        own = place / "temp" / f"ridgeline-{VICTIM}"
        assert own.stat().st_uid == VICTIM
        assert stat.S_IMODE(own.stat().st_mode) == 0o700
        assert list(own.rglob("*.wisdom"))
    left = {path.name for path in (place / "temp").iterdir()} - {root.name for root in roots}
    assert not {name for name in left if name.startswith("ridgeline-") and name != f"ridgeline-{VICTIM}"}
    shutil.rmtree(place / "home" / "checkpoints", ignore_errors=True)
