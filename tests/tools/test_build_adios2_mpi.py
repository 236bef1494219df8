"""The archive of ADIOS2's sources is unpacked by any Python from 3.11.0 on, and never outside of its folder."""

import importlib.util
import io
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "build_adios2_mpi.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location(TOOL.stem, TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def archive(folder: Path, *members: tarfile.TarInfo) -> Path:
    path = folder / "source.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            member.size = 3 if member.isreg() else 0
            tar.addfile(member, io.BytesIO(b"all") if member.isreg() else None)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.mode = kind, target, 0o755
    return found


def forget_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `tarfile` what it is in Python 3.11.0 to 3.11.3, as far as a caller can see."""
    if not hasattr(tarfile, "data_filter"):
        return
    newer, trusting = tarfile.TarFile.extractall, {"filter": "fully_trusted"}

    def extractall(self, path=".", members=None, *, numeric_owner=False):
        newer(self, path, members, numeric_owner=numeric_owner, **trusting)

    monkeypatch.setattr(tarfile.TarFile, "extractall", extractall)
    monkeypatch.delattr(tarfile, "data_filter")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("python", ["3.11.0", "this"])
def test_sources_are_unpacked(python, tool, tmp_path, monkeypatch) -> None:
    path = archive(tmp_path, member("adios2-2", tarfile.DIRTYPE), member("adios2-2/configure"))
    if python == "3.11.0":
        forget_filters(monkeypatch)
    tool.unpack(path, tmp_path)
    unpacked = tmp_path / "adios2-2" / "configure"
    assert unpacked.read_text() == "all"
    assert unpacked.stat().st_mode & 0o100, "a script can still be run"


@pytest.mark.parametrize(
    "bad",
    [
        member("../outside"),
        member("adios2-2/../../outside"),
        member("/tmp/ridgeline-outside"),
        member("adios2-2/link", tarfile.SYMTYPE, "/etc/passwd"),
        member("adios2-2/link", tarfile.LNKTYPE, "../outside"),
        member("adios2-2/pipe", tarfile.FIFOTYPE),
        member("adios2-2/disk", tarfile.BLKTYPE),
    ],
    ids=lambda bad: f"{bad.name}-{bad.type.decode()}",
)
def test_nothing_is_unpacked_of_an_archive_with_more_than_files(bad, tool, tmp_path, monkeypatch) -> None:
    path = archive(tmp_path, member("adios2-2/configure"), bad)
    forget_filters(monkeypatch)
    with pytest.raises(tool.Impossible, match="is no plain file or folder"):
        tool.unpack(path, tmp_path)
    assert sorted(tmp_path.iterdir()) == [path]
