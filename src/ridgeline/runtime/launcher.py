"""Starting this command line as MPI ranks or in the background, and detecting the launcher that started it.

Before ranks are started, `check_ranks` compares their number with the cores and the memory of the nodes, so that a
mistyped number does not bring a machine down. Imports no MPI.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from ridgeline.runtime.environment import check_limits, child_environment
from ridgeline.runtime.errors import ConfigError, LauncherError
from ridgeline.runtime.machine import cores_available, node_memory_available
from ridgeline.runtime.mpiexec import find_mpiexec, kind_of_library, mpiexec_environment
from ridgeline.runtime.process_watch import ProcessWatch, process_space
from ridgeline.runtime.signals import release_stop_signals, stop_handlers
from ridgeline.runtime.units import number

# Set by --oversubscribe, so that the jobs that a study or a sweep starts inherit it.
OVERSUBSCRIBE = "RIDGELINE_OVERSUBSCRIBE"
# Bytes that a rank takes before it computes anything: Python, its libraries, MPI and compiled code, as measured,
# without what ranks share.
RANK_BYTES = 100 * 10**6
SRUN = "Slurm srun"

_FEWEST = 16  # ranks that any machine may be given: tests and tutorials use that many on few cores
_PER_CORE = 4
_POLL = 0.1  # seconds between two looks at a job that may have to be killed
# Set for the ranks that `launch_ranks` starts: the process of their launcher.
_LAUNCHED = "RIDGELINE_LAUNCHED"
# Where batch systems say which nodes a job has: a file with a host in each line, once or several times.
_NODE_FILES = ("PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE", "HYDRA_HOST_FILE")
# Variables by which launchers tell a process the size of its job step, and its rank in it. Slurm's variables
# count only where srun started this very process: a batch script sees SLURM_NTASKS without being a task.
_LAUNCHERS = (
    ("Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    (SRUN, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    ("MPICH Hydra or PALS", "PMI_SIZE", "PMI_RANK"),
    ("MVAPICH", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),
)
# How launchers name a rank that was killed. Hydra names a process and its host, the others a rank: PALS ("rank 3 died
# from signal 9"), Open MPI ("process rank 3 with PID ... exited on signal 9"), srun ("task 3: Killed", "tasks 3-5:
# Killed").
_DEAD_PROCESS = re.compile(r"PID (\d+) RUNNING AT (\S+)")
_DEAD_RANK = re.compile(
    r"\brank (\d+)\b[^\n]*\b(?:died|exited) (?:from|on) signal|\btasks? ([\d,-]+): Killed"
)


@dataclass(frozen=True)
class Launch:
    """What the environment says about the launcher: its name, the number of ranks and this process's rank."""

    launcher: str
    size: int
    rank: int


def detect_launch(environ: Mapping[str, str] | None = None) -> Launch | None:
    """Return what started this process as one of several ranks, or None.

    A job of one rank does not count, because an interactive shell of a batch system looks the same.
    """
    environ = os.environ if environ is None else environ
    found = None
    for launcher, size_name, rank_name in _LAUNCHERS:
        try:
            launch = Launch(launcher, int(environ[size_name]), int(environ.get(rank_name, "0")))
        except (KeyError, ValueError):
            continue
        if launch.size > (1 if found is None else found.size):
            found = launch
    return found


def may_print() -> bool:
    """Say whether this process is the rank that prints, known before MPI starts."""
    launch = detect_launch()
    return launch is None or launch.rank == 0


def check_launch(world_size: int, library: str, environ: Mapping[str, str] | None = None) -> None:
    """Raise LauncherError if the launcher started several ranks but MPI sees only this one."""
    launch = detect_launch(environ)
    if launch is None or world_size > 1:
        return
    kind = kind_of_library(library)
    if launch.launcher == SRUN and kind is not None:
        cure = (
            f"Start them with `srun --mpi={kind.srun}`, or run `export SLURM_MPI_TYPE={kind.srun}` first "
            f"(`srun --mpi=list` lists the types that this Slurm has)."
        )
    else:
        cure = (
            f"Start with the launcher that belongs to the library (`ridgeline run CASE -n {launch.size}` finds it), "
            f"or install mpi4py for the launcher's MPI."
        )
    raise LauncherError(
        f"{launch.launcher} started {launch.size} ranks, but the MPI library ({library}) sees only this one, "
        f"so {launch.size} identical runs would overwrite each other. {cure}"
    )


