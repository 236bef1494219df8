"""Run every file tests/ranks/test_*.py under the environment's own mpiexec at several numbers of ranks.

A file may narrow that, or ask for more time, by module-level literals, which are read without importing it:

    RANKS = (2, 4)
    TIMEOUT = 300  # seconds of one launch
    SLOW_RANKS = (1, 2)  # where its tests marked slow are run, if slow ones are asked for
"""

import ast
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "ranks"
RANKS = (1, 2, 3, 4)
TIMEOUT = 180


def constant(file: Path, name: str, default):
    """The value of a module-level literal `name = ...` in `file`."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            return ast.literal_eval(node.value)
    return default


def mpiexec() -> str:
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert found, f"no mpiexec beside {sys.executable} nor on PATH; pip install mpich"
    return found


def kill(process: subprocess.Popen[str], reports: Path) -> None:
    """End a launcher and its ranks, which some launchers put in process groups of their own."""
    for pid in [process.pid, *(int(file.read_text()) for file in reports.glob("*.pid"))]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(os.getpgid(pid), signal.SIGKILL)


def launch(file: Path, n_ranks: int, timeout: float, reports: Path, *options: str) -> tuple[int, str]:
    """Run one file on n_ranks; return the exit code and what was printed. A job past `timeout` is killed.

    options: more of them, for pytest.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PMI", "OMPI_"))}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment |= {"RIDGELINE_TEST_REPORTS": str(reports)}
    environment |= {"RIDGELINE_TEST_STACKS_AT": str(time.time() + 0.8 * timeout)}
    command = [mpiexec(), "-n", str(n_ranks), sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [*command, *options, str(file)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill(process, reports)
            output, _ = process.communicate()
            output += f"\nkilled: {file.name} on {n_ranks} ranks ran longer than {timeout:g} s"
        except BaseException:  # an interrupted test leaves no ranks behind
            kill(process, reports)
            raise
    return process.returncode, output


def check(file: Path, n_ranks: int, timeout: float, reports: Path, *options: str) -> None:
    """Launch a file and fail with all that its ranks said unless each of them passed."""
    code, output = launch(file, n_ranks, timeout, reports, *options)
    words = [f"{file.name} on {n_ranks} ranks: exit code {code}", output]
    words += [path.read_text() for path in sorted(reports.glob("*.failure"))]
    if code < 0:
        words += [f"=== {path.name} ===\n{path.read_text()}" for path in sorted(reports.glob("*.stack"))]
    assert code == 0, "\n".join(words)
    records = [json.loads(path.read_text()) for path in reports.glob("*.json")]
    assert len(records) == n_ranks, f"{n_ranks} ranks were started, {len(records)} finished\n{output}"
    sizes = {record["size"] for record in records}
    assert sizes == {n_ranks}, f"ranks of {n_ranks} see worlds of {sizes}: launcher and MPI library differ"
    tested = {record["passed"] for record in records}
    assert len(tested) == 1, f"ranks passed different numbers of tests: {sorted(tested)}\n{output}"
    if tested == {0}:
        assert all(record["skipped"] for record in records), f"no test was run\n{output}"
        pytest.skip("; ".join(records[0]["reasons"]))


@pytest.mark.parametrize(
    ("name", "n_ranks"),
    [(f.name, n) for f in sorted(FOLDER.glob("test_*.py")) for n in constant(f, "RANKS", RANKS)],
)
def test_file_on_ranks(name: str, n_ranks: int, tmp_path: Path) -> None:
    check(FOLDER / name, n_ranks, constant(FOLDER / name, "TIMEOUT", TIMEOUT), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_ranks"),
    [(f.name, n) for f in sorted(FOLDER.glob("test_*.py")) for n in constant(f, "SLOW_RANKS", ())],
)
def test_slow_tests_of_file_on_ranks(name: str, n_ranks: int, tmp_path: Path) -> None:
    check(FOLDER / name, n_ranks, constant(FOLDER / name, "TIMEOUT", TIMEOUT), tmp_path, "-m", "slow")


def inner(tmp_path: Path, body: str) -> Path:
    """A parallel test file in a folder of its own, with the conftest of the real ones."""
    shutil.copy(FOLDER / "conftest.py", tmp_path)
    file = tmp_path / "test_inner.py"
    file.write_text(body)
    return file


def test_failure_on_one_rank_ends_the_job_with_its_report(tmp_path: Path) -> None:
    body = "def test_one(comm):\n    assert comm.rank != 1, 'rank one is wrong'\n    comm.Barrier()\n"
    with pytest.raises(AssertionError, match=r"(?s)=== rank 1 of 2 ===.*rank one is wrong"):
        check(inner(tmp_path, body), 2, 60, tmp_path)


def test_broken_import_is_reported(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no_such_module"):
        check(inner(tmp_path, "import no_such_module\n"), 2, 60, tmp_path)


def test_hang_is_killed_and_named(tmp_path: Path) -> None:
    body = "def test_hang(comm):\n    comm.rank == 0 or comm.recv(source=0)\n    comm.Barrier()\n"
    expected = r"(?s)killed: test_inner.py on 2 ranks ran longer than 6 s.*test_inner.py.*line 2 in test_hang"
    with pytest.raises(AssertionError, match=expected):
        check(inner(tmp_path, body), 2, 6, tmp_path)


def test_file_without_tests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no tests ran"):
        check(inner(tmp_path, ""), 2, 60, tmp_path)


def test_all_skipped_is_a_skip_with_its_reason(tmp_path: Path) -> None:
    body = "import pytest\ndef test_a(comm):\n    pytest.skip('not here')\n"
    with pytest.raises(pytest.skip.Exception, match="not here"):
        check(inner(tmp_path, body), 1, 60, tmp_path)


def test_ranks_and_timeout_are_read_without_import(tmp_path: Path) -> None:
    file = inner(tmp_path, "import no_such_module\nRANKS = (2, 4)\n")
    assert constant(file, "RANKS", RANKS) == (2, 4)
    assert constant(file, "TIMEOUT", TIMEOUT) == TIMEOUT
