"""PBS hook: check each node of a job before it starts and after it ended (PBS Professional, OpenPBS).

Install as root on the server:

    qmgr -c "create hook ridgeline"
    qmgr -c "import hook ridgeline application/x-python default ridgeline_hook.py"
    qmgr -c "set hook ridgeline event = 'execjob_prologue,execjob_epilogue'"
    qmgr -c "set hook ridgeline alarm = 60"
    qmgr -c "set hook ridgeline fail_action = none"

A suspect node goes offline with the reason and the job is requeued; a check that cannot measure is logged only.
"""

import os
import re
import subprocess

import pbs

SETTINGS = "/etc/ridgeline/site.env"
SECONDS = "55"  # of the whole check, unless RIDGELINE_SECONDS says otherwise
LAUNCHER = ("PMI_SIZE", "PMI_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")
VERDICT = re.compile(rb"^\d+ suspects?: ", re.MULTILINE)


def settings():
    """Return the environment of the check: that of the hook, with the centre's file, without launchers' variables."""
    environment = dict(os.environ)
    path = environment.get("RIDGELINE_SETTINGS", SETTINGS)
    if os.path.exists(path):
        with open(path) as lines:
            for line in lines:
                key, found, value = line.split("#")[0].strip().partition("=")
                if found:
                    environment[key.strip()] = value.strip()
    for name in LAUNCHER:
        environment.pop(name, None)
    return environment


def spooled(job):
    """Return the path of a job's output, which is on its first node until the job ends; "" on other nodes."""
    path = os.path.join(os.environ.get("PBS_HOME", "/var/spool/pbs"), "spool", job + ".OU")
    return path if os.path.exists(path) else ""


def check(phase, job):
    """Run the check of this node; return (exit code, folder of the report). Code 2: it could not measure."""
    environment = settings()
    report = os.path.join(environment.get("RIDGELINE_REPORTS", "/var/log/ridgeline"), phase + "-" + job)
    command = [environment.get("RIDGELINE", "ridgeline"), "validate", "--" + phase, "--report", report]
    command += ["--job", job]
    if phase == "epilog":
        environment.setdefault("RIDGELINE_JOB_OUTPUT", spooled(job))
    else:
        environment.pop("RIDGELINE_JOB_OUTPUT", None)
    for option in (
        "baseline",
        "thresholds",
        "within",
        "machine",
        "history",
        "prometheus",
        "readings",
        "job_output",
    ):
        if environment.get("RIDGELINE_" + option.upper()):
            command += ["--" + option.replace("_", "-"), environment["RIDGELINE_" + option.upper()]]
    if environment.get("RIDGELINE_SYSLOG"):
        command.append("--syslog")
    seconds = float(environment.get("RIDGELINE_SECONDS", SECONDS))
    try:
        done = subprocess.run(
            command, env=environment, timeout=seconds, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        pbs.logmsg(pbs.LOG_WARNING, f"ridgeline {phase} could not measure: {error}")
        return 2, report
    # Python also ends with 1 when the environment is broken, which must not take all nodes offline.
    suspect = done.returncode == 1 and VERDICT.search(done.stdout)
    if done.returncode != 0 and not suspect:
        words = done.stdout.decode(errors="replace").strip().splitlines()[-1:]
        pbs.logmsg(pbs.LOG_WARNING, "ridgeline {} could not measure: {}".format(phase, " ".join(words)))
        return 2, report
    return done.returncode, report


def main():
    """Check this node for the event at hand."""
    event = pbs.event()
    phase = "prolog" if event.type == pbs.EXECJOB_PROLOGUE else "epilog"
    code, report = check(phase, str(event.job.id))
    if code != 1:
        event.accept()
        return
    reason = f"ridgeline {phase}: suspect, see {report}"
    node = event.vnode_list[pbs.get_local_nodename()]
    node.state = pbs.ND_OFFLINE
    node.comment = reason
    if phase == "prolog":
        event.job.rerun()
    event.reject(reason)


main()
