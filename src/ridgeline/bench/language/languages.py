"""The same communication in three languages: C, Python through mpi4py, compiled Python through numba-mpi.

All three call the same MPI library in the same process, on the ranks of the same communicator, with the same buffers
and in the same order. `loops.Loops` is their interface.

Source of the comparison: Rizvi and Hale, "A Look at Communication-Intensive Performance in Julia", Sec. IV.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from time import perf_counter
from typing import TYPE_CHECKING, Any

import mpi4py
import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.c_library import Library, address_of, load_c
from ridgeline.bench.language.language_options import LANGUAGES
from ridgeline.bench.language.loops import (
    ACKNOWLEDGE,
    REPLY,
    TAG,
    Loops,
    RingWork,
    check_mpi,
    compute,
    read_words,
    ring_partners,
    write_words,
)
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.extras import require_extra

if TYPE_CHECKING:
    Bytes = NDArray[np.uint8]

MAX_WINDOW = 1024  # messages in flight, the limit of bench/c/mpi_patterns.c


@dataclass
class AvailableLanguages:
    """The loops of the languages that can run, why the others cannot, and what each was built with, by name."""

    loops: list[Loops] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)


def find_languages(comm: MPI.Comm, names: Sequence[str] = LANGUAGES) -> AvailableLanguages:
    """Return the loops of each named language that can run on all ranks, the same on all ranks. Collective.

    numba-mpi is imported only if it is named. Raises ConfigError for an unknown name.
    """
    for name in names:
        if name not in LANGUAGES:
            raise ConfigError(
                f"--language {name}: unknown language. Known languages: {', '.join(LANGUAGES)}."
            )
    languages = AvailableLanguages()
    for name in dict.fromkeys(names):
        loops: Loops | None
        if name == "C":
            library, how = load_c(comm, "mpi_patterns", _FUNCTIONS)
            loops = None if library is None else CLoops(library, comm)
        elif name == "mpi4py":
            loops, how = PythonLoops(comm), f"mpi4py {mpi4py.__version__}, buffers"
        else:
            loops, how = _make_numba(comm)
        if loops is None:
            languages.missing[name] = how
        else:
            languages.loops.append(loops)
            languages.how[name] = how
    return languages


def _make_numba(comm: MPI.Comm) -> tuple[Loops | None, str]:
    loops: Loops | None = None
    try:
        require_extra("numba_mpi", "this language")
    except ConfigError as error:
        how = str(error)
    else:
        try:
            from ridgeline.bench.language.compiled_mpi import CompiledLoops, numba_mpi_version

            loops, how = CompiledLoops(comm), f"numba-mpi {numba_mpi_version()}"
        except (ImportError, RuntimeError, OSError, ConfigError) as error:
            how = f"numba-mpi cannot run here: {error}"
    absent = [why for is_absent, why in comm.allgather((loops is None, how)) if is_absent]
    return (None, absent[0]) if absent else (loops, how)


# The types of the result and of the arguments of the functions in bench/c/mpi_patterns.c.
_POINTER, _INT, _LONG, _SECONDS = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_double
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "ping_pong": (_SECONDS, _POINTER, _INT, _INT, _POINTER, _POINTER, _INT, _INT),
    "windows": (_SECONDS, _POINTER, _INT, _INT, _POINTER, _POINTER, _INT, _INT, _INT),
    "persistent_windows": (_SECONDS, _POINTER, _INT, _INT, _POINTER, _POINTER, _INT, _INT, _INT),
    "ring": (
        _INT, _POINTER, _INT, _INT, _POINTER, _LONG, _POINTER, _POINTER, _POINTER, _INT, _LONG, _POINTER, _POINTER,
    ),
}  # fmt: skip


class CLoops:
    """The loops in C, called through ctypes: once for a whole batch, its clock inside."""

    name = "C"
    sending = receiving = "windows"

    def __init__(self, library: Library, comm: MPI.Comm) -> None:
        self.library, self.comm = library, comm
        self.handle = address_of(comm)
        self.reply = np.zeros(REPLY, np.uint8)

    def on(self, comm: MPI.Comm) -> CLoops:
        return CLoops(self.library, comm)

    def ping_pong(self, partner: int, first: bool, outbox: Bytes, inbox: Bytes, batch: int) -> float:
        out, into = outbox.ctypes.data, inbox.ctypes.data
        seconds = self.library["ping_pong"](self.handle, partner, first, out, into, outbox.size, batch)
        check_mpi(self.name, seconds < 0)
        return float(seconds)

    def windows(self, partner: int, sends: bool, buffer: Bytes, window: int, batch: int) -> float:
        if not 1 <= window <= MAX_WINDOW:
            raise ConfigError(f"--window {window}: C can keep 1 to {MAX_WINDOW} messages in flight.")
        function = self.library[self.sending if sends else self.receiving]
        message, reply = buffer.ctypes.data, self.reply.ctypes.data
        seconds = function(self.handle, partner, sends, message, reply, buffer.size, window, batch)
        check_mpi(self.name, seconds < 0)
        return float(seconds)

    def ring(
        self,
        work: RingWork,
        words: NDArray[np.uint64],
        outbox: Bytes,
        inbox: Bytes,
        seconds: NDArray[np.float64],
    ) -> tuple[int, float]:
        forward, backward = ring_partners(self.comm)
        counts, sums = work.as_array(), np.zeros(2)
        error = self.library["ring"](
            self.handle,
            forward,
            backward,
            words.ctypes.data,
            words.size - 1,
            counts.ctypes.data,
            outbox.ctypes.data,
            inbox.ctypes.data,
            outbox.size,
            len(seconds),
            seconds.ctypes.data,
            sums.ctypes.data,
        )
        check_mpi(self.name, error != 0)
        return int(sums[0]), float(sums[1])


class PersistentCLoops(CLoops):
    """The loops in C, with windows of persistent requests."""

    name = "C, persistent"
    sending = receiving = "persistent_windows"

    def on(self, comm: MPI.Comm) -> PersistentCLoops:
        return PersistentCLoops(self.library, comm)


class PreparedCLoops(CLoops):
    """The loops in C, with windows that MPI_Isend sends and persistent requests receive."""

    name = "C, receives prepared"
    receiving = "persistent_windows"

    def on(self, comm: MPI.Comm) -> PreparedCLoops:
        return PreparedCLoops(self.library, comm)


class PythonLoops:
    """The loops in Python: mpi4py with buffers that are specified beforehand, and kernels that compute."""

    name = "mpi4py"

    def __init__(self, comm: MPI.Comm) -> None:
        self.comm = comm
        self.reply = [np.zeros(REPLY, np.uint8), REPLY, MPI.BYTE]

    def on(self, comm: MPI.Comm) -> PythonLoops:
        return PythonLoops(comm)

    def ping_pong(self, partner: int, first: bool, outbox: Bytes, inbox: Bytes, batch: int) -> float:
        send, receive = self.comm.Send, self.comm.Recv
        out, into = [outbox, outbox.size, MPI.BYTE], [inbox, inbox.size, MPI.BYTE]
        start = perf_counter()
        if first:
            for _ in repeat(None, batch):
                send(out, partner, TAG)
                receive(into, partner, TAG)
        else:
            for _ in repeat(None, batch):
                receive(into, partner, TAG)
                send(out, partner, TAG)
        return perf_counter() - start

    def windows(self, partner: int, sends: bool, buffer: Bytes, window: int, batch: int) -> float:
        begin = self.comm.Isend if sends else self.comm.Irecv
        end: Any = self.comm.Recv if sends else self.comm.Send
        wait, message, reply = MPI.Request.Waitall, [buffer, buffer.size, MPI.BYTE], self.reply
        start = perf_counter()
        for _ in repeat(None, batch):
            wait([begin(message, partner, TAG) for _ in repeat(None, window)])
            end(reply, partner, ACKNOWLEDGE)
        return perf_counter() - start

    def ring(
        self,
        work: RingWork,
        words: NDArray[np.uint64],
        outbox: Bytes,
        inbox: Bytes,
        seconds: NDArray[np.float64],
    ) -> tuple[int, float]:
        send, receive = self.comm.Isend, self.comm.Recv
        forward, backward = ring_partners(self.comm)
        out, into = [outbox, outbox.size, MPI.BYTE], [inbox, inbox.size, MPI.BYTE]
        mask, seen, x = words.size - 1, 0, 1.0
        for i in range(len(seconds)):
            start = perf_counter()
            seen += int(read_words(words, mask, work.reads))
            after_reads = perf_counter()
            write_words(words, mask, work.writes, np.uint64(i))
            after_writes = perf_counter()
            x = compute(x + 1.0, work.flops)
            after_flops = perf_counter()
            for _ in repeat(None, work.communications):
                request = send(out, forward, TAG)
                receive(into, backward, TAG)
                request.Wait()
            end = perf_counter()
            seconds[i] = (
                after_reads - start,
                after_writes - after_reads,
                after_flops - after_writes,
                end - after_flops,
            )
        return seen & 0xFFFFFFFF, x


class PersistentPythonLoops(PythonLoops):
    """The loops in Python, with windows of persistent requests, which one call starts."""

    name = "mpi4py, persistent"

    def on(self, comm: MPI.Comm) -> PersistentPythonLoops:
        return PersistentPythonLoops(comm)

    def windows(self, partner: int, sends: bool, buffer: Bytes, window: int, batch: int) -> float:
        make = self.comm.Send_init if sends else self.comm.Recv_init
        end: Any = self.comm.Recv if sends else self.comm.Send
        message, reply = [buffer, buffer.size, MPI.BYTE], self.reply
        requests = [make(message, partner, TAG) for _ in range(window)]
        begin, wait = MPI.Prequest.Startall, MPI.Request.Waitall
        start = perf_counter()
        for _ in repeat(None, batch):
            begin(requests)
            wait(requests)
            end(reply, partner, ACKNOWLEDGE)
        seconds = perf_counter() - start
        for request in requests:
            request.Free()
        return seconds


class PreparedPythonLoops(PersistentPythonLoops):
    """The loops in Python, with windows that Isend sends and persistent requests receive.

    Within a node a window waits for the receiver. The cost of Irecv in Python delays it; that of Isend hardly does.
    """

    name = "mpi4py, receives prepared"

    def on(self, comm: MPI.Comm) -> PreparedPythonLoops:
        return PreparedPythonLoops(comm)

    def windows(self, partner: int, sends: bool, buffer: Bytes, window: int, batch: int) -> float:
        run = PythonLoops.windows if sends else PersistentPythonLoops.windows
        return run(self, partner, sends, buffer, window, batch)


def with_persistent(loops: Sequence[Loops]) -> list[Loops]:
    """Return the loops, and for C and mpi4py those with persistent requests on both sides or on the receiver's."""
    persistent: list[Loops] = []
    for language in loops:
        if isinstance(language, CLoops):
            persistent.append(PersistentCLoops(language.library, language.comm))
            persistent.append(PreparedCLoops(language.library, language.comm))
        elif isinstance(language, PythonLoops):
            persistent += [PersistentPythonLoops(language.comm), PreparedPythonLoops(language.comm)]
    return [*loops, *persistent]
