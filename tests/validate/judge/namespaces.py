"""Several hosts on one machine: network namespaces on a bridge, each link with a rate, MPI over TCP between them.

Needs root, iproute2 and nftables; `missing()` says what is not there. All names carry this process's number, and
all traffic stays between these namespaces.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

RATE = "800mbit"
_RETRY = "40ms"  # least time before a lost packet is sent again; Linux waits 200 ms
_NETWORK = "10.77.0"
_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
_TIMEOUT = 60  # seconds; a hang is a failure, not a wait


def _run(*command: object, check: bool = True) -> str:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PATH": _PATH},
    )
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


@functools.cache
def missing() -> str:
    """Return why hosts cannot be made here, "" if they can: found out by making two."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    for tool in ("ip", "tc", "nft", "unshare"):
        if shutil.which(tool, path=_PATH) is None:
            return f"{tool} is not installed"
    if not (Path(sys.prefix) / "bin" / "mpiexec.hydra").is_file():
        return "the MPI beside the interpreter is not MPICH, whose launcher options are used"
    try:
        with Hosts(2, prefix=f"rp{os.getpid()}") as hosts:
            hosts.slow(1, "10mbit")
            hosts.lose(1, 0, percent=5)
    except (RuntimeError, subprocess.SubprocessError) as error:
        return f"this machine does not let us make hosts: {error}"
    return ""


