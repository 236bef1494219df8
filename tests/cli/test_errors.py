"""What goes wrong ends with one sentence, an exit code and no traceback, and never hangs."""

import os
import re
import signal
import subprocess
import sys

import pytest


def refused(done, code, pattern):
    assert done.returncode == code, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, done.stderr
    assert re.search(pattern, done.stderr), done.stderr


@pytest.mark.parametrize(
    ("setting", "pattern"),
    [
        ("run.stepz=3", r"run\.stepz.*steps"),
        ("run.steps=many", r"run\.steps.*many"),
        ("model.dt=-1.0", r"model\.dt.*-1"),
        ("model.dt=5.0", r"model\.dt.*5.*limit"),
        ("run.model=gray_scot", r"gray_scot.*gray_scott"),
        ("grid.shape=[0, 4, 4]", r"grid\.shape"),
    ],
)
def test_wrong_settings(ridgeline, setting, pattern):
    refused(ridgeline("run", ridgeline.write(), "-n", 2, "--set", setting), 2, pattern)


def test_wrong_settings_under_mpiexec_are_said_once(ridgeline):
    case = ridgeline.write()
    mpiexec = os.path.join(sys.prefix, "bin", "mpiexec")
    command = [
        mpiexec,
        "-n",
        "3",
        sys.executable,
        "-m",
        "ridgeline",
        "run",
        str(case),
        "--set",
        "run.stepz=1",
    ]
    done = subprocess.run(command, cwd=ridgeline.path, capture_output=True, text=True, timeout=60)
    refused(done, 2, "run.stepz")


def test_grid_smaller_than_the_process_grid(ridgeline):
    case = ridgeline.write(shape="2, 3, 4", extra="")
    done = ridgeline(
        "run", case, "-n", 2, "--set", "grid.process_grid=[2, 2, 1]", "--set", "initial.half_width=1"
    )
    refused(done, 3, r"process_grid = \[2, 2, 1\] has 4 blocks, but the run has 2 ranks")
    done = ridgeline(
        "run", case, "-n", 3, "--set", "grid.process_grid=[3, 1, 1]", "--set", "initial.half_width=1"
    )
    refused(done, 3, r"divides 2 cells in z into 3 blocks")


def test_unwritable_output(ridgeline):
    (ridgeline.path / "file").write_text("")
    case = ridgeline.write()
    done = ridgeline("run", case, "-n", 2, "--set", "output.path=file/data.bp")
    refused(done, 6, r"file/data\.bp")


def test_output_that_is_something_else_is_not_overwritten(ridgeline):
    precious = ridgeline.path / "gray_scott.bp"
    precious.write_text("thesis")
    refused(ridgeline("run", ridgeline.write()), 6, r"gray_scott\.bp")
    assert precious.read_text() == "thesis"


def test_nan_ends_the_run_and_keeps_the_last_good_checkpoint(ridgeline):
    # Inside the linear limit, but the noise drives u v^2 out of bounds.
    case = ridgeline.write(steps=4000, every=0, checkpoint=2, extra="\n")
    done = ridgeline("run", case, "-n", 2, "--set", "model.noise=1e5", "--set", "run.check_every=1")
    refused(done, 5, r"stopped being finite at step \d+: [UV] at z=\d+, y=\d+, x=\d+")
    assert re.search(r"checkpoint|Try a smaller model\.dt", done.stderr)


@pytest.mark.parametrize("command", [("run", "--nonsense"), ("bench", "stream", "--threads", "x"), ("run",)])
def test_wrong_options_are_said_by_one_rank(ridgeline, command):
    said = []
    for rank in "01":
        done = ridgeline(*command, env={"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": rank})
        assert (done.returncode, done.stdout) == (2, "")
        said.append(done.stderr.count("rror"))
    assert said == [1, 0]


def test_launcher_of_another_mpi_is_refused(ridgeline):
    environ = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}
    refused(
        ridgeline("run", ridgeline.write(), env=environ), 7, r"Open MPI started 4 ranks.*sees only this one"
    )


def test_missing_checkpoint(ridgeline):
    done = ridgeline("run", ridgeline.write(), "--resume", "nowhere/checkpoint_00000004")
    refused(done, 4, "nowhere/checkpoint_00000004")


def test_one_rank_that_raises_ends_the_job(ridgeline):
    # A rank fails in the middle of a step while the others wait for its faces.
    program = (
        "import sys, numpy as np\n"
        "from ridgeline.models.gray_scott import model\n"
        "from mpi4py import MPI\n"
        "plain = model.GrayScott.step\n"
        "def step(self, most, until):\n"
        "    if self._step >= 3 and MPI.COMM_WORLD.rank == 1:\n"
        "        raise ZeroDivisionError('rank one is unwell')\n"
        "    return plain(self, 1, until)\n"
        "model.GrayScott.step = step\n"
        "from ridgeline.cli.main import main\n"
        "main()\n"
    )
    (ridgeline.path / "unwell.py").write_text(program)
    case = ridgeline.write(steps=1000)
    mpiexec = os.path.join(sys.prefix, "bin", "mpiexec")
    done = subprocess.run(
        [mpiexec, "-n", "3", sys.executable, "unwell.py", "run", str(case)],
        cwd=ridgeline.path,
        env=ridgeline.environ(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    # Hydra joins the codes of all ranks by bits, and some may have been killed before they ended.
    assert re.search(r"MPI_Abort\([^)]*, 1\) - process 1$", done.stderr, re.MULTILINE), done.stderr
    assert done.returncode in (1, 1 | signal.SIGKILL)
    assert done.stderr.count("ZeroDivisionError: rank one is unwell") == 1
    assert "rank 1" in done.stderr
