"""One run at a time on a path: a lock file names its holder, so that the lock of a dead run is recognised.

The file `.NAME.lock` lies beside an output called NAME. Its holder keeps it locked (flock), and the lock ends with
the process in any case. Some file systems do not share such locks between nodes, and a node that fails releases
nothing there. The file therefore also names host, process, start of the process and job, and the holder touches it
every BEAT seconds.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import json
import logging
import os
import socket
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import DAMAGED, open_regular
from ridgeline.runtime.signals import stops_at_once

log = logging.getLogger(__name__)

BEAT = 20.0  # seconds between two touches of a lock file by its holder
GRACE = 20.0  # seconds that a holder has to end, because ranks may outlive a launcher that was killed
SILENCE = 300.0  # seconds without a touch after which a holder on another node counts as dead
_NO_FLOCK = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}
_JOBS = (("SLURM_JOB_ID", "SLURM_RESTART_COUNT"), ("PBS_JOBID", "PBS_RUNCOUNT"))


@dataclass(frozen=True)
class Holder:
    """A lock's holder. started: of the process, in clock ticks since the boot. job: of the batch system, or ""."""

    host: str
    boot: str
    process: int
    started: int
    job: str
    attempt: str
    since: str  # date and time, UTC

    def __str__(self) -> str:
        job = f" of job {self.job}" if self.job else ""
        return f"process {self.process}{job} on {self.host}, which started at {self.since}"


def this_process() -> Holder:
    """Return the entry that this process writes into its locks."""
    job, attempt = next(
        ((os.environ[name], os.environ.get(count, "0")) for name, count in _JOBS if name in os.environ),
        ("", "0"),
    )
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return Holder(
        socket.gethostname(),
        boot,
        os.getpid(),
        _start_of(os.getpid()) or 0,
        job,
        attempt,
        datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _start_of(process: int) -> int | None:
    """Return when a process of this node began, in clock ticks since the boot; None if it has ended."""
    try:
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else int(fields[18])
    except (OSError, ValueError, IndexError):
        return None


class PathLock:
    """The lock of one output path, held from `acquire` to `release` by one process of a run, its rank 0.

    file: the lock file. what: what it guards, for errors ("the data set results/gs.bp"). waits: whether to give
    another holder GRACE seconds to end.
    """

    def __init__(self, file: Path, what: str, waits: bool = True) -> None:
        self.file, self._what, self._waits = file, what, waits
        self._descriptor: int | None = None
        self._process = 0  # the process that holds the lock, which a fork of it does not
        self._locks = True  # whether the file system can lock files
        self._ended = threading.Event()
        self._beats: threading.Thread | None = None

    @classmethod
    def beside(cls, path: Path, what: str) -> Self:
        """Return the lock of an output whose folder exists; a link is replaced by its target."""
        real = Path(os.path.realpath(path))
        return cls(real.with_name(f".{real.name}.lock"), what)

    @classmethod
    def inside(cls, folder: Path, what: str, waits: bool = True) -> Self:
        """Return the lock of a folder that exists and is not moved."""
        return cls(Path(os.path.realpath(folder)) / ".lock", what, waits)

    def acquire(self) -> Holder | None:
        """Acquire the lock; return its former holder if that has died without releasing it, otherwise None.

        Raises OutputError, which names the run, if another run holds it, or if no file can be created there.
        """
        begin = time.monotonic()
        announced = collected = False
        try:
            while True:
                descriptor = open_regular(self.file, os.O_RDWR | os.O_CREAT, 0o644)
                if self._lock(descriptor):
                    with contextlib.suppress(FileNotFoundError):
                        if os.path.samestat(os.fstat(descriptor), self.file.stat()):
                            break
                    os.close(
                        descriptor
                    )  # its holder has ended meanwhile, and the name is no longer that of this file
                    continue
                holder = _read(descriptor)
                mine = _is_this_process(holder)
                os.close(descriptor)
                if mine and not collected:
                    gc.collect()  # a run that was dropped without being closed then releases its locks
                    collected = True
                elif mine or not self._waits or time.monotonic() - begin > GRACE:
                    raise self._in_use(holder)
                else:
                    if not announced and time.monotonic() - begin > 2.0:
                        log.info(
                            "%s is in use. Waiting up to %g s for the other run to end.", self._what, GRACE
                        )
                        announced = True
                    with stops_at_once():
                        time.sleep(0.05)
        except OSError as error:
            raise OutputError(
                f"cannot lock {self._what}: {error.strerror} ({self.file}). Choose a place where you may write."
            ) from None
        before = _read(descriptor)
        if before is not None and not self._has_ended(before, descriptor):
            os.close(descriptor)
            raise self._in_use(before)
        self._descriptor, self._process = descriptor, os.getpid()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, (json.dumps(asdict(this_process())) + "\n").encode(), 0)
        self._beats = threading.Thread(target=self._beat, daemon=True, name=f"lock {self.file.name}")
        self._beats.start()
        return before

    def _lock(self, descriptor: int) -> bool:
        """Try to lock the open file; return False if another process keeps it locked, as far as this node sees."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._locks = error.errno not in _NO_FLOCK
            return not self._locks
        self._locks = True
        return True

    def _has_ended(self, holder: Holder, descriptor: int) -> bool:
        """Say whether a holder that does not keep the file locked, as far as this node sees, has ended."""
        here = this_process()
        if (holder.host, holder.boot) == (here.host, here.boot):
            # The lock of a process ends with it, a moment before the process is gone.
            return self._locks or _start_of(holder.process) != holder.started
        if holder.job and holder.job == here.job and holder.attempt != here.attempt:
            return True  # the batch system has restarted this job
        # The time since the file was touched, by the clock of its file system.
        with tempfile.NamedTemporaryFile(dir=self.file.parent, prefix=".lock") as probe:
            return os.stat(probe.name).st_mtime - os.fstat(descriptor).st_mtime > SILENCE

    def _in_use(self, holder: Holder | None) -> OutputError:
        if _is_this_process(holder):
            return OutputError(
                f"{self._what} is in use by another run in this process. Close that run first, or choose another "
                "path."
            )
        user = str(holder) if holder is not None else "another run"
        return OutputError(
            f"{self._what} is in use by {user}. Wait until that run ends, or choose another path. If it is dead, "
            f"delete {self.file}."
        )

    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            if self._descriptor is not None:
                with contextlib.suppress(OSError):
                    os.utime(self._descriptor)

    def release(self) -> None:
        """Release the lock. Do nothing if it is not held, or in a fork of the process that holds it."""
        if os.getpid() != self._process:
            return
        self._ended.set()
        if self._beats not in (
            None,
            threading.current_thread(),
        ):  # the garbage collector may run in any thread
            self._beats.join()
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                self.file.unlink()
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _is_this_process(holder: Holder | None) -> bool:
    here = this_process()
    mine = (here.host, here.boot, here.process, here.started)
    return holder is not None and (holder.host, holder.boot, holder.process, holder.started) == mine


def _read(descriptor: int) -> Holder | None:
    """Return the holder that a lock file names; None if it names none, for example because it was cut off."""
    try:
        return Holder(**json.loads(os.pread(descriptor, 4096, 0)))
    except (OSError, *DAMAGED):
        return None
