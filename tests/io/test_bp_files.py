"""Damaged data sets: whatever is cut off or missing is one sentence, never a crash, a wait or a wrong value."""

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.io import bp_files
from ridgeline.io.bp import BPWriter, Variable
from ridgeline.io.bp_reader import BPReader
from ridgeline.runtime.errors import OutputError

SHAPE = (4, 5, 6)


def field(step: int) -> np.ndarray:
    return np.random.default_rng(step).random(SHAPE)


class Unflushed:
    """ADIOS2's engine, used as by ranks that write together: the index does not tell the length of the data."""

    def __init__(self, engine) -> None:
        self.engine = engine

    def __getattr__(self, name):
        return (lambda: None) if name == "PerformDataWrite" else getattr(self.engine, name)


def write(path: Path, engine=lambda real: real) -> Path:
    variable = Variable("U", "float64", SHAPE, (0, 0, 0), SHAPE)
    with BPWriter(path, MPI.COMM_SELF, [variable], {"a": 1}) as out:
        out._engine = engine(out._engine)
        for step in range(3):
            out.write(step, 0.5 * step, {"U": field(step)})
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("whole") / "toy.bp")


@pytest.fixture
def path(whole, tmp_path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(whole, tmp_path / "toy.bp"))


@pytest.mark.parametrize("name", ["md.idx", "md.0", "mmd.0", "data.0"])
@pytest.mark.parametrize("emptied", [False, True])
def test_a_missing_or_empty_file_is_named(path, name, emptied):
    (path / name).unlink()
    if emptied:
        (path / name).touch()
    with pytest.raises(OutputError, match=name.replace(".", r"\.")) as caught:
        BPReader(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", bytes(40)], ids=["empty", "zeros"])
def test_an_index_without_a_header_is_of_a_run_that_wrote_no_step(path, content):
    """ADIOS2 leaves 40 zeros where a run ends by an error before its first output."""
    for file in path.iterdir():
        file.write_bytes(b"")
    (path / "md.idx").write_bytes(content)
    with pytest.raises(
        OutputError,
        match="holds no complete output step, because its run has not reached the first one or ended",
    ):
        BPReader(path)
    assert bp_files.is_empty(path)


CUT = """
    import shutil, sys, warnings
    from pathlib import Path
    sys.path[:0] = [sys.argv[1], sys.argv[2]]
    import numpy as np
    from test_bp_files import SHAPE, field
    from ridgeline.io.bp_reader import BPReader, Selection
    from ridgeline.runtime.errors import OutputError

    whole, work, summed = Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5] == "summed"
    outcomes = []
    for name in ("md.idx", "md.0", "mmd.0", "data.0"):
        content = (whole / name).read_bytes()
        for size in sorted({*range(0, len(content), max(1, len(content) // 12)), len(content) - 1}):
            for active in (0, 1):
                shutil.copytree(whole, work, dirs_exist_ok=True)
                with (work / "md.idx").open("r+b") as file:
                    file.seek(39)
                    file.write(bytes([active]))
                with (work / name).open("r+b") as file:
                    file.truncate(size)
                try:
                    if not summed:
                        (work / "ridgeline.sums").unlink()
                    with BPReader(work, isolated=False) as reader:
                        steps = reader.steps
                        for step in range(steps):
                            out = np.empty(SHAPE)
                            reader.read("U", [Selection(step, (0, 0, 0), out)])
                            assert (out == field(step)).all(), (name, size, step)
                    outcomes.append("read")
                    assert steps == 3 or name == "md.idx", (name, size, steps)
                except OutputError as error:
                    assert "\\n" not in str(error)
                    outcomes.append("refused")
    print(outcomes.count("read"), outcomes.count("refused"))
"""


@pytest.mark.parametrize("sums", ["summed", "unsummed"])
@pytest.mark.parametrize("engine", [lambda real: real, Unflushed], ids=["flushed", "unflushed"])
def test_files_cut_off_anywhere_are_refused_or_read_right(tmp_path, engine, sums):
    """Without checksums a cut index reads as fewer steps, like one that is being written; all else is refused."""
    whole = write(tmp_path / "whole.bp", engine)
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(CUT)]
    folders = [str(Path(__file__).parent), str(Path(bp_files.__file__).parents[2])]
    done = subprocess.run(
        [*command, *folders, str(whole), str(tmp_path / "cut.bp"), sums],
        timeout=100,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    read, refused = (int(n) for n in done.stdout.split())
    assert (read > 4) if sums == "unsummed" else (read == 0)
    assert refused > 60


@pytest.mark.parametrize("at", [37, 64, 65, 72, 73])
def test_a_changed_index_is_refused(path, at):
    """The version; type, length (first and last byte) and number of writers of the first record."""
    content = bytearray((path / "md.idx").read_bytes())
    content[at] ^= 0x55
    (path / "md.idx").write_bytes(content)
    with pytest.raises(OutputError, match=r"damaged|not a little-endian BP5"):
        BPReader(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: None, r"nothing exists there\. The folder .* contains near\.bp"),
        (lambda p: p.write_text("x"), "this is a file, but"),
        (lambda p: p.mkdir(), "this is an empty folder, but"),
        (lambda p: (p.mkdir(), (p / "b.h5").touch(), (p / "a.txt").touch()), r"a folder with a\.txt, b\.h5, but"),
    ],
)  # fmt: skip
def test_what_is_there_instead_of_a_data_set_is_named(tmp_path, make, words):
    (tmp_path / "near.bp").mkdir()
    make(tmp_path / "toy.bp")
    with pytest.raises(OutputError, match=words):
        BPReader(tmp_path / "toy.bp")


def test_the_index_counts_steps_and_subfiles(whole):
    index = bp_files.read_index(whole)
    assert (len(index.steps), index.subfiles) == (3, 1)
    assert [step.record_end for step in index.steps][-1] == (whole / "md.idx").stat().st_size
    assert [step.metadata_end for step in index.steps][-1] == (whole / "md.0").stat().st_size
    assert [step.data_ends for step in index.steps][-1] == {0: (whole / "data.0").stat().st_size}
    assert bp_files.is_data_set(whole)


def test_a_data_set_is_known_as_ours_from_the_moment_of_opening(tmp_path, whole):
    path = tmp_path / "new.bp"
    assert not bp_files.is_own_data_set(path)
    bp_files.create(path)
    assert bp_files.is_own_data_set(path)
    assert bp_files.is_data_set(path)
    assert bp_files.is_own_data_set(whole)
    (path / "ridgeline.sums").write_bytes(b"")  # killed between making the file and writing its header
    assert bp_files.is_own_data_set(path)
    (path / "ridgeline.sums").unlink()  # killed where ADIOS2 had emptied the folder
    assert bp_files.is_own_data_set(path)
    (path / "data.0").write_bytes(b"values")
    assert not bp_files.is_own_data_set(path)
    (path / "ridgeline.sums").write_bytes(b"something else\n")
    assert not bp_files.is_own_data_set(path)


def test_repair_leaves_whole_data_sets_alone(path, whole):
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    assert len(bp_files.repair(path, least=3).steps) == 3
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_repair_changes_nothing_if_too_little_is_left(path):
    (path / "data.0").unlink()
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with pytest.raises(OutputError, match="holds 0 complete output steps"):
        bp_files.repair(path, least=1)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
