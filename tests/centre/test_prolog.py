"""The centre's scripts: which end of the check drains a node, which lets the job start.

Against stand-ins for the check, the scheduler and the log, then with the real check.
"""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

pytestmark = pytest.mark.alone

CENTRE = Path(__file__).parents[2] / "centre"


def stand_in(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def centre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the site's settings, a `ridgeline` that notes its arguments, `scontrol` and `logger`."""
    verdict = '[ "$RIDGELINE_CODE" = 1 ] && echo "1 suspect: node n1"'
    stand_in(
        tmp_path,
        "ridgeline",
        f'echo "$@" ">" "$PMI_SIZE" >> {tmp_path}/called; {verdict}; exit $RIDGELINE_CODE',
    )
    stand_in(tmp_path, "scontrol", f'echo "$@" >> {tmp_path}/drained')
    stand_in(tmp_path, "logger", f'echo "$@" >> {tmp_path}/logged')
    (tmp_path / "site.env").write_text(
        f"RIDGELINE={tmp_path}/ridgeline # the centre's\nRIDGELINE_REPORTS={tmp_path}/reports\n\n"
        f"RIDGELINE_BASELINE=/etc/node.json\n"
    )
    for name, value in {
        "RIDGELINE_SETTINGS": f"{tmp_path}/site.env",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "77",
        "PMI_SIZE": "512",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_slurm_drains_the_node_by_the_name_that_slurm_knows(centre, monkeypatch):
    monkeypatch.setenv("RIDGELINE_CODE", "1")
    monkeypatch.setenv("SLURMD_NODENAME", "node-of-slurm")
    assert subprocess.run([CENTRE / "slurm" / "prolog.sh"], capture_output=True, timeout=30).returncode == 1
    assert "NodeName=node-of-slurm State=DRAIN" in (centre / "drained").read_text()


@pytest.mark.parametrize(("check", "script"), [(0, 0), (1, 1), (2, 0), (124, 0), (137, 0)])
@pytest.mark.parametrize("phase", ["prolog", "epilog"])
def test_slurm_drains_a_suspect_node_only(centre, monkeypatch, check, script, phase):
    monkeypatch.setenv("RIDGELINE_CODE", str(check))
    done = subprocess.run([CENTRE / "slurm" / f"{phase}.sh"], capture_output=True, text=True, timeout=30)
    assert done.returncode == script, done.stderr
    called = (centre / "called").read_text()
    assert called == f"validate --{phase} --report {centre}/reports/{phase}-77 --baseline /etc/node.json > \n"
    assert (centre / "drained").exists() == (check == 1)
    assert (centre / "logged").exists() == (check not in (0, 1))
    if check == 1:
        assert f"State=DRAIN Reason=ridgeline {phase}: {centre}/reports" in (centre / "drained").read_text()


@pytest.fixture
def pbs(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A stand-in for the module that PBS gives its hooks; records what the hook did."""
    seen = SimpleNamespace(verdict="", log=[], rerun=False, node=SimpleNamespace(state=0, comment=""))
    module = ModuleType("pbs")
    job = SimpleNamespace(id="88.server", rerun=lambda: setattr(seen, "rerun", True))
    event = SimpleNamespace(
        type=1,
        job=job,
        vnode_list={"n1": seen.node},
        accept=lambda: setattr(seen, "verdict", "accept"),
        reject=lambda reason: setattr(seen, "verdict", reason),
    )
    vars(module).update(
        EXECJOB_PROLOGUE=1,
        EXECJOB_EPILOGUE=2,
        ND_OFFLINE=7,
        LOG_WARNING=3,
        event=lambda: event,
        get_local_nodename=lambda: "n1",
        logmsg=lambda level, text: seen.log.append(text),
    )
    monkeypatch.setitem(sys.modules, "pbs", module)
    seen.event = event
    return seen


@pytest.mark.parametrize("phase", ["prolog", "epilog"])
@pytest.mark.parametrize("code", [0, 1, 2])
def test_pbs_takes_a_suspect_node_offline_only(centre, pbs, monkeypatch, phase, code):
    monkeypatch.setenv("RIDGELINE_CODE", str(code))
    pbs.event.type = 1 if phase == "prolog" else 2
    (centre / "spool").mkdir()
    (centre / "spool" / "88.server.OU").write_text("")
    monkeypatch.setenv("PBS_HOME", str(centre))
    runpy.run_path(str(CENTRE / "pbs" / "ridgeline_hook.py"))
    report = f"{centre}/reports/{phase}-88.server"
    called = (centre / "called").read_text()
    assert called.startswith(f"validate --{phase} --report {report} --job 88.server --baseline")
    assert ("--job-output " in called) == (phase == "epilog")
    suspect = code == 1
    assert (pbs.verdict != "accept") == suspect
    assert (pbs.node.state == 7) == suspect
    assert pbs.rerun == (suspect and phase == "prolog")
    assert bool(pbs.log) == (code == 2)
    if suspect:
        assert pbs.node.comment == f"ridgeline {phase}: suspect, see {report}"


def test_pbs_lets_the_job_start_where_the_command_is_missing(centre, pbs):
    (centre / "ridgeline").unlink()
    runpy.run_path(str(CENTRE / "pbs" / "ridgeline_hook.py"))
    assert pbs.verdict == "accept"
    assert "could not measure" in pbs.log[0]


BROKEN = "echo /opt/ridgeline/bin/python: No module named ridgeline >&2; exit 1"


def test_a_broken_environment_drains_no_node(centre, pbs):
    stand_in(centre, "ridgeline", BROKEN)
    done = subprocess.run([CENTRE / "slurm" / "prolog.sh"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stdout
    assert not (centre / "drained").exists()
    assert "No module named" in (centre / "logged").read_text()
    runpy.run_path(str(CENTRE / "pbs" / "ridgeline_hook.py"))
    assert pbs.verdict == "accept"
    assert "No module named" in pbs.log[0]


@pytest.fixture
def real(centre, monkeypatch):
    """The centre with the real check, whose thresholds the test writes: what is judged is not this machine."""
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    (centre / "site.env").write_text(
        f"RIDGELINE={Path(sys.executable).parent}/ridgeline\nRIDGELINE_REPORTS={centre}/reports\n"
        f"RIDGELINE_THRESHOLDS={centre}/limits.toml\nRIDGELINE_SECONDS=120\nRIDGELINE_WITHIN=9\n"
        f"RIDGELINE_READINGS={centre}/readings\n"
    )

    def write(limits, own="cpu_share = 0.01\nothers_share = 1\n"):
        (centre / "limits.toml").write_text(f"[thresholds]\n{own}{limits}")
        return centre

    return write


TOO_MUCH = "[thresholds.limits]\ncompute = 1e30\n"


def stages(report: Path) -> set[str]:
    return {stage["name"] for stage in json.loads((report / "report.json").read_text())["stages"]}


def test_slurm_with_the_real_check_of_a_healthy_node_before_and_after_a_job(real, monkeypatch):
    centre = real("")
    done = subprocess.run([CENTRE / "slurm" / "prolog.sh"], capture_output=True, text=True, timeout=150)
    logged = centre / "logged"
    assert (done.returncode, logged.exists()) == (0, False), logged.read_text() if logged.exists() else done
    assert {"memory", "compute", "peak", "stream"} <= stages(centre / "reports" / "prolog-77")
    assert not (centre / "drained").exists()
    assert len(list((centre / "readings").iterdir())) == 1

    # The job: its MPI library met time-outs. Then the epilog compares with what the prolog kept, and removes it.
    output = centre / "slurm-77.out"
    output.write_text("MPICH Slingshot Network Summary: 28 network timeouts\n")
    monkeypatch.setenv("SLURM_JOB_STDOUT", str(output))
    done = subprocess.run([CENTRE / "slurm" / "epilog.sh"], capture_output=True, text=True, timeout=150)
    assert (done.returncode, logged.exists()) == (0, False), logged.read_text() if logged.exists() else done
    report = json.loads((centre / "reports" / "epilog-77" / "report.json").read_text())
    assert "counters are compared with those that the prolog of job 77 read" in report["remarks"][0]
    assert report["counted"] == {"0": "since the prolog of job 77"}
    assert report["counters"]["job/network_timeouts"]["grown"] == {"0": 28}
    assert list((centre / "readings").iterdir()) == []


def test_slurm_with_the_real_check_of_a_node_that_is_too_slow(real):
    centre = real(TOO_MUCH)
    done = subprocess.run([CENTRE / "slurm" / "epilog.sh"], capture_output=True, text=True, timeout=150)
    assert done.returncode == 1, done.stderr
    assert "1 suspect: node" in done.stdout
    assert "Reason=ridgeline epilog" in (centre / "drained").read_text()
    assert stages(centre / "reports" / "epilog-77") == {"prepare", "memory", "compute", "compute again"}


@pytest.fixture
def busy_node():
    """Keep every processor busy with two loops."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


@pytest.mark.full
@pytest.mark.usefixtures("busy_node")
def test_slurm_lets_the_job_start_on_a_node_that_is_busy_and_therefore_slow(real):
    centre = real(TOO_MUCH, own="")
    done = subprocess.run([CENTRE / "slurm" / "prolog.sh"], capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout
    assert not (centre / "drained").exists()
    assert "is busy: its ranks got" in (centre / "logged").read_text()
    verdict = json.loads((centre / "reports" / "prolog-77" / "report.json").read_text())["verdict"]
    assert (verdict["exit_code"], verdict["suspects"]) == (2, [])
    assert "not judged: compute" in verdict["busy"][0]["reasons"][-1]


@pytest.mark.full
@pytest.mark.usefixtures("busy_node")
def test_pbs_lets_the_job_start_on_a_node_that_is_busy_and_therefore_slow(real, pbs):
    real(TOO_MUCH, own="")
    runpy.run_path(str(CENTRE / "pbs" / "ridgeline_hook.py"))
    assert (pbs.verdict, pbs.node.state, pbs.rerun) == ("accept", 0, False)
    assert "could not measure" in pbs.log[0]
    assert "is busy" in pbs.log[0]


@pytest.mark.full
def test_pbs_with_the_real_check_of_a_node_that_is_too_slow(real, pbs):
    centre = real(TOO_MUCH)
    pbs.event.type = 2
    runpy.run_path(str(CENTRE / "pbs" / "ridgeline_hook.py"))
    assert (pbs.node.state, pbs.log) == (7, [])
    assert stages(centre / "reports" / "epilog-88.server") == {
        "prepare",
        "memory",
        "compute",
        "compute again",
    }


def health_check(*lines: str) -> subprocess.CompletedProcess[str]:
    """Run the check of NHC in a shell that has NHC's `die` and `log`."""
    nhc = 'die() { shift; echo "died: $*"; }; log() { echo "logged: $*"; }'
    script = "\n".join((nhc, f". {CENTRE}/nhc/ridgeline.nhc", *lines, "check_ridgeline 7"))
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize(
    ("check", "code", "words"),
    [
        ("0", 0, ""),
        ("1", 1, "died: check_ridgeline: 1 suspect: node n1\n"),
        ("2", 0, "logged: check_ridgeline could not measure (exit code 2)\n"),
    ],
)
def test_nhc_fails_for_a_suspect_node_only(centre, monkeypatch, check, code, words):
    monkeypatch.setenv("RIDGELINE_CODE", check)
    done = health_check()
    assert (done.returncode, done.stdout) == (code, words)
    assert (
        (centre / "called")
        .read_text()
        .startswith(f"validate --prolog --within 7 --report {centre}/reports/nhc")
    )


def test_nhc_passes_where_the_environment_is_broken(centre):
    stand_in(centre, "ridgeline", BROKEN)
    assert health_check().returncode == 0


def test_slurm_passes_on_the_records_and_the_name_of_the_jobs_output(centre, monkeypatch):
    with (centre / "site.env").open("a") as settings:
        settings.write(
            "RIDGELINE_HISTORY=/var/h.jsonl\nRIDGELINE_PROMETHEUS=/var/r.prom\nRIDGELINE_SYSLOG=1\n"
        )
    monkeypatch.setenv("RIDGELINE_CODE", "0")
    monkeypatch.setenv("SLURM_JOB_STDOUT", "d1-%j.out")
    monkeypatch.setenv("SLURM_JOB_WORK_DIR", "/home/alice")
    assert subprocess.run([CENTRE / "slurm" / "epilog.sh"], capture_output=True, timeout=30).returncode == 0
    called = (centre / "called").read_text()
    assert "--history /var/h.jsonl --prometheus /var/r.prom --syslog" in called
    assert "--job-output /home/alice/d1-77.out" in called
