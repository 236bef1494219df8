"""A job is entered one way: launcher, limits, threads, kernel cache, communicator, abort."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ridgeline as package
from ridgeline.parallel import job as module
from ridgeline.runtime.mpiexec import find_mpiexec

SOURCES = Path(package.__file__).parent
STEPS = {"configure_threads", "ends_job_on_error", "notice_lost_ranks", "world"}


def test_only_a_job_takes_the_steps_into_it() -> None:
    wrong = [
        f"{path.relative_to(SOURCES)}:{node.lineno}: {node.func.id}; enter by parallel.job"
        for path in sorted(SOURCES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in STEPS
    ]
    assert all(place.startswith("parallel/job.py:") for place in wrong), "\n".join(wrong)
    assert {place.split()[1].rstrip(";") for place in wrong} == STEPS


def in_a_job(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run statements inside `with job(threads=3) as comm:` in a process of its own."""
    inside = "".join(f"\n    {line}" for line in code.splitlines())
    text = f"import sys, os\nfrom ridgeline.parallel.job import job\nwith job(threads=3) as comm:{inside}"
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return subprocess.run(
        [sys.executable, "-c", text], env=kept | environ, capture_output=True, text=True, timeout=60
    )


def test_a_job_has_its_threads_its_kernel_cache_and_its_ranks(tmp_path: Path) -> None:
    done = in_a_job(
        "assert 'numba' not in sys.modules\n"
        "import numba\n"
        "print(comm.size, numba.config.NUMBA_NUM_THREADS, os.environ['OMP_NUM_THREADS'])",
        RIDGELINE_CACHE_DIR=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "3", "1"]
    assert (tmp_path / "kernels").is_dir()


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        ("from ridgeline.runtime.errors import ConfigError\nraise ConfigError('no box')", 2, "error: no box"),
        ("raise ValueError('a fault of ours')", 1, "ValueError: a fault of ours"),
    ],
)
def test_an_error_ends_a_job_with_its_message_and_code(error: str, code: int, words: str) -> None:
    done = in_a_job(error)
    assert done.returncode == code
    assert words in done.stderr


def test_limits_are_looked_at_before_mpi_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise module.LauncherError("too few files")

    monkeypatch.setattr(module, "check_limits", refuse)
    with pytest.raises(module.LauncherError, match="too few files"), module.job():
        pytest.fail("the job was entered")


@pytest.mark.parametrize("before", ["", "comm.Free()\ncomm = MPI.COMM_WORLD\n"], ids=["", "after a free"])
def test_an_error_that_nobody_catches_ends_the_ranks_of_a_program(tmp_path: Path, before: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from ridgeline.parallel.job import join_from_python\n"
        "comm = join_from_python(1)\n"
        "from mpi4py import MPI\n"
        f"{before}"
        "if comm.rank:\n"
        "    raise ValueError('a fault of one rank')\n"
        "comm.Barrier()\n"
    )
    done = subprocess.run(
        [*find_mpiexec(), "-n", "2", sys.executable, str(program)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "rank 1: " in done.stderr
    assert "ValueError: a fault of one rank" in done.stderr
