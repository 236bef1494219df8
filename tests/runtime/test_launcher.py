"""Launchers and libraries that do not match are seen and refused."""

import os
import select
import signal
import subprocess
import sys

import pytest

from ridgeline.runtime.environment import child_environment
from ridgeline.runtime.errors import LauncherError
from ridgeline.runtime.launcher import (
    check_launch,
    detect_launch,
    launch_ranks,
    ranks_that_died,
    start_program,
)
from ridgeline.runtime.mpiexec import mpiexec_environment


@pytest.mark.parametrize(
    ("environ", "size", "rank"),
    [
        ({"PMI_SIZE": "4", "PMI_RANK": "3"}, 4, 3),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, 2, 1),
        ({"SLURM_STEP_NUM_TASKS": "64", "SLURM_PROCID": "17"}, 64, 17),
        ({"PMI_SIZE": "1", "PMI_RANK": "0", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "5"}, 8, 5),
    ],
)
def test_launch_is_read_from_the_environment(environ, size, rank):
    launch = detect_launch(environ)
    assert launch is not None
    assert (launch.size, launch.rank) == (size, rank)


# A shell that `srun --mpi=pmi2 --pty` started, and one that salloc started with use_interactive_step.
SHELL = {
    "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SLURM_NODELIST": "n1", "SLURM_TASKS_PER_NODE": "1",
    "SLURM_STEP_ID": "0", "SLURM_STEPID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_NODELIST": "n1",
    "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_GTIDS": "0", "SLURM_TASK_PID": "99",
    "SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "SLURM_CPU_BIND_TYPE": "mask_cpu:", "SLURM_SRUN_COMM_PORT": "4",
    "PMI_FD": "11", "PMI_JOBID": "7.0", "PMI_RANK": "0", "PMI_SIZE": "1", "PMIX_RANK": "0",
}  # fmt: skip
OF_A_PERSON = {
    "PATH": "/bin", "SLURM_MPI_TYPE": "pmi2", "OMPI_MCA_btl": "self", "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "PMIX_MCA_gds": "hash", "PMI_DEBUG": "1", "HYDRA_IFACE": "lo", "MPICH_OFI_NIC_POLICY": "NUMA",
}  # fmt: skip
JOB = ("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_NODELIST", "SLURM_TASKS_PER_NODE")


@pytest.mark.parametrize(
    "environ",
    [{}, {"SLURM_NTASKS": "64", "SLURM_PROCID": "0"}, {"PMI_SIZE": "many"}, {"PMI_SIZE": "1"}, SHELL],
)
def test_no_launcher_is_no_launcher(environ):
    assert detect_launch(environ) is None


@pytest.mark.parametrize(
    ("changes", "added"),
    [
        ({}, {"HYDRA_LAUNCHER": "fork"}),
        ({"HYDRA_LAUNCHER": "ssh"}, {"HYDRA_LAUNCHER": "ssh"}),
        ({"SLURM_JOB_NUM_NODES": "2"}, {"SLURM_OVERLAP": "1"}),
    ],
)
def test_ranks_of_an_interactive_shell_get_the_job_and_not_the_step_of_the_shell(
    tmp_path, monkeypatch, changes, added
):
    launcher(tmp_path, monkeypatch, "env")
    printed = []
    of_a_study = child_environment(SHELL | OF_A_PERSON | changes)  # which starts `ridgeline run -n 2`
    assert not {"PMI_FD", "PMI_SIZE", "PMIX_RANK"} & of_a_study.keys()
    assert launch_ranks(2, [], of_a_study, heard=printed.append) == 0
    given = dict(line.split("=", 1) for line in b"".join(printed).decode().splitlines())
    assert OF_A_PERSON.items() <= given.items()
    assert {name: given.get(name) for name in JOB} == {name: (SHELL | changes)[name] for name in JOB}
    assert not (SHELL.keys() - set(JOB)) & given.keys()
    shown = {name: given[name] for name in ("HYDRA_LAUNCHER", "SLURM_OVERLAP") if name in given}
    assert shown == added


def test_a_batch_script_keeps_the_binding_that_it_asks_srun_for(tmp_path, monkeypatch):
    environ = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_CPU_BIND": "cores"}
    given = mpiexec_environment(environ)
    assert given["SLURM_CPU_BIND"] == "cores"
    assert not {"SLURM_OVERLAP", "HYDRA_LAUNCHER"} & given.keys()


def test_ranks_that_think_they_are_alone_are_refused_with_the_fix():
    environ = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2"}
    with pytest.raises(LauncherError, match=r"Open MPI started 4 ranks.*MPICH 5.*ridgeline run CASE -n 4"):
        check_launch(1, "MPICH 5.0", environ)


@pytest.mark.parametrize(("world", "environ"), [(4, {"PMI_SIZE": "4"}), (1, {}), (1, {"PMI_SIZE": "1"})])
def test_matching_launchers_pass(world, environ):
    check_launch(world, "MPICH", environ)


@pytest.mark.parametrize(
    ("library", "cure"),
    [("MPICH 5.0", "pmi2"), ("CRAY MPICH version 8.1", "pmi2"), ("Open MPI v5.0.11", "pmix")],
)
def test_srun_without_pmi_is_refused_with_the_type_that_the_library_needs(library, cure):
    environ = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}
    with pytest.raises(LauncherError, match=rf"srun --mpi={cure}.*export SLURM_MPI_TYPE={cure}"):
        check_launch(1, library, environ)


