"""The `mpiexec` that belongs to the MPI library of this environment, and its variables. Imports no MPI."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ridgeline.runtime.environment import child_environment
from ridgeline.runtime.errors import LauncherError

_SECONDS = 20.0  # after which a program that should only print its version is stopped


@dataclass(frozen=True)
class MpiKind:
    """MPI libraries whose launchers can start each other's ranks.

    library, launcher: patterns of their version texts. programs: names of the launcher, the best first. srun: the
    value of Slurm's `--mpi`. advice: how to get a launcher.
    """

    name: str
    library: re.Pattern[str]
    launcher: re.Pattern[str]
    programs: tuple[str, ...]
    srun: str
    advice: str


# Cray MPICH, Intel MPI and MVAPICH are MPICH to a launcher.
_KINDS = (
    MpiKind(
        "Open MPI",
        re.compile(r"open mpi", re.IGNORECASE),
        re.compile(r"open mpi|openrte|\bprterun|prrte", re.IGNORECASE),
        ("mpiexec", "mpirun", "mpiexec.openmpi", "prterun"),
        "pmix",
        "Load the module or install the package that has the mpirun of this Open MPI (Debian: openmpi-bin)",
    ),
    MpiKind(
        "MPICH",
        re.compile(r"mpich|intel|mvapich", re.IGNORECASE),
        re.compile(r"hydra|mpich|intel|mvapich|pals", re.IGNORECASE),
        ("mpiexec", "mpiexec.hydra", "mpiexec.mpich"),
        "pmi2",
        "Install the mpich wheel (`pip install mpich`), or load your site's module",
    ),
)

# With these variables Open MPI 4 and 5 start ranks as MPICH does: also more than there are cores, and not bound to
# cores, so that the threads of a rank have cores. Variables that are already set keep their values.
_AS_MPICH = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}

# The variables by which Slurm describes its step to a task. `srun` would take those of CPUs for options of another
# step.
_OF_A_STEP = re.compile(
    r"SLURM_(STEP\w*|PROCID|LOCALID|NODEID|TASK_PID|GTIDS|LAUNCH_NODE_IPADDR|SRUN_COMM_\w+|PMIX\w*|CPU_BIND\w*)"
)


def kind_of_library(version: str) -> MpiKind | None:
    """Return the kind of an MPI library from its version text, or None if it is unknown."""
    return next((kind for kind in _KINDS if kind.library.search(version)), None)


def srun_type() -> str:
    """Return the value of Slurm's `--mpi` for the MPI library of this environment."""
    return (kind_of_library(_library_here()) or _KINDS[-1]).srun


def find_mpiexec() -> list[str]:
    """Return the command, without ranks, that starts ranks of this environment's MPI library.

    RIDGELINE_MPIEXEC has priority: a program, or a program with options. Otherwise it is the first program of the
    library's kind, beside the interpreter or on the PATH, whose version does not say that it belongs to another kind.
    Raises LauncherError, which says what to do, if there is none.
    """
    chosen = os.environ.get("RIDGELINE_MPIEXEC")
    if chosen:
        return [chosen] if os.path.exists(chosen) else shlex.split(chosen)
    kind = kind_of_library(_library_here())
    others = []
    # The installed launchers: beside the interpreter, then in every folder of the PATH.
    folders = (Path(sys.prefix) / "bin", *map(Path, os.get_exec_path()))
    for place in (folder / name for folder in folders for name in (kind.programs if kind else ("mpiexec",))):
        if not os.access(place, os.X_OK) or not place.is_file():
            continue
        program = str(place)
        belongs_to = kind_of_launcher(_output(program, "--version"))
        if kind is None or belongs_to in (kind, None):
            return [program]
        others.append(program)
    wanted = f"for {kind.name}, the MPI library of this Python, " if kind else ""
    verb = "belong" if others[1:] else "belongs"
    unusable = f" ({', '.join(others)} {verb} to another MPI)" if others else ""
    raise LauncherError(
        f"no mpiexec {wanted}was found beside the interpreter or on the PATH{unusable}. "
        f"{(kind or _KINDS[-1]).advice}, or set RIDGELINE_MPIEXEC to your site's launcher."
    )


def kind_of_launcher(version: str) -> MpiKind | None:
    """Return the kind of a launcher from its version text, or None if it is unknown."""
    return next((kind for kind in _KINDS if kind.launcher.search(version)), None)


@cache
def _library_here() -> str:
    """Return the version text of the MPI library, which another process loads; "" if it does not load."""
    program = (
        "import mpi4py; mpi4py.rc.initialize = mpi4py.rc.finalize = False; from mpi4py import MPI; "
        "print(MPI.Get_library_version())"
    )
    return _output(sys.executable, "-P", "-c", program)


def _output(*command: str) -> str:
    """Return the output of a command, or "" if it fails."""
    try:
        done = subprocess.run(
            command,
            env=child_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def mpiexec_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables for an mpiexec that this process starts.

    environ: in place of this process's variables.
    """
    given = child_environment(environ)
    for name, value in _AS_MPICH.items():
        given.setdefault(name, value)
    if "SLURM_STEP_ID" not in given:
        return given
    given = {name: value for name, value in given.items() if not _OF_A_STEP.fullmatch(name)}
    # In a shell that srun started, the step of the shell holds the job's cores. MPICH's mpiexec would wait for ever
    # for another step. On one node it needs none, and on several nodes the steps may share cores.
    if given.get("SLURM_JOB_NUM_NODES") != "1":
        given.setdefault("SLURM_OVERLAP", "1")
    elif "HYDRA_BOOTSTRAP" not in given:
        given.setdefault("HYDRA_LAUNCHER", "fork")
    return given
