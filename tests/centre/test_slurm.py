"""A real Slurm of three nodes on this machine: studies, limits, preemption, prolog and epilog, lists of nodes."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import xarray

import ridgeline

pytestmark = [pytest.mark.slow, pytest.mark.alone]

ROOT = Path(__file__).parents[2]
RIDGELINE = Path(sys.executable).with_name("ridgeline")
STEPS = 3000
ENDED = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY")
LONGEST = 300.0  # seconds that a test waits for one thing

# A run that takes minutes until the file `fast` appears, and of which a rank dies once the file `die` does.
CASE = f"""\
[run]
model = "gray_scott"
steps = {STEPS}

[grid]
shape = [16, 16, 16]

[output]
path = "data.zarr"
every = 100

[checkpoint]
path = "checkpoints"

[[callback]]
function = "pace.py:pace"
every = 1
"""
PACE = """\
import os, signal, time
from pathlib import Path

def pace(now):
    if not Path("fast").exists():
        time.sleep(0.1)
    if Path("die").exists() and now.comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if now.comm.rank == 0:
        Path("step").write_text(str(now.step))
"""
RUN = """\
#!/bin/bash
export SLURM_MPI_TYPE=pmi2
exec srun --kill-on-bad-exit {ridgeline} run case.toml --resume auto
"""
# What Cray MPICH prints in MPI_Finalize.
TIMEOUTS = "MPICH Slingshot Network Summary: 7 network timeouts"


class Cluster:
    """Slurm's commands, and what a site's administrator has set."""

    def __init__(self, tool, folder: Path) -> None:
        self.tool, self.folder = tool, folder
        self.site = folder / "site"

    def run(self, *arguments: object, cwd: Path | None = None) -> str:
        """Return what a command of Slurm prints; it must succeed."""
        done = self.try_run(*arguments, cwd=cwd)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def try_run(self, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Return the result of a command of Slurm."""
        words, environment = list(map(str, arguments)), self.tool.environment(self.folder)
        return subprocess.run(
            words, cwd=cwd or self.folder, env=environment, capture_output=True, text=True, timeout=LONGEST
        )

    def submit(self, folder: Path, text: str, *options: str) -> str:
        """Submit a script in a folder; return the number of the job."""
        (folder / "job.sh").write_text(text)
        return self.run("sbatch", "--parsable", *options, "job.sh", cwd=folder).strip()

    def fields(self, kind: str, name: str) -> dict[str, str]:
        """Return what scontrol shows of a job or a node."""
        shown = self.run("scontrol", "show", kind, name)
        return dict(re.findall(r"(\w+)=(.*?)(?=\s+\w[\w:/]*=|\s*$)", shown, re.MULTILINE))

    def wait(self, job: str, *states: str, **fields: str) -> dict[str, str]:
        """Return what is known of a job once it is in one of the states and has the fields."""
        found: dict[str, str] = {}

        def arrived() -> bool:
            found.update(self.fields("job", job))
            return found["JobState"] in states and all(
                found.get(key) == value for key, value in fields.items()
            )

        try:
            self.tool.wait_for(arrived, f"job {job}", LONGEST)
        except TimeoutError:
            pytest.fail(f"job {job} is not {states} with {fields}: {found}")
        return found

    def wait_for(self, condition, what: str) -> None:
        """Wait for a condition, but not for ever."""
        self.tool.wait_for(condition, what, LONGEST)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start three nodes whose prolog, epilog and health check are ours while files of these names are in `site`."""
    path = ROOT / "tools" / "slurm_cluster.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    folder = tmp_path_factory.mktemp("slurm")
    site = folder / "site"
    site.mkdir()
    (site / "site.env").write_text(
        f"RIDGELINE={RIDGELINE}\nRIDGELINE_REPORTS={site}/reports/$SLURMD_NODENAME\nRIDGELINE_READINGS={site}/readings\n"
        f"RIDGELINE_THRESHOLDS={site}/limits.toml\nRIDGELINE_WITHIN=3\nRIDGELINE_SECONDS=120\n"
        f"NUMBA_CACHE_DIR={os.environ['NUMBA_CACHE_DIR']}\nSLURM_CONF={folder}/slurm.conf\n"
    )
    ill = site / "ill.sh"
    ill.write_text(f'#!/bin/sh\n[ ! -e {site}/ill-"$SLURMD_NODENAME" ]\n')
    (site / "limits.toml").write_text(
        f'[thresholds]\ncpu_share = 0.0\nothers_share = 1.0\n[tools]\nlooks_well = ["{ill}"]\n'
    )
    for name, script in {"prolog": "prolog", "epilog": "epilog", "health": "prolog"}.items():
        # Slurm starts the health check again while it runs.
        condition = f"rm {site}/health-$SLURMD_NODENAME" if name == "health" else f"[ -e {site}/{name} ]"
        (site / f"{name}.sh").write_text(
            f"#!/bin/sh\n{condition} 2> /dev/null || exit 0\nenv > {site}/{name}.env\n"
            f"export RIDGELINE_SETTINGS={site}/site.env\nexec {ROOT}/centre/slurm/{script}.sh\n"
        )
    for script in site.glob("*.sh"):
        script.chmod(0o755)
    sample = (ROOT / "centre" / "slurm" / "slurm.conf.sample").read_text()
    settings = dict(re.findall(r"^#? ?(\w+)=(\S+)$", sample, re.MULTILINE))
    settings |= {
        "Prolog": f"{site}/prolog.sh",
        "Epilog": f"{site}/epilog.sh",
        "PrologEpilogTimeout": "120",
        "HealthCheckProgram": f"{site}/health.sh",
        "HealthCheckInterval": "5",
        "SchedulerParameters": f"{settings['SchedulerParameters']},batch_sched_delay=0,sched_interval=1",
    }
    try:
        tool.start(folder, 3, settings)
    except tool.Unavailable as why:
        pytest.skip(str(why))
    try:
        yield Cluster(tool, folder)
    finally:
        tool.stop(folder)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> xarray.Dataset:
    """Return the data of the case, computed in one piece."""
    folder = tmp_path_factory.mktemp("reference")
    case(folder, "fast")
    subprocess.run([RIDGELINE, "run", "case.toml"], cwd=folder, check=True, timeout=LONGEST)
    return ridgeline.open(folder / "data.zarr").load()


def case(folder: Path, *files: str) -> Path:
    """Write the case, and files that let it run fast or fail."""
    folder.mkdir(exist_ok=True)
    (folder / "case.toml").write_text(CASE)
    (folder / "pace.py").write_text(PACE)
    for name in files:
        (folder / name).touch()
    return folder


def step_of(folder: Path) -> int:
    """Return the step that a run has reached, 0 before its first."""
    text = (folder / "step").read_text() if (folder / "step").exists() else ""
    return int(text or 0)


def log_of(folder: Path) -> str:
    """Return what the jobs of a folder printed."""
    return "".join(path.read_text() for path in sorted(folder.glob("*.out")))


def test_a_study_is_submitted_run_and_collected(cluster, tmp_path):
    folder = case(tmp_path / "a study of 5 %", "fast")
    words = "study run case.toml -o scaling --strong --ranks 1,2,4 --repeat 1 --ranks-per-node 2 --submit slurm --now"
    said = cluster.run(RIDGELINE, *words.split(), "--set", "run.steps=20", cwd=folder)
    jobs = re.findall(r"Submitted batch job (\d+)", said)
    assert len(jobs) == 3
    for job in jobs:
        cluster.wait(job, *ENDED)
    cluster.run(RIDGELINE, "study", "collect", "scaling", cwd=folder)
    rows = json.loads((folder / "scaling" / "study.json").read_text())["rows"]
    assert [row["ranks"] for row in rows] == [1, 2, 4]


def test_a_job_at_its_time_limit_leaves_a_checkpoint_and_continues_when_it_is_requeued(
    cluster, uninterrupted, tmp_path
):
    """The limit sends TERM, and again within milliseconds."""
    case(tmp_path)
    text = RUN.format(ridgeline=RIDGELINE)
    job = cluster.submit(tmp_path, text, "-N2", "-n2", "--time=1", "--requeue", "--open-mode=append")
    cluster.wait(job, "TIMEOUT")
    cluster.wait_for(lambda: "node" not in cluster.run("squeue", "-h", "-o", "%N"), "the end of its ranks")
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [
        f"checkpoint_{step_of(tmp_path):08d}"
    ], log_of(tmp_path)
    assert 0 < step_of(tmp_path) < STEPS
    (tmp_path / "fast").touch()
    cluster.run("scontrol", "requeue", job)
    cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=30")
    assert cluster.wait(job, "COMPLETED", "FAILED", Restarts="1")["JobState"] == "COMPLETED", log_of(tmp_path)
    xarray.testing.assert_equal(ridgeline.open(tmp_path / "data.zarr").load(), uninterrupted)


def test_a_preempted_job_queues_again_and_computes_the_same(cluster, uninterrupted, tmp_path):
    """By the job script for Frontier, with the ranks of these nodes."""
    case(tmp_path)
    text = (ROOT / "examples" / "job_scripts" / "frontier.slurm").read_text()
    for old, new in {
        "--nodes=8": "--nodes=2",
        "--signal=USR1@300": "--comment=none",
        "--time=02:00:00": "--time=10",
        "--partition=batch": "--partition=main",
        "RANKS_PER_NODE=8 ": "RANKS_PER_NODE=1 ",
        "THREADS=7\n": "THREADS=1\n",
        "module load PrgEnv-gnu cray-mpich\n": "",
        "export RIDGELINE_CACHE_DIR=/tmp/": f"export RIDGELINE_CACHE_DIR={tmp_path}/",
    }.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "job.sh").write_text(text)
    submit = ["sbatch", "--parsable", f"--export=ALL,RIDGELINE={RIDGELINE},RESTARTS=5", "job.sh", "case.toml"]
    job = cluster.run(*submit, cwd=tmp_path).strip()
    cluster.wait_for(lambda: step_of(tmp_path) > 0, f"the first step of job {job}")
    urgent = cluster.submit(
        tmp_path, "#!/bin/sh\nexit 0\n", "-N3", "--exclusive", "-p", "urgent", "-o", "urgent.txt"
    )
    cluster.wait(urgent, "COMPLETED")
    stopped = step_of(tmp_path)
    assert 0 < stopped < STEPS
    (tmp_path / "fast").touch()
    found = cluster.wait(job, "COMPLETED", "FAILED", Restarts="1")
    assert found["JobState"] == "COMPLETED", log_of(tmp_path)
    assert f"on cpu: {STEPS - stopped} steps, ended at step {STEPS}" in log_of(tmp_path)
    xarray.testing.assert_equal(ridgeline.open(tmp_path / "data.zarr").load(), uninterrupted)


def test_a_rank_that_dies_ends_the_job(cluster, tmp_path):
    case(tmp_path)
    job = cluster.submit(tmp_path, RUN.format(ridgeline=RIDGELINE), "-N2", "-n2", "--time=30")
    cluster.wait_for(lambda: step_of(tmp_path) > 0, f"the first step of job {job}")
    (tmp_path / "die").touch()
    assert cluster.wait(job, *ENDED)["JobState"] == "FAILED", log_of(tmp_path)


def test_lists_of_nodes_are_what_sbatch_takes(cluster, tmp_path):
    """One node of three is ill; all have one host name."""
    (cluster.site / "ill-node2").touch()
    options = "--level node --only --stage compute --quick --ranks-per-node 1 --report health"
    words = [RIDGELINE, "validate", *options.split(), "--thresholds", cluster.site / "limits.toml"]
    done = cluster.try_run("srun", "-N3", "--mpi=pmi2", *words, cwd=tmp_path)
    (cluster.site / "ill-node2").unlink()
    assert done.returncode == 1, done.stderr
    assert "1 suspect: node node2" in done.stdout
    assert (tmp_path / "health" / "nodes.good").read_text().split() == ["node1", "node3"]
    exclude = f"--exclude={tmp_path}/health/nodes.bad"
    job = cluster.submit(tmp_path, "#!/bin/sh\nexit 0\n", "-N2", "-o", "nodes.txt", exclude)
    assert cluster.wait(job, *ENDED)["NodeList"] == "node[1,3]"
    job = cluster.submit(
        tmp_path, "#!/bin/sh\nexit 0\n", "-N2", "-o", "nodes.txt", f"--nodefile={tmp_path}/health/nodes.good"
    )
    assert cluster.wait(job, *ENDED)["NodeList"] == "node[1,3]"


@pytest.fixture
def checked(cluster) -> Iterator[Path]:
    """Let prolog and epilog check the nodes; return the folder of their reports."""
    for name in ("prolog", "epilog"):
        (cluster.site / name).touch()
    yield cluster.site / "reports"
    for path in (*map(cluster.site.joinpath, ("prolog", "epilog")), *cluster.site.glob("*-node?")):
        path.unlink(missing_ok=True)
    for name in ("node1", "node2", "node3"):
        if "DRAIN" in cluster.fields("node", name)["State"]:
            cluster.run("scontrol", "update", f"NodeName={name}", "State=RESUME")


@pytest.mark.parametrize(
    "options", [("-o", "out-%j.txt"), ("-o", "out-%A-%a.txt", "--array=3")], ids=["job", "array"]
)
def test_prolog_and_epilog_check_a_node_in_slurm_s_bare_environment(cluster, checked, tmp_path, options):
    """The epilog finds the output of the job, whose name is a pattern, and the counters of the prolog."""
    text = f"#!/bin/sh\necho '{TIMEOUTS}'\n"
    job = cluster.submit(tmp_path, text, "-N1", "-w", "node3", *options)
    assert cluster.wait(job, *ENDED)["JobState"] == "COMPLETED"
    report = checked / "node3" / f"epilog-{job}" / "report.json"
    cluster.wait_for(report.exists, "the epilog's report")
    assert "HOME=" not in (cluster.site / "prolog.env").read_text()
    before = json.loads((checked / "node3" / f"prolog-{job}" / "report.json").read_text())
    after = json.loads(report.read_text())
    assert [node["verdict"] for node in (*before["verdict"]["nodes"], *after["verdict"]["nodes"])] == [
        "healthy"
    ] * 2
    assert after["verdict"]["nodes"][0]["name"] == "node3"
    (reason,) = after["verdict"]["nodes"][0]["reasons"]
    assert f"since the prolog of job {job}: job/network_timeouts +7" in reason


def test_a_node_that_fails_the_prolog_is_drained_and_the_job_goes_elsewhere(cluster, checked, tmp_path):
    (cluster.site / "ill-node1").touch()
    job = cluster.submit(tmp_path, "#!/bin/sh\nexit 0\n", "-N1", "-o", "elsewhere.txt")
    found = cluster.wait(job, "COMPLETED")
    assert found["NodeList"] in ("node2", "node3")
    node = cluster.fields("node", "node1")
    assert "DRAIN" in node["State"]
    # The epilog, which follows at once, finds the same.
    assert re.match(rf"ridgeline (prolog|epilog): {checked}/node1/(prolog|epilog)-{job}\b", node["Reason"])
    assert (checked / "node1" / f"prolog-{job}" / "nodes.bad").read_text() == "node1\n"
    assert all("DRAIN" not in cluster.fields("node", name)["State"] for name in ("node2", "node3"))


def test_the_health_check_drains_an_idle_node(cluster, checked):
    (cluster.site / "ill-node2").touch()
    for name in ("node1", "node2"):
        (cluster.site / f"health-{name}").touch()
    cluster.wait_for(lambda: "DRAIN" in cluster.fields("node", "node2")["State"], "node2 to be drained")
    assert cluster.fields("node", "node2")["Reason"].startswith(
        f"ridgeline prolog: {checked}/node2/prolog-none"
    )
    assert "DRAIN" not in cluster.fields("node", "node1")["State"]
