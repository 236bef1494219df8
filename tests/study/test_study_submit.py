"""Scripts for batch systems, executed with stand-ins of sbatch, qsub, srun and mpiexec."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import ridgeline.study.submit as submit_module
from ridgeline.runtime.errors import ConfigError, LauncherError
from ridgeline.study.folder import read_status
from ridgeline.study.jobs import run_jobs
from ridgeline.study.study_options import SubmitOptions
from ridgeline.study.submit import command_script, make_batches, submit, write_scripts
from study_tools import Runner, prepared

STRONG = {"strong": True, "ranks": (1, 4), "repeat": 2}
# Stands in for `python -P -m ridgeline`: `bind` says what it was asked, a run writes its report or fails.
RIDGELINE = """\
#!/bin/sh
shift 3
echo "$@" >> {calls}
[ "$1" = bind ] && {{ echo "--bound-as $3-$5"; exit 0; }}
case "$*" in *n4/2/*) echo "error: no route to host"; exit 7;; esac
for last; do :; done
echo '{{}}' > "$last"
"""
LAUNCHER = """\
#!/bin/sh
echo "$(basename "$0") $*" >> {calls}
while [ "$1" != sh ]; do shift; done
exec "$@"
"""


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """Programs of a batch system on PATH; returns a function that reads and forgets what was called."""
    calls = tmp_path / "calls.txt"
    folder = tmp_path / "bin"
    folder.mkdir()

    def program(name, text):
        path = folder / name
        path.write_text(text.format(calls=calls))
        path.chmod(0o755)
        return str(path)

    for name in ("srun", "mpiexec"):
        program(name, LAUNCHER)
    monkeypatch.setattr(sys, "executable", program("python", RIDGELINE))
    monkeypatch.setattr(submit_module, "srun_type", lambda: "pmi2")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def called():
        text = calls.read_text() if calls.exists() else ""
        calls.unlink(missing_ok=True)
        return text.splitlines()

    called.program = program  # type: ignore[attr-defined]
    return called


def scripts_of(tmp_path, system, given=STRONG, **options):
    study, plan, jobs = prepared(tmp_path, given)
    asked = SubmitOptions(submit=system, ranks_per_node=2, **options)
    return study, jobs, write_scripts(plan, jobs, asked, study.path)


def directives(script: Path, mark: str) -> list[str]:
    return re.findall(rf"^#{mark} (.*)$", script.read_text(), re.MULTILINE)


def execute(script: Path, **variables: str) -> int:
    return subprocess.run(["sh", str(script)], env={**os.environ, **variables}, check=False).returncode


def test_slurm(tmp_path, stand_ins):
    study, jobs, (one, four) = scripts_of(tmp_path, "slurm", directive=("--account=abc",))
    assert [path.name for path in (one, four)] == ["ranks_1.slurm", "ranks_4.slurm"]
    found = directives(four, "SBATCH")
    for line in ("--array=0-1", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2", "--time=00:30:00"):
        assert line in found
    assert "--account=abc" in found
    assert "--nodes=1" in directives(one, "SBATCH")
    listed = (four.parent / "ranks_4.txt").read_text().split()
    assert sorted(listed) == sorted(str(job.folder) for job in jobs if job.point.ranks == 4)
    assert stand_ins() == []  # nothing is submitted, nothing runs
    codes = {Path(name).name: execute(four, SLURM_ARRAY_TASK_ID=str(n)) for n, name in enumerate(listed)}
    assert codes == {"1": 0, "2": 7}
    assert execute(four, SLURM_ARRAY_TASK_ID="2") == 1  # of an array that somebody made longer
    calls = stand_ins()
    assert [call for call in calls if call.startswith("srun")] == [
        "srun --kill-on-bad-exit -n 4 --bound-as 2-srun sh command.sh"
    ] * 2
    assert sum(call.startswith("run ") for call in calls) == 2
    good, bad = (study.path / "points" / "n4" / number for number in "12")
    assert (good / "report.json").exists()
    assert not (good / "error.txt").exists()
    assert read_status(bad).why == "exit code 7 error: no route to host"


def test_pbs(tmp_path, stand_ins):
    _, _, (one, four) = scripts_of(tmp_path, "pbs", time="01:00:00", directive=("-q prod", "-A abc"))
    found = directives(four, "PBS")
    for line in ("-J 0-1", "-l select=2:ncpus=2:mpiprocs=2", "-l walltime=01:00:00", "-q prod", "-A abc"):
        assert line in found
    assert len(next(line for line in found if line.startswith("-N"))) <= len("-N ") + 15
    assert execute(one, PBS_ARRAY_INDEX="1") == 0
    assert "mpiexec -n 1 --bound-as 1-pals sh command.sh" in stand_ins()


@pytest.mark.parametrize(
    ("default", "given", "used"), [("none", "", "pmi2"), ("none", "pmix", "pmix"), ("cray_shasta", "", "")]
)
def test_srun_gets_a_type_of_pmi_where_slurm_s_default_has_none(tmp_path, stand_ins, default, given, used):
    stand_ins.program("scontrol", f"#!/bin/sh\necho 'MpiDefault              = {default}'\n")
    stand_ins.program("srun", 'echo "type $SLURM_MPI_TYPE" >> {calls}\n' + LAUNCHER)
    _, _, (one, _) = scripts_of(tmp_path, "slurm")
    assert execute(one, SLURM_ARRAY_TASK_ID="0", **{"SLURM_MPI_TYPE": given} if given else {}) == 0
    assert f"type {used}" in stand_ins()


@pytest.mark.parametrize(("system", "launcher"), [("slurm", "srun --kill-on-bad-exit"), ("pbs", "mpiexec")])
def test_options_for_the_launcher_and_a_folder_with_a_space(tmp_path, stand_ins, system, launcher):
    folder = tmp_path / "a study of 5% # and more"
    folder.mkdir()
    _, _, (script, _) = scripts_of(folder, system, launcher_option=("--mpi=pmi2", "-x A B"))
    mark, option = {"slurm": ("SBATCH", "--output="), "pbs": ("PBS", "-o ")}[system]
    (line,) = (line for line in directives(script, mark) if line.startswith(option))
    (path,) = shlex.split(line.removeprefix(option))
    name = "ranks_1-%a.out" if system == "slurm" else ""
    assert path == f"{script.parent}/".replace("%", "%%" if system == "slurm" else "%") + name
    assert execute(script, SLURM_ARRAY_TASK_ID="0", PBS_ARRAY_INDEX="0") == 0
    assert f"{launcher} -n 1 --mpi=pmi2 -x A B --bound-as 1-" in "\n".join(stand_ins())


def test_an_array_of_one(tmp_path, stand_ins):
    _, _, (script,) = scripts_of(tmp_path, "pbs", {"ranks": (2,), "repeat": 1})
    assert not [line for line in directives(script, "PBS") if line.startswith("-J")]
    assert execute(script) == 0
    assert stand_ins()[-1].startswith("run ")
    _, _, (script,) = scripts_of(tmp_path, "slurm", {"ranks": (2,), "repeat": 1})
    assert "--array=0-0" in directives(script, "SBATCH")


def test_only_missing_jobs_are_in_the_scripts(tmp_path, stand_ins):
    study, plan, jobs = prepared(tmp_path, STRONG)
    Runner(wrong={"n4/1": 3}).run(run_jobs, plan, jobs, study.path, print)
    _, _, (script,) = scripts_of(tmp_path, "slurm")
    assert "--array=0-0" in directives(script, "SBATCH")
    Runner().run(run_jobs, plan, jobs, study.path, print)
    assert scripts_of(tmp_path, "slurm")[2] == []


def test_scripts_forbid_python_where_the_study_did(tmp_path, stand_ins, monkeypatch):
    monkeypatch.setenv("RIDGELINE_NO_PYTHON", "1")
    _, jobs, _ = scripts_of(tmp_path, "slurm")
    assert command_script(jobs[0]).startswith("export RIDGELINE_NO_PYTHON=1\n")
    monkeypatch.delenv("RIDGELINE_NO_PYTHON")
    assert "export" not in command_script(jobs[0])


def test_threads_and_ranks_make_batches(tmp_path):
    _, _, jobs = prepared(tmp_path, {**STRONG, "threads": (1, 2)})
    batches = make_batches(jobs, SubmitOptions(submit="slurm", ranks_per_node=8))
    assert [(b.ranks, b.threads, b.nodes, len(b.jobs)) for b in batches] == [
        (1, 1, 1, 2), (1, 2, 1, 2), (4, 1, 1, 2), (4, 2, 1, 2),
    ]  # fmt: skip
    assert batches[1].stem == "ranks_1_threads_2"


def test_submission_by_a_stand_in(tmp_path, stand_ins, monkeypatch):
    _, _, scripts = scripts_of(tmp_path, "slurm")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))  # this machine may have Slurm
        with pytest.raises(ConfigError, match="--now requires the command sbatch"):
            submit(scripts, "slurm")
    stand_ins.program("sbatch", '#!/bin/sh\necho "$1" >> {calls}\necho "Submitted batch job 77"\n')
    assert submit(scripts, "slurm") == ["Submitted batch job 77"] * 2
    assert stand_ins() == [str(script) for script in scripts]
    stand_ins.program("sbatch", "#!/bin/sh\necho 'invalid account' >&2\nexit 1\n")
    with pytest.raises(LauncherError, match=r"sbatch refuses .*ranks_1.slurm: invalid account"):
        submit(scripts, "slurm")