def test_launcher_that_cannot_start_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("RIDGELINE_MPIEXEC", str(tmp_path / "nowhere"))
    with pytest.raises(LauncherError, match=r"cannot start .*nowhere.*RIDGELINE_MPIEXEC"):
        launch_ranks(2, [])


def launcher(tmp_path, monkeypatch, body):
    """Make a script the launcher."""
    path = tmp_path / "mpiexec"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    monkeypatch.setenv("RIDGELINE_MPIEXEC", str(path))


def test_a_job_that_is_over_is_killed_with_all_it_started(tmp_path, monkeypatch):
    launcher(tmp_path, monkeypatch, "sleep 600 & wait")
    assert launch_ranks(2, [], over=lambda: True, grace=0.0) == 128 + 9


def test_a_job_that_ends_is_not_waited_for(tmp_path, monkeypatch):
    launcher(tmp_path, monkeypatch, "exit 7")
    assert launch_ranks(2, [], over=lambda: False, grace=600.0) == 7


def test_what_a_job_prints_is_heard_and_still_appears(tmp_path, monkeypatch, capfd):
    launcher(tmp_path, monkeypatch, "echo told; echo wrong >&2")
    heard = []
    assert launch_ranks(2, [], heard=heard.append) == 0
    assert sorted(b"".join(heard).split()) == [b"told", b"wrong"]
    assert capfd.readouterr() == ("told\n", "wrong\n")


@pytest.mark.parametrize(
    ("name", "end", "code"),
    [
        ("TERM", 15, 128 + 15),
        ("TERM", 128 + 15, 128 + 15),
        ("TERM", 0, 0),
        ("TERM", 3, 3),
        ("INT", 15, 128 + 2),
        ("INT", 128 + 15, 128 + 2),
        ("USR1", 10, 128 + 10),
    ],
)
def test_a_job_that_a_signal_ended_has_the_exit_code_of_a_shell(tmp_path, monkeypatch, name, end, code):
    """Whatever a launcher makes of the signal that the ranks got: a first Ctrl-C reaches them as SIGTERM."""
    ready = tmp_path / "ready"
    launcher(tmp_path, monkeypatch, f"trap 'exit {end}' TERM USR1; touch {ready}; while :; do :; done")

    def interrupt() -> bool:
        if ready.exists():
            ready.unlink()
            signal.raise_signal(signal.Signals[f"SIG{name}"])
        return False

    assert launch_ranks(2, [], over=interrupt) == code


RANK = """
import os, pathlib, signal
from ridgeline.runtime.launcher import end_with_launcher
end_with_launcher()
pathlib.Path({ready!r}).with_suffix(".new").write_text(str(os.getpid()))
pathlib.Path({ready!r}).with_suffix(".new").rename({ready!r})
signal.pause()
"""


def test_ranks_die_with_the_launcher_though_a_proxy_goes_on(tmp_path, monkeypatch):
    """mpiexec is killed with the launcher, but not what it has started: here a process that waits for its rank."""
    ready, program, proxy = tmp_path / "ready", tmp_path / "rank.py", tmp_path / "proxy"
    program.write_text(RANK.format(ready=str(ready)))
    launcher(tmp_path, monkeypatch, f"({sys.executable} {program}; touch {proxy}) &\nwait")
    text = "from ridgeline.runtime.launcher import launch_ranks; launch_ranks(2, [])"
    with subprocess.Popen([sys.executable, "-c", text]) as process:
        while not ready.exists():
            assert process.poll() is None
        rank = os.pidfd_open(int(ready.read_text()))
        process.kill()
    ended, _, _ = select.select([rank], [], [], 30)
    os.close(rank)
    assert ended
    while not proxy.exists():  # it outlived the launcher and its rank
        pass


PROCESSES = [("n1", 50), ("n1", 51), ("n2", 50), ("n2", 77)]


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("=   PID 50 RUNNING AT n2\n=   EXIT CODE: 9\n", [2]),
        ("=   PID 77 RUNNING AT 10.0.0.2\n", [3]),
        ("=   PID 50 RUNNING AT 10.0.0.2\n", [0, 2]),
        ("x1000c0s0b0n0.hsn: rank 3 died from signal 9\n", [3]),
        ("mpiexec noticed that process rank 1 with PID 51 on node n1 exited on signal 9 (Killed).\n", [1]),
        ("srun: error: n2: task 2: Killed\n", [2]),
        ("srun: error: n2: tasks 0,2-3: Killed\n", [0, 2, 3]),
        ("rank 1: error: nothing died\nPID 999 RUNNING AT n1\nsrun: error: n9: task 12: Killed\n", []),
        ("", []),
    ],
)
def test_killed_ranks_are_read_from_the_words_of_launchers(text, ranks):
    assert ranks_that_died(text, PROCESSES) == ranks


def test_a_program_in_the_background_leaves_its_output_in_a_log(tmp_path):
    with (tmp_path / "log.txt").open("wb") as log:
        process = start_program(["--version"], tmp_path, log)
    assert process.wait(60) == 0
    assert "ridgeline" in (tmp_path / "log.txt").read_text()
    with (
        (tmp_path / "log.txt").open("wb") as log,
        pytest.raises(LauncherError, match="cannot start a job in"),
    ):
        start_program([], tmp_path / "missing", log)
