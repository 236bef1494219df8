"""Scripts for a batch system: an array job for each number of ranks and threads, whose tasks are the jobs missing.

The binding comes from `ridgeline bind` on the node where a task begins, so that the login node may differ from it.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeline.runtime.environment import child_environment
from ridgeline.runtime.errors import ConfigError, LauncherError
from ridgeline.runtime.files import output_errors, replace_file
from ridgeline.runtime.launcher import this_program
from ridgeline.runtime.machine import cores_available
from ridgeline.runtime.mpiexec import srun_type
from ridgeline.runtime.user_code import NO_PYTHON
from ridgeline.study.folder import ADVICE, ERROR, LOG, StudyJob, clear, read_status
from ridgeline.study.plan import Plan
from ridgeline.study.study_options import SubmitOptions

FOLDER = "submit"
COMMAND = "command.sh"  # of a job: what every rank executes
SUBMITTERS = {"slurm": "sbatch", "pbs": "qsub"}


@dataclass(frozen=True)
class Batch:
    """The jobs that one array job runs: all on as many ranks of as many threads."""

    ranks: int
    threads: int
    per_node: int
    jobs: tuple[StudyJob, ...]

    @property
    def nodes(self) -> int:
        """Nodes of each task."""
        return math.ceil(self.ranks / self.per_node)

    @property
    def stem(self) -> str:
        """Name of the script and of the list of jobs."""
        return f"ranks_{self.ranks}" + (f"_threads_{self.threads}" if self.threads > 1 else "")


def write_scripts(plan: Plan, jobs: Sequence[StudyJob], options: SubmitOptions, root: Path) -> list[Path]:
    """Write the scripts for the jobs that are not done, and what each job executes; return the scripts' paths.

    root: the study's folder. Raises OutputError, ConfigError.
    """
    waiting = [job for job in jobs if read_status(job.folder).state != "done"]
    folder = root / FOLDER
    scripts = []
    with output_errors(f"write into {folder}", ADVICE):
        folder.mkdir(exist_ok=True)
        for batch in make_batches(waiting, options):
            for job in batch.jobs:
                clear(job, plan)
                replace_file(job.folder / COMMAND, command_script(job).encode())
            names = [str(job.folder) for job in batch.jobs]
            replace_file(folder / f"{batch.stem}.txt", ("\n".join(names) + "\n").encode())
            path = folder / f"{batch.stem}.{options.submit}"
            replace_file(path, make_script(batch, options, folder, plan.subject.name).encode())
            scripts.append(path)
    return scripts


def make_batches(jobs: Sequence[StudyJob], options: SubmitOptions) -> list[Batch]:
    """Return jobs by ranks and threads, the fewest first, in their order."""
    shapes = sorted({(job.point.ranks, job.point.threads) for job in jobs})
    return [
        Batch(
            ranks,
            threads,
            min(ranks, options.ranks_per_node or max(1, cores_available() // threads)),
            tuple(job for job in jobs if (job.point.ranks, job.point.threads) == (ranks, threads)),
        )
        for ranks, threads in shapes
    ]


def command_script(job: StudyJob) -> str:
    """Return what every rank of a job executes."""
    command = shlex.join([*this_program(), *job.arguments])
    no_python = f"export {NO_PYTHON}=1\n" if os.environ.get(NO_PYTHON) else ""
    return f"{no_python}cd {shlex.quote(str(job.directory))} || exit 1\nexec {command}\n"


def make_script(batch: Batch, options: SubmitOptions, folder: Path, name: str) -> str:
    """Return the script of an array job."""
    system = _slurm if options.submit == "slurm" else _pbs
    head, index, start, launcher = system(batch, options, folder, re.sub(r"[^\w.+-]", "_", name))
    launch = shlex.join([*start, *options.launcher_option])
    ridgeline = shlex.join(this_program())
    return "\n".join(
        [
            "#!/bin/sh",
            *head,
            f"index={index}",
            f'job=$(sed -n "$((index + 1))p" {shlex.quote(str(folder / f"{batch.stem}.txt"))})',
            '[ -n "$job" ] && cd "$job" || exit 1',
            f"bind=$({ridgeline} bind --ranks-per-node {batch.per_node} --for {launcher}) || exit 1",
            *(_MPI_TYPE.format(srun_type()) if launcher == "srun" else "").splitlines(),
            f"{launch} $bind sh {COMMAND} > {LOG} 2>&1",
            "code=$?",
            f'[ "$code" -eq 0 ] || {{ echo "exit code $code"; grep "^error:" {LOG} || tail -n 5 {LOG}; }} > {ERROR}',
            'exit "$code"',
            "",
        ]
    )


# Slurm's own default starts ranks that do not find each other.
_MPI_TYPE = """\
if scontrol show config 2> /dev/null | grep "^MpiDefault *= none" > /dev/null; then
    export SLURM_MPI_TYPE="${{SLURM_MPI_TYPE:-{}}}"
fi
"""


def _slurm(
    batch: Batch, options: SubmitOptions, folder: Path, name: str
) -> tuple[list[str], str, list[str], str]:
    lines = [
        f"--job-name={name}-{batch.stem}",
        f"--array=0-{len(batch.jobs) - 1}",
        f"--nodes={batch.nodes}",
        f"--ntasks={batch.ranks}",
        f"--ntasks-per-node={batch.per_node}",
        f"--cpus-per-task={batch.threads}",
        "--exclusive",
        f"--time={options.time}",
        # Slurm takes quotes, and % for the start of a pattern such as %a.
        f"--output={shlex.quote(f'{folder}/'.replace('%', '%%') + f'{batch.stem}-%a.out')}",
        *options.directive,
    ]
    # Without --kill-on-bad-exit the other ranks would wait for one that died until the time limit.
    start = ["srun", "--kill-on-bad-exit", "-n", str(batch.ranks)]
    return [f"#SBATCH {line}" for line in lines], "${SLURM_ARRAY_TASK_ID}", start, "srun"


def _pbs(
    batch: Batch, options: SubmitOptions, folder: Path, name: str
) -> tuple[list[str], str, list[str], str]:
    cores = batch.per_node * batch.threads
    lines = [
        f"-N {f'{name}-{batch.stem}'[:15]}",
        f"-l select={batch.nodes}:ncpus={cores}:mpiprocs={batch.per_node}",
        "-l place=scatter:excl",
        f"-l walltime={options.time}",
        "-j oe",
        f"-o {shlex.quote(f'{folder}/')}",
        *options.directive,
    ]
    if len(batch.jobs) > 1:  # PBS has no array of one job
        lines.insert(1, f"-J 0-{len(batch.jobs) - 1}")
    return (
        [f"#PBS {line}" for line in lines],
        "${PBS_ARRAY_INDEX:-0}",
        ["mpiexec", "-n", str(batch.ranks)],
        "pals",
    )


def submit(scripts: Sequence[Path], system: str) -> list[str]:
    """Submit scripts; return what the batch system prints for each. Raises LauncherError if it refuses one."""
    name = SUBMITTERS[system]
    program = shutil.which(name)
    if program is None:
        raise ConfigError(
            f"--now requires the command {name}, which is not on the PATH. Leave --now out, and submit the scripts "
            "on a machine that has it."
        )
    said = []
    for script in scripts:
        done = subprocess.run(
            [program, str(script)], env=child_environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            why = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise LauncherError(
                f"{name} refuses {script}: {why.rstrip('.')}. Correct the script with --directive or --time, or edit "
                "it."
            )
        said.append(done.stdout.strip())
    return said
