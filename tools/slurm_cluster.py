#!/usr/bin/env python3
"""Start and stop a small Slurm cluster on this machine, to try job scripts, prologs and epilogs: nodes in name only.

    slurm_cluster.py start DIR [--nodes N] [--set KEY=VALUE ...]
    slurm_cluster.py stop DIR

The first command installs Debian's Slurm and Munge where they are missing and it may, and prints the line that makes
srun and sbatch of a shell use the cluster. Every node is a `slurmd` with a name and a port of its own, on the cores
of this machine; its name is not the host name. Everything that the daemons write is in DIR, with a key for Munge of
its own, so that a Slurm of the site is not touched. `--set` replaces or adds a line of slurm.conf.

Partitions: `main`, and `urgent`, whose jobs requeue those of `main`. Exit code 3: there can be no cluster here; one
sentence says why.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

COMMANDS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
PACKAGES = Path(__file__).with_name("system_packages.sh")
PATHS = ":".join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
UNAVAILABLE = 3  # exit code
READY = 60.0  # seconds for the daemons to begin or to end


class Unavailable(Exception):
    """There can be no cluster here; the message says why, in one sentence."""


def wait_for(condition: Callable[[], object], what: str, seconds: float = READY) -> None:
    """Return as soon as a condition is true; raise TimeoutError with what was waited for after some seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.1)


def install() -> None:
    """Install what is missing of Slurm and Munge. Raises Unavailable."""

    def missing() -> list[str]:
        return [name for name in COMMANDS if shutil.which(name, path=PATHS) is None]

    if missing():
        done = subprocess.run(["sh", PACKAGES, "slurm"], capture_output=True, text=True, check=False)
        if missing():
            why = (done.stderr or done.stdout).strip().rpartition("\n")[2] or f"exit code {done.returncode}"
            raise Unavailable(f"Slurm is missing: {why}")


def free_ports(number: int) -> list[int]:
    """Return ports that nothing listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def configuration(folder: Path, nodes: Sequence[str], changes: Mapping[str, str]) -> str:
    """Return slurm.conf."""
    host, user = socket.gethostname().partition(".")[0], "root" if os.geteuid() == 0 else str(os.geteuid())
    port, *ports = free_ports(1 + len(nodes))
    cores = min(2, len(os.sched_getaffinity(0)))
    settings = {
        "ClusterName": "trial",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": str(port),
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthType": "auth/munge",
        # A job that was queued again waits until its credential expires, two minutes by default.
        "AuthInfo": f"socket={folder}/munge.socket,cred_expire=20",
        "CredType": "cred/munge",
        "StateSaveLocation": f"{folder}/state",
        "SlurmctldPidFile": f"{folder}/slurmctld.pid",
        "SlurmctldLogFile": f"{folder}/slurmctld.log",
        "SlurmdSpoolDir": f"{folder}/%n",
        "SlurmdPidFile": f"{folder}/%n.pid",
        "SlurmdLogFile": f"{folder}/%n.log",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/affinity",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU",
        "MpiDefault": "none",
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "REQUEUE",
        "ReturnToService": "2",
        "SchedulerParameters": "nohold_on_prolog_fail,batch_sched_delay=0,bf_interval=1,sched_interval=1",
        **changes,
    }
    lines = [f"{key}={value}" for key, value in settings.items()]
    lines += [
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cores} RealMemory=1000"
        for name, port in zip(nodes, ports, strict=True)
    ]
    lines += [
        "PartitionName=main Nodes=ALL Default=YES MaxTime=60 PriorityTier=1 GraceTime=60",
        "PartitionName=urgent Nodes=ALL MaxTime=60 PriorityTier=2 PreemptMode=OFF",
    ]
    return "\n".join(lines) + "\n"


def environment(folder: Path) -> dict[str, str]:
    """Return the environment in which Slurm's commands speak to the cluster of a folder."""
    return {**os.environ, "PATH": PATHS, "SLURM_CONF": str(folder / "slurm.conf")}


def start(folder: Path, nodes: int = 3, changes: Mapping[str, str] | None = None) -> None:
    """Start a cluster whose files are in a folder, and wait until its nodes are idle. Raises Unavailable."""
    install()
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if running(folder):
        raise Unavailable(f"a cluster of {folder} is running already; stop it first")
    names = [f"node{number}" for number in range(1, nodes + 1)]
    for name in ("state", *names):
        (folder / name).mkdir(exist_ok=True)
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    (folder / "slurm.conf").write_text(configuration(folder, names, changes or {}))
    munge = [
        f"--{name}={folder}/munge.{name.partition('-')[0]}" for name in ("socket", "pid-file", "log-file")
    ]
    munge += [f"--key-file={key}", f"--seed-file={folder}/munge.seed", "--force"]
    daemons = [["munged", *munge], ["slurmctld"], *(["slurmd", "-N", name] for name in names)]
    try:
        for command in daemons:
            begin(command, folder)
        wait_for(lambda: idle(folder) == nodes, f"{nodes} idle nodes")
    except (Unavailable, TimeoutError) as problem:
        stop(folder)
        raise Unavailable(f"Slurm cannot be started here: {problem} (its logs are in {folder})") from None


def begin(command: Sequence[str], folder: Path) -> None:
    """Start a daemon, which goes into the background by itself. Raises Unavailable."""
    with (folder / "start.log").open("a+") as log:
        done = subprocess.run(
            command, env=environment(folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        )
        log.seek(0)
        if done.returncode:
            raise Unavailable(" ".join([command[0], "says:", *log.read().split("\n")[-2:]]).strip())


def idle(folder: Path) -> int:
    """Return how many nodes are idle."""
    command = ["sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N"]
    done = subprocess.run(command, env=environment(folder), capture_output=True, text=True, check=False)
    return len(done.stdout.split())


def running(folder: Path) -> list[int]:
    """Return the daemons of a cluster: the processes that the files *.pid of its folder name."""
    found = []
    for file in folder.glob("*.pid"):
        with contextlib.suppress(OSError, ValueError):
            process = int(file.read_text())
            if is_daemon(process):
                found.append(process)
    return found


def is_daemon(process: int) -> bool:
    """Say whether a process runs and is one of Slurm's or Munge's daemons."""
    with contextlib.suppress(OSError):
        arguments = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        return Path(os.fsdecode(arguments[0])).name in COMMANDS
    return False


def stop(folder: Path) -> None:
    """End the jobs and the daemons of a cluster, and wait until they have ended."""
    folder = folder.resolve()
    daemons = running(folder)
    if not daemons:
        return
    for state in ("RUNNING", "PENDING"):
        command = ["scancel", "--full", f"--state={state}"]
        subprocess.run(command, env=environment(folder), capture_output=True, timeout=READY, check=False)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in daemons:
            if is_daemon(process):
                os.kill(process, number)
        with contextlib.suppress(TimeoutError):
            wait_for(lambda: not any(map(is_daemon, daemons)), "the end of the daemons", READY / 4)
            return


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("start", "stop"))
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    if given.command == "stop":
        stop(given.folder)
        return 0
    try:
        start(given.folder, given.nodes, dict(text.split("=", 1) for text in given.set))
    except Unavailable as problem:
        sys.stderr.write(f"{problem}\n")
        return UNAVAILABLE
    print(f"export SLURM_CONF={given.folder.resolve()}/slurm.conf")
    return 0


if __name__ == "__main__":
    sys.exit(main())
