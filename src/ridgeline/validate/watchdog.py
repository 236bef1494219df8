"""A side channel that distinguishes a slow job from a hung one: plain TCP from every rank to rank 0, beside MPI.

Every rank has a thread that reports twice a second what its rank does, for which it waits, and whether it failed.
The thread of rank 0 receives these reports. When a stage exceeds its time limit, a connection breaks or a rank fails,
it reports once what is wrong, even while rank 0 itself is stuck in MPI. A rank that no longer hears from rank 0 ends.

The messages are lines of JSON; a connection must begin with the job's random token.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import resource
import secrets
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ridgeline.runtime.node_load import Reading, others_shares, read_load

if TYPE_CHECKING:
    from mpi4py import MPI

_INTERVAL = 0.5  # seconds between two signs of life of a small job
_PER_SECOND = 500  # signs of life that rank 0 takes: larger jobs give them less often
_SILENT = 4  # intervals without a sign of life, at least _SILENT_SECONDS
_SILENT_SECONDS = 2.5
_LOOK_INTERVALS = 4  # before a stage's limit in which a rank also says how busy its node is
_GRACE = 1.0  # seconds in which others may fail too, before the trouble is reported
_ORPHAN = 10.0  # seconds over the stage's limit after which a rank without rank 0 ends itself
_CONNECT = 3.0  # seconds for one address of rank 0
_SIOCGIFADDR = 0x8915
_ENDS = 2  # exit code of a rank that ends itself


@dataclass(frozen=True)
class Trouble:
    """Why a stage cannot end. outcome: "hung" or "failed"; silent: ranks that gave no sign of life, or whose
    connection broke; waiting: rank -> rank that it waited for; failures: rank -> the message of its failure; died:
    ranks whose processes ended without a message, while their hosts still closed the connection; others: rank ->
    share of its node's processors that others used since the stage began, for ranks that could still report it.
    """

    outcome: str
    stage: str
    level: str
    seconds: float
    detail: str
    silent: list[int] = field(default_factory=list)
    waiting: dict[int, int] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    died: list[int] = field(default_factory=list)
    others: dict[int, float] = field(default_factory=dict)


def own_addresses() -> list[str]:
    """Return the IPv4 addresses of this host's interfaces, those of the loopback last."""
    found: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with suppress(OSError):  # an interface without an address
                found.append(socket.inet_ntoa(fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)[20:24]))
    with suppress(OSError):
        found += [
            str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
        ]
    return sorted(dict.fromkeys(found), key=lambda address: address.startswith("127."))


def connect(
    addresses: Sequence[str], port: int, token: str, timeout: float = _CONNECT
) -> socket.socket | None:
    """Return a connection to the first address at which the holder of the token answers, None if none does."""
    for address in addresses:
        with suppress(OSError):
            peer = socket.create_connection((address, port), timeout)
            peer.sendall(f"{token}\n".encode())
            # Another process may listen there, as on the same port of the loopback of another host.
            if peer.recv(64).startswith(token[::-1].encode()):
                return peer
            peer.close()
    return None


