"""Finding the `mpiexec` that belongs to the MPI library of this environment, and its variables. Imports no MPI."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ridgeline.runtime.environment import child_environment
from ridgeline.runtime.errors import LauncherError

_SECONDS = 20.0  # after which a program that only says its version is stopped


@dataclass(frozen=True)
class MpiKind:
    """Libraries whose launchers start each other's ranks.

    library, launcher: patterns of their version texts. programs: names of the launcher, the best first. srun: value
    of Slurm's `--mpi`. advice: how to get a launcher.
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
        "load the module, or install the package, that has the mpirun of this Open MPI (Debian: openmpi-bin)",
    ),
    MpiKind(
        "MPICH",
        re.compile(r"mpich|intel|mvapich", re.IGNORECASE),
        re.compile(r"hydra|mpich|intel|mvapich|pals", re.IGNORECASE),
        ("mpiexec", "mpiexec.hydra", "mpiexec.mpich"),
        "pmi2",
        "install the `mpich` wheel (`pip install mpich`), or load your site's module",
    ),
)

# Open MPI 4 and 5 then start ranks as MPICH does: more than there are cores, and bound to none, so that the threads
# of a rank have cores. Variables that are set already stay.
_AS_MPICH = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}

# What Slurm tells a task of its step. Its CPUs stand where `srun` would take them for options of another step.
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

    RIDGELINE_MPIEXEC wins: a program, or a program with options. Otherwise it is the first program of the library's
    kind, beside the interpreter or on the PATH, whose version does not say that it belongs to another kind.
    Raises LauncherError, with what to do, if there is none.
    """
    chosen = os.environ.get("RIDGELINE_MPIEXEC")
    if chosen:
        return [chosen] if os.path.exists(chosen) else shlex.split(chosen)
    kind = kind_of_library(_library_here())
    others = []
    for program in _programs(kind):
        belongs_to = kind_of_launcher(_output(program, "--version"))
        if kind is None or belongs_to in (kind, None):
            return [program]
        others.append(program)
    wanted = f"for {kind.name}, the MPI library of this Python, " if kind else ""
    found = f"; {', '.join(others)} {'belong' if others[1:] else 'belongs'} to another MPI" if others else ""
    raise LauncherError(
        f"no mpiexec {wanted}found beside the interpreter or on the PATH{found}; "
        f"{(kind or _KINDS[-1]).advice}, or set RIDGELINE_MPIEXEC to your site's launcher"
    )


def kind_of_launcher(version: str) -> MpiKind | None:
    """Return the kind of a launcher from its version text, or None if it is unknown."""
    return next((kind for kind in _KINDS if kind.launcher.search(version)), None)


def _programs(kind: MpiKind | None) -> Iterator[str]:
    """Yield the installed launchers: beside the interpreter, then in every folder of the PATH."""
    names = kind.programs if kind else ("mpiexec",)
    for folder in (Path(sys.prefix) / "bin", *map(Path, os.get_exec_path())):
        for name in names:
            if os.access(folder / name, os.X_OK) and (folder / name).is_file():
                yield str(folder / name)


@cache
def _library_here() -> str:
    """Return the version text of the MPI library, loaded in another process; "" if it does not load."""
    program = (
        "import mpi4py; mpi4py.rc.initialize = mpi4py.rc.finalize = False; from mpi4py import MPI; "
        "print(MPI.Get_library_version())"
    )
    return _output(sys.executable, "-P", "-c", program)


def _output(*command: str) -> str:
    """Return what a command prints, or "" if it fails."""
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
    """Return the variables that an mpiexec which this process starts should have.

    environ: in place of this process's variables.
    """
    given = child_environment(environ)
    for name, value in _AS_MPICH.items():
        given.setdefault(name, value)
    if "SLURM_STEP_ID" not in given:
        return given
    given = {name: value for name, value in given.items() if not _OF_A_STEP.fullmatch(name)}
    # In a shell that srun started, the shell's step holds the job's cores. MPICH's mpiexec would wait for ever for a
    # step of its own: on one node it needs none, and on several the steps may share cores.
    if given.get("SLURM_JOB_NUM_NODES") != "1":
        given.setdefault("SLURM_OVERLAP", "1")
    elif "HYDRA_BOOTSTRAP" not in given:
        given.setdefault("HYDRA_LAUNCHER", "fork")
    return given