class Hosts:
    """Hosts node0, node1, ... with addresses 10.77.0.1, .2, ... A context manager that removes them."""

    def __init__(self, n: int, prefix: str | None = None, rate: str | None = RATE) -> None:
        self.n = n
        self.prefix = prefix or f"rl{os.getpid()}"
        self.names = [f"node{i}" for i in range(n)]
        self._rate = rate
        self._slowed: set[int] = set()
        self._lossy: set[int] = set()

    def namespace(self, host: int | str) -> str:
        """Return the namespace of a host, or of the "switch"."""
        return f"{self.prefix}-{host}"

    def address(self, host: int) -> str:
        return f"{_NETWORK}.{host + 1}"

    def inside(self, host: int | str, *command: object, check: bool = True) -> str:
        """Run a command on a host and return what it prints."""
        return _run("ip", "netns", "exec", self.namespace(host), *command, check=check)

    def __enter__(self) -> Hosts:
        try:
            _run("ip", "netns", "add", self.namespace("switch"))
            self.inside(
                "switch", "ip", "link", "add", "bridge", "type", "bridge", "stp_state", 0, "forward_delay", 0
            )
            self.inside("switch", "ip", "link", "set", "bridge", "up")
            for host in range(self.n):
                self._add(host)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _add(self, host: int) -> None:
        name = self.namespace(host)
        _run("ip", "netns", "add", name)
        port = f"p{host}"
        self.inside(
            "switch", "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name
        )
        self.inside("switch", "ip", "link", "set", port, "master", "bridge", "up")
        self.inside(host, "ip", "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        self.inside(host, "ip", "link", "set", "eth0", "up")
        self.inside(host, "ip", "link", "set", "lo", "up")
        route = (f"{_NETWORK}.0/24", "dev", "eth0", "src", self.address(host), "rto_min", _RETRY)
        self.inside(host, "ip", "route", "replace", *route)
        self._set_rate(host, self._rate)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in (*range(self.n), "switch"):
            _run("ip", "netns", "delete", self.namespace(host), check=False)

    def _set_rate(self, host: int, rate: str | None) -> None:
        """Bound the rate of a host's link, both ways. A message waits in the queue and is not dropped."""
        if rate is None:
            return
        shape = ("root", "tbf", "rate", rate, "burst", "128kb", "limit", "16mb")
        self.inside(host, "tc", "qdisc", "replace", "dev", "eth0", *shape)
        self.inside("switch", "tc", "qdisc", "replace", "dev", f"p{host}", *shape)

    def slow(self, host: int, rate: str) -> None:
        """Slow a host's link down."""
        self._set_rate(host, rate)
        self._slowed.add(host)

    def lose(self, host: int, sender: int | None = None, percent: int = 15) -> None:
        """Let a host lose some of the packets that arrive, from one sender or from all."""
        origin = "" if sender is None else f"ip saddr {self.address(sender)} "
        rules = (
            "add table ip lossy; add chain ip lossy arrive { type filter hook input priority 0; }; "
            f"add rule ip lossy arrive {origin}meta l4proto tcp numgen random mod 100 < {percent} drop"
        )
        self.inside(host, "nft", rules)
        self._lossy.add(host)

    def cut(self, host: int) -> None:
        """Pull the cable of a host."""
        self.inside("switch", "ip", "link", "set", f"p{host}", "down")

    def heal(self) -> None:
        """Undo `slow`, `lose` and `cut`."""
        for host in self._slowed:
            self._set_rate(host, self._rate)
        for host in self._lossy:
            self.inside(host, "nft", "delete table ip lossy")
        for host in range(self.n):
            self.inside("switch", "ip", "link", "set", f"p{host}", "up")
        self._slowed.clear()
        self._lossy.clear()

    def received(self, host: int) -> int:
        """Return the bytes that went to a host so far."""
        facts = json.loads(self.inside("switch", "ip", "-s", "-j", "link", "show", f"p{host}"))
        return int(facts[0]["stats64"]["tx"]["bytes"])

    def environ(self, folder: Path, cores: Sequence[int | None] = ()) -> dict[str, str]:
        """Return the environment in which `ridgeline -n N` starts its ranks on these hosts, one each.

        cores: the core to which a host's processes are bound, None for any. Arguments hold no spaces.
        """
        remote, mpiexec = folder / "remote", folder / "mpiexec"
        chosen = dict(enumerate(cores))
        bind = [f"taskset -c {chosen[i]}" if chosen.get(i) is not None else "" for i in range(self.n)]
        enter = 'exec ip netns exec {} unshare --uts sh -c "hostname {}; exec {} $*"\n'
        cases = "".join(
            f"{self.address(i)}) {enter.format(self.namespace(i), name, bind[i])[:-1]} ;;\n"
            for i, name in enumerate(self.names)
        )
        # Hydra calls it as ssh: options, the host, the command. unshare gives a host a name of its own.
        remote.write_text(
            '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\n'
            f"host=$1; shift\ncase $host in\n{cases}esac\n"
        )
        hosts = ",".join(map(self.address, range(self.n)))
        hydra = (
            f"{sys.prefix}/bin/mpiexec.hydra -launcher ssh -launcher-exec {remote} -iface eth0 -hosts {hosts}"
        )
        # The ranks of the first host are children of mpiexec itself.
        mpiexec.write_text(
            "#!/bin/sh\n" + enter.format(self.namespace(0), self.names[0], f"{bind[0]} {hydra}")
        )
        for script in (remote, mpiexec):
            script.chmod(0o755)
        return {
            **os.environ,
            "PATH": _PATH,
            "RIDGELINE_MPIEXEC": str(mpiexec),
            "UCX_TLS": "tcp,self",
            "UCX_NET_DEVICES": "eth0",
            "FI_PROVIDER": "tcp",
            "OMP_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
        }

    def start(
        self, folder: Path, *options: object, cores: Sequence[int | None] = ()
    ) -> subprocess.Popen[str]:
        """Start `ridgeline validate` on all hosts, its report in folder/report."""
        command = [
            sys.executable,
            "-m",
            "ridgeline",
            "validate",
            "-n",
            self.n,
            "--report",
            folder / "report",
            *options,
        ]
        return subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=self.environ(folder, cores),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def validate(self, folder: Path, *options: object, cores: Sequence[int | None] = ()) -> Finished:
        """Run `ridgeline validate` on all hosts to its end."""
        return Finished(self.start(folder, *options, cores=cores), folder)


class Finished:
    """What a validation left: its exit code, all it printed, the report."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, timeout: float = _TIMEOUT) -> None:
        try:
            self.said, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            self.said, _ = process.communicate()
            raise AssertionError(f"not over after {timeout} s; it said:\n{self.said}") from None
        self.code = process.returncode
        path = folder / "report" / "report.json"
        self.report: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        self.good = (folder / "report" / "nodes.good").read_text().split() if path.exists() else []

    @property
    def suspects(self) -> list[tuple[str, list[int]]]:
        """Return kind and nodes of all that is blamed."""
        return [(s["kind"], sorted(s["nodes"])) for s in self.report["verdict"]["suspects"]]


@contextmanager
def busy(core: int, processes: int) -> Iterator[None]:
    """Keep a core busy with so many processes."""
    command = [sys.executable, "-c", "while True: pass"]
    # Sessions of their own: a kernel that groups by session would give all of them together the share of one.
    start = functools.partial(subprocess.Popen, start_new_session=True)
    bound = [start(["taskset", "-c", str(core), *command]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in bound:
            process.kill()
            process.wait()