class Watch:
    """What a rank reports about itself. That of rank 0 receives all reports; see `start_watch`."""

    def __init__(self, rank: int, size: int, interval: float) -> None:
        self.rank = rank
        self.size = size
        self.interval = interval
        self.unreachable: list[int] = []  # ranks that could not open a connection; known on rank 0
        self._said: dict[str, Any] = {"rank": rank, "stage": "", "step": "", "partner": None, "failure": ""}
        self._first_look: Reading | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, step: str, partner: int | None = None) -> None:
        """Note what this rank does, and for which rank of the job it waits. Cheap: the thread sends it later."""
        self._said = self._said | {"step": step, "partner": partner}

    def begin(self, stage: str, level: str, limit: float) -> None:
        """Note that a stage of at most `limit` seconds begins."""
        self._first_look = read_load()
        self._said = self._said | {"stage": stage, "step": "", "partner": None}

    def end(self) -> None:
        """Note that the stage is over on this rank."""
        self._said = self._said | {"step": "", "partner": None}

    def fail(self, text: str) -> None:
        """Report to rank 0 that this rank cannot continue; it ends the job soon."""
        self._said = self._said | {"failure": text}

    def close(self) -> None:
        """End the thread and the connection, and report that this is the end of the job."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _state(self, left: float) -> dict[str, Any]:
        """Return what this rank reports; near the limit of the stage also how busy its node is."""
        if self._first_look is None or left > _LOOK_INTERVALS * self.interval:
            return self._said
        now = read_load()
        return self._said if now is None else self._said | {"load": (asdict(self._first_look), asdict(now))}

    def _start(self, target: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=target, name="watch", daemon=True)
        self._thread.start()


class _Speaker(Watch):
    """The watch of a rank other than 0."""

    def __init__(self, rank: int, size: int, interval: float, peer: socket.socket) -> None:
        super().__init__(rank, size, interval)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.settimeout(interval)
        self._peer = peer
        self._start(self._speak)

    def _speak(self) -> None:
        """Report and listen until the end; end this process when rank 0 is gone for good."""
        silence_limit, heard, left = _ORPHAN, time.monotonic(), math.inf
        while not self._stop.is_set():
            try:
                self._peer.sendall(json.dumps(self._state(left)).encode() + b"\n")
            except OSError:
                break
            begin = time.monotonic()
            with suppress(TimeoutError):
                try:
                    answer = self._peer.recv(4096)
                except TimeoutError:
                    raise
                except OSError:
                    break
                if not answer:
                    break
                left, heard = float(answer.split()[-1]), time.monotonic()
                silence_limit = left + _ORPHAN
            if time.monotonic() - heard > silence_limit:
                break
            self._stop.wait(max(0.0, self.interval - (time.monotonic() - begin)))
        if self._stop.is_set():
            with suppress(OSError):
                self._peer.sendall(json.dumps({"rank": self.rank, "goodbye": True}).encode() + b"\n")
            self._peer.close()
            return
        # Rank 0 has reported and ended, or cannot be reached: nothing waits for this rank, which may be stuck in MPI.
        if not self._stop.wait(_GRACE):
            os._exit(_ENDS)


class _Listener(Watch):
    """The watch of rank 0."""

    def __init__(
        self,
        size: int,
        interval: float,
        on_trouble: Callable[[Trouble], None],
        server: socket.socket,
        token: str,
    ) -> None:
        super().__init__(0, size, interval)
        self._server = server
        self._token = token
        self._on_trouble = on_trouble
        self._selector = selectors.DefaultSelector()
        self._buffers: dict[socket.socket, bytes] = {}
        self._rank_of: dict[socket.socket, int] = {}
        self._heard: dict[int, float] = {}
        self._states: dict[int, dict[str, Any]] = {}
        self._lost: set[int] = set()
        self._died: set[int] = set()
        self._stage = ("", "", 0.0, 0.0)  # name, level, begin, limit; limit 0: none
        self._troubled = math.inf
        server.setblocking(False)
        self._selector.register(server, selectors.EVENT_READ)
        self._start(self._listen)

    def begin(self, stage: str, level: str, limit: float) -> None:
        super().begin(stage, level, limit)
        self._stage = (stage, level, time.monotonic(), limit)

    def end(self) -> None:
        super().end()
        self._stage = ("", "", time.monotonic(), 0.0)

    def seconds_left(self) -> float:
        """Return the time until the limit of the stage."""
        _, _, begin, limit = self._stage
        return max(0.0, begin + limit - time.monotonic()) if limit else _ORPHAN

    def _listen(self) -> None:
        last_check = 0.0
        while not self._stop.is_set():
            for key, _ in self._selector.select(self.interval / 2):
                if key.fileobj is self._server:
                    self._accept()
                else:
                    self._read(key.fileobj)  # type: ignore[arg-type]
            if time.monotonic() - last_check > self.interval / 2:
                last_check = time.monotonic()
                trouble = self._find_trouble()
                if trouble is not None:
                    self._on_trouble(trouble)
                    break
        for peer in (*self._buffers, self._server):
            peer.close()
        self._selector.close()

    def _accept(self) -> None:
        with suppress(OSError):
            peer, _ = self._server.accept()
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._buffers[peer] = b""
            self._selector.register(peer, selectors.EVENT_READ)

    def _drop(self, peer: socket.socket, closed: bool = True) -> None:
        """Forget a connection. closed: by the other end, as the system does for a process that was killed."""
        self._selector.unregister(peer)
        del self._buffers[peer]
        peer.close()
        rank = self._rank_of.pop(peer, None)
        if rank is not None and rank >= 0:
            (self._died if closed else self._lost).add(rank)

    def _read(self, peer: socket.socket) -> None:
        try:
            data = peer.recv(65536)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        except OSError:
            self._drop(peer, closed=False)
            return
        if not data:
            self._drop(peer)
            return
        *lines, self._buffers[peer] = (self._buffers[peer] + data).split(b"\n")
        if peer not in self._rank_of and lines:
            if not secrets.compare_digest(lines.pop(0), self._token.encode()):
                self._drop(peer)
                return
            self._rank_of[peer] = -1
            with suppress(OSError):
                peer.send(f"{self._token[::-1]}\n".encode())
        if lines:
            self._take(peer, json.loads(lines[-1]))

    def _take(self, peer: socket.socket, said: dict[str, Any]) -> None:
        rank = int(said["rank"])
        self._rank_of[peer] = rank
        self._heard[rank] = time.monotonic()
        if said.get("goodbye"):
            del self._rank_of[peer]
            return
        self._states[rank] = said
        with suppress(OSError):
            peer.send(f"{self.seconds_left():.1f}\n".encode())

    def _find_trouble(self) -> Trouble | None:
        """Return what is wrong now, None if nothing is."""
        now = time.monotonic()
        stage, level, begin, limit = self._stage
        states = {0: self._state(self.seconds_left())} | self._states
        failures = {rank: str(state["failure"]) for rank, state in states.items() if state["failure"]}
        over = limit > 0 and now > begin + limit
        # A rank that received nothing for long ends itself too; then the silence counts.
        died = [] if over else sorted(self._died - set(failures))
        lost = sorted((self._lost | self._died) - set(died))
        if not over and not failures and not lost and not died:
            return None
        self._troubled = min(self._troubled, now)
        if not over and now < self._troubled + _GRACE:
            return None  # other ranks may fail as well, and then the first must not be blamed alone
        quiet = max(_SILENT * self.interval, _SILENT_SECONDS)
        expected = set(range(1, self.size)) - set(self.unreachable)
        silent = sorted({r for r in expected if over and now - self._heard.get(r, 0.0) > quiet} | set(lost))
        waiting = {
            rank: int(state["partner"])
            for rank, state in states.items()
            if state["partner"] is not None and state["stage"] == stage
        }
        detail = _describe(limit if over else now - begin, over, silent, lost, failures, died, self.size)
        return Trouble(
            "failed" if (failures or died) and not over else "hung",
            stage or "between stages",
            level,
            now - begin,
            detail,
            silent,
            waiting,
            failures,
            died,
            self._others(states) if over else {},
        )

    def _others(self, states: dict[int, dict[str, Any]]) -> dict[int, float]:
        """Return the share of processors that others used, for the ranks that reported it."""
        looks = [states.get(rank, {}).get("load", (None, None)) for rank in range(self.size)]
        before, after = ([None if look is None else Reading(**look) for look in side] for side in zip(*looks))
        shares = others_shares(before, after, range(self.size))
        return {rank: share for rank, share in enumerate(shares) if share > 0}


def _describe(
    seconds: float,
    over: bool,
    silent: list[int],
    lost: list[int],
    failures: dict[int, str],
    died: list[int],
    size: int,
) -> str:
    """Return in a sentence what stopped a stage."""
    parts = [f"it exceeded its time limit of {seconds:.1f} s" if over else f"it ended after {seconds:.1f} s"]
    if failures:
        rank, text = min(failures.items())
        parts.append(f"rank {rank} failed: {text}")
    if died:
        parts.append(f"the process of rank {_some(died)} ended without a message")
    if lost:
        parts.append(f"the connection to rank {_some(lost)} broke")
    quiet = [rank for rank in silent if rank not in lost]
    if quiet:
        parts.append(f"no sign of life from rank {_some(quiet)}")
        if len(silent) == size - 1 and size > 2:
            parts.append("all ranks except rank 0 are silent, so the node of rank 0 may be cut off")
    if over and not silent and not failures:
        parts.append("all ranks still answer outside MPI")
    return "; ".join(parts)


def _some(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + ", ..." * (len(ranks) > 8)


def start_watch(comm: MPI.Comm, on_trouble: Callable[[Trouble], None]) -> Watch:
    """Start the thread of this rank and return its watch. Collective over comm.

    on_trouble: called once, on rank 0, in its thread; it reports and ends the process. Addresses of rank 0 are tried
    one after the other, so that ranks on other networks find theirs. Ranks that reach none are not watched
    (`unreachable`, on rank 0).
    """
    interval = max(_INTERVAL, comm.size / _PER_SECOND)
    server, listener, token = None, None, secrets.token_hex(16)
    if comm.rank == 0:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(OSError, ValueError):  # a connection of every rank
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        server = socket.create_server(("", 0), backlog=min(comm.size, 4096))
        listener = _Listener(comm.size, interval, on_trouble, server, token)
    card = (own_addresses(), server.getsockname()[1], token) if server is not None else None
    addresses, port, token = comm.bcast(card)
    watch: Watch | None = listener
    if watch is None:
        peer = connect(addresses, port, token)
        watch = (
            Watch(comm.rank, comm.size, interval)
            if peer is None
            else _Speaker(comm.rank, comm.size, interval, peer)
        )
    reached = comm.gather(isinstance(watch, _Listener | _Speaker))
    if reached is not None:
        watch.unreachable = [rank for rank, is_there in enumerate(reached) if not is_there]
    return watch