def nodes_of_job(environ: Mapping[str, str] | None = None) -> int:
    """Return the number of nodes that the batch system gives this job; 1 outside a batch job."""
    environ = os.environ if environ is None else environ
    with suppress(KeyError, ValueError):
        return max(1, int(environ["SLURM_JOB_NUM_NODES"]))
    for name in _NODE_FILES:
        with suppress(KeyError, OSError, ValueError):
            lines = Path(environ[name]).read_text().splitlines()
            return max(1, len({line.split()[0].split(":")[0] for line in lines if line.strip()}))
    return 1


def check_ranks(ranks: int, environ: Mapping[str, str] | None = None) -> None:
    """Raise ConfigError if this many ranks are more than the nodes of this job can take.

    More than max(16, 4 x usable cores) ranks on a node need --oversubscribe. More than the free memory of a node can
    hold are always an error.
    """
    environ = os.environ if environ is None else environ
    nodes, cores = nodes_of_job(environ), cores_available()
    most, here = max(_FEWEST, _PER_CORE * cores), -(-ranks // nodes)
    # On several nodes, the ranks of one of them count.
    what = f"{ranks} ranks (-n, --ranks)" + (f", {here} on each of {nodes} nodes," if nodes > 1 else "")
    if here > most and environ.get(OVERSUBSCRIBE, "") in ("", "0"):
        raise ConfigError(
            f"{what} are more than the {most} that are started on {cores} usable cores. Use -n {nodes * cores} for "
            "one rank on each core, or --oversubscribe to start more."
        )
    needed, free = here * RANK_BYTES, node_memory_available()
    if needed > free:
        raise ConfigError(
            f"{what} need {number(needed, 'B')} of memory before they compute anything, but only "
            f"{number(free, 'B')} are free. Use at most -n {nodes * max(1, free // RANK_BYTES)}."
        )


def this_program() -> list[str]:
    """Return the command that starts this program again. Without -P a numpy.py beside a case would be imported."""
    return [sys.executable, "-P", "-m", "ridgeline"]


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent dies, so that a killed job leaves no processes behind."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def start_program(arguments: Sequence[str], directory: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start `ridgeline ARGUMENTS` in the background, in a process that dies with this one.

    Parameters
    ----------
    arguments
        Of the command line. `-n` among them makes the new process start ranks (`launch_ranks`).
    directory
        Where the process starts.
    output
        File that gets what the process prints, on both of its outputs. It may be closed afterwards.

    Raises
    ------
    LauncherError
        If the process cannot be started there.
    """
    try:
        return subprocess.Popen(
            [*this_program(), *arguments],
            cwd=directory,
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
    except OSError as error:
        raise LauncherError(f"cannot start a job in {directory}: {error.strerror}.") from None


def end_with_launcher() -> None:
    """Make this rank end when its launcher is killed, if `ridgeline -n` started it. Call before anything else.

    It ends with its parent, which is a proxy of mpiexec, and with the launcher itself if that is on this machine,
    because a proxy that is still starting ranks may survive the launcher.
    """
    launched = os.environ.get(_LAUNCHED)
    if launched is None:
        return
    die_with_parent()
    process, space = launched.split(" ", 1)
    if space and space == process_space():
        ProcessWatch([int(process)], lambda _: os.kill(os.getpid(), signal.SIGKILL))


def launch_ranks(
    n_ranks: int,
    arguments: Sequence[str],
    environ: Mapping[str, str] | None = None,
    over: Callable[[], bool] | None = None,
    grace: float = 5.0,
    heard: Callable[[bytes], None] | None = None,
) -> int:
    """Run `python -m ridgeline ARGUMENTS` on n_ranks ranks and return the job's exit code.

    SIGTERM, SIGUSR1 and SIGINT are forwarded to the ranks, which end at the next step with a checkpoint.
    The job gets a separate session, so that Ctrl-C reaches it only through us.

    Parameters
    ----------
    n_ranks, arguments
        The number of ranks, and the arguments of the command line.
    environ
        Variables in place of this process's.
    over
        Called several times a second. Once it returns true, the job has `grace` seconds to end before it is killed,
        for a launcher that waits for a host that has failed.
    heard
        Called in threads with every piece that the launcher and the ranks print, which is still printed. Launchers
        name the rank that was killed.

    Raises
    ------
    ConfigError
        For more ranks than a machine can take (`check_ranks`).
    LauncherError
        If there is no launcher.
    """
    check_limits()
    check_ranks(n_ranks, environ)

    def prepare_mpiexec() -> None:
        die_with_parent()
        release_stop_signals()  # mpiexec would inherit that this process holds them back

    command = [*find_mpiexec(), "-n", str(n_ranks), *this_program(), *arguments]
    try:
        job = subprocess.Popen(
            command,
            env=mpiexec_environment(environ) | {_LAUNCHED: f"{os.getpid()} {process_space()}"},
            start_new_session=True,
            stdout=None if heard is None else subprocess.PIPE,
            stderr=None if heard is None else subprocess.PIPE,
            preexec_fn=prepare_mpiexec,
        )
    except OSError as error:
        raise LauncherError(
            f"cannot start {command[0]}: {error.strerror}. Check RIDGELINE_MPIEXEC."
        ) from None

    received: list[int] = []
    sent: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        # Hydra kills the job on SIGINT, which is what a second Ctrl-C is for. A first one is sent on as SIGTERM, on
        # which the ranks write a checkpoint and end.
        first = number == signal.SIGINT and signal.SIGINT not in received
        received.append(number)
        sent.append(signal.SIGTERM if first else number)
        job.send_signal(sent[-1])

    listeners = [
        threading.Thread(target=_pass_on, args=(pipe, number, heard), daemon=True)
        for number, pipe in ((1, job.stdout), (2, job.stderr))
        if pipe is not None
    ]
    for listener in listeners:
        listener.start()
    with stop_handlers(forward):
        code = job.wait() if over is None else _wait_bounded(job, over, grace)
    for listener in listeners:
        listener.join(grace)  # a process that was left behind may hold the other end
    # A launcher's exit code for a rank that a signal ended is that signal, its negative or 128 more. If the signal
    # was sent from here, the exit code is a shell's for the signal that this process received.
    if any(code in (-number, number, 128 + number) for number in sent):
        return 128 + received[0]
    return 128 - code if code < 0 else code


def _wait_bounded(job: subprocess.Popen[bytes], over: Callable[[], bool], grace: float) -> int:
    """Return the exit code of a job; kill its session `grace` seconds after `over` returns true."""
    deadline = None
    while True:
        try:
            return job.wait(_POLL)
        except subprocess.TimeoutExpired:
            if deadline is None and over():
                deadline = time.monotonic() + grace
        if deadline is not None and time.monotonic() > deadline:
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            return job.wait()


def _pass_on(pipe: IO[bytes], output: int, heard: Callable[[bytes], None] | None) -> None:
    """Copy what comes out of a pipe to a file descriptor, and to the listener."""
    with pipe, open(output, "wb", buffering=0, closefd=False) as target:
        while piece := os.read(pipe.fileno(), 65536):
            if heard is not None:
                heard(piece)
            with suppress(OSError):  # nobody reads any more; the job must not wait for that
                target.write(piece)


def ranks_that_died(text: str, processes: Sequence[Sequence[str | int]]) -> list[int]:
    """Return the ranks that a launcher's messages name as killed, in order.

    processes: host name and process id of every rank.
    """
    dead: set[int] = set()
    for pid, host in _DEAD_PROCESS.findall(text):
        alike = [rank for rank, process in enumerate(processes) if process[1] == int(pid)]
        there = [rank for rank in alike if processes[rank][0] == host]
        dead.update(there or alike)  # the launcher may know the host by an address
    for rank, tasks in _DEAD_RANK.findall(text):
        for part in (rank or tasks).split(","):
            first, _, last = part.partition("-")
            if first.isdigit():
                dead.update(range(int(first), int(last or first) + 1))
    return sorted(rank for rank in dead if rank < len(processes))
