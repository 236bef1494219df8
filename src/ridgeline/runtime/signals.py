"""Stopping before the last step: signals from the batch system, and the wall-clock limit."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from ridgeline.runtime.errors import RidgelineError

if TYPE_CHECKING:
    from mpi4py import MPI

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
# Seconds in which a repeated signal counts as the first one: schedulers send it two or three times.
_REPEATED = 5.0
# Seconds in which one Ctrl-C may arrive twice, from the terminal and from a launcher.
_ONE_PRESS = 0.3
_WALLTIME = 1 << 16  # more than any signal number, so that the maximum over ranks prefers it
# The bits below the reason in the agreement: milliseconds of the clock of rank 0. The largest reason wins, and where
# there is none, rank 0 is the only one with a number.
_CLOCK_BITS = 40


class StoppedError(RidgelineError):
    """A signal ended the job before its first step, when there was nothing to save. The exit code is a shell's."""

    def __init__(self, number: int) -> None:
        name = signal.Signals(number).name
        super().__init__(f"{name} ended the job before its first step. Nothing was computed. Start it again.")
        self.exit_code = 128 + number


class RunInterrupted(KeyboardInterrupt):
    """Report that a signal such as Ctrl-C stopped a run between two steps, after a checkpoint was saved.

    `Simulation.run` or `Simulation.advance` continues the run. It is a `KeyboardInterrupt`, so that `except
    Exception` does not catch it.

    Examples
    --------
    >>> import os, signal
    >>> import ridgeline
    >>> case = ridgeline.Case("gray_scott", 8, grid={"shape": (8, 8, 8)}, checkpoint={"path": "kept"})
    >>> with ridgeline.Simulation(case, progress=False) as simulation:
    ...     simulation.every(2, lambda now: now.step == 2 and os.kill(os.getpid(), signal.SIGINT))
    ...     try:
    ...         report = simulation.run()
    ...     except ridgeline.RunInterrupted:
    ...         stopped = simulation.step
    ...         report = simulation.run()
    >>> stopped < report["run"]["last_step"] == 8
    True
    """


def hold_stop_signals() -> None:
    """Block stop signals until a `SignalCatcher` or a launcher of ranks is ready for them. Call before anything else.

    This is for a process with one task: once that is done, stop signals are ignored, and its exit code counts.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def release_stop_signals() -> bool:
    """Unblock stop signals, so that those that came meanwhile are delivered; return whether they were blocked."""
    return signal.SIGTERM in signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


@contextmanager
def stop_handlers(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let a handler receive stop signals within the block, beginning with those that were blocked before.

    The former handlers are restored at the end. Where signals were blocked before, they are ignored from then on: the
    default action would kill a process that has done its task, in its last moments, with the exit code of a failure.
    """
    former: dict[int, Any] = {number: signal.signal(number, handler) for number in STOP_SIGNALS}
    blocked = release_stop_signals()
    try:
        yield
    finally:
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN if blocked else former[number])


class SignalCatcher:
    """Remembers a stop signal instead of ending the process. A context manager around the whole run.

    It is entered before MPI starts and kernels compile, so that a signal that comes early still ends the run in
    order. Schedulers repeat a signal within milliseconds, so repeats count as the first one. Only a second Ctrl-C of
    an impatient person ends the process at once. What happens at the end is described in `stop_handlers`.
    """

    def __init__(self) -> None:
        self.received = 0
        self.polled = False  # whether a StopRequest polls it
        self._last = 0
        self._since = 0.0
        self._handlers = ExitStack()

    def __enter__(self) -> SignalCatcher:
        self._handlers.enter_context(stop_handlers(self._receive))
        return self

    def __exit__(self, *exception: object) -> None:
        self._handlers.close()

    def forget(self) -> None:
        """Continue after a signal that was handled. Another Ctrl-C then counts as a first one."""
        self.received = 0
        if self._last == signal.SIGINT:
            self._last = 0

    def note(self, number: int) -> bool:
        """Remember a signal; return whether it is new, and not a repeat of the last one."""
        now = time.monotonic()
        if number == self._last and number == signal.SIGINT and now > self._since + _ONE_PRESS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        if number == self._last and now < self._since + _REPEATED:
            return False
        self._last, self._since, self.received = number, now, number
        return True

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.note(number)


@contextmanager
def stops_at_once() -> Iterator[None]:
    """Let a signal that a SignalCatcher would only remember end the block at once, by StoppedError.

    This is for waiting and compiling before the first step, when there is nothing yet to end in order. It does
    nothing once a StopRequest polls, and outside the main thread, the only one that receives signals. A signal that
    the catcher already remembers ends the block too.
    """
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    catchers = [getattr(handler, "__self__", None) for handler in handlers.values()]
    caught = next((catcher for catcher in catchers if isinstance(catcher, SignalCatcher)), None)
    if caught is None or caught.polled or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if caught.note(number):
            raise StoppedError(number)

    if caught.received:
        raise StoppedError(caught.received)
    for number in STOP_SIGNALS:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


_LEFT: list[StopRequest] = []


class StopRequest:
    """Whether the run should end, agreed by all ranks at the same step.

    A signal may reach any subset of the ranks at any time. Every step posts a non-blocking maximum over all ranks and
    reads the one posted a step earlier. The agreement therefore costs no waiting, because it travels while the step
    computes. With it travels the clock of rank 0.

    Attributes
    ----------
    seconds : since this object was made, by the clock of rank 0 about a step ago, the same on all ranks
    """

    def __init__(self, comm: MPI.Comm, caught: SignalCatcher, walltime: float | None, started: float) -> None:
        """Collective. walltime: seconds since `started` (a time.monotonic()), or None."""
        self._comm = comm.Dup()
        self._caught = caught
        caught.polled = True
        self._deadline = None if walltime is None else started + walltime
        self._begun = time.monotonic()
        self.seconds = 0.0
        self._request: MPI.Request | None = None
        self._mine = bytearray(8)
        self._all = bytearray(8)

    def __enter__(self) -> StopRequest:
        return self

    def __exit__(self, *exception: object) -> None:
        # After an error on one rank the others may never answer, and waiting would hang. MPI may still write to the
        # buffers then, so they are kept as long as the process lives.
        if exception[0] is None or self._comm.size == 1:
            self._finish()
            self._comm.Free()
        else:
            _LEFT.append(self)

    def _state(self) -> int:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return _WALLTIME
        return self._caught.received

    def _finish(self) -> int:
        if self._request is None:
            return 0
        self._request.Wait()
        self._request = None
        return int.from_bytes(self._all, "little")

    def poll(self) -> str | None:
        """Return the reason to stop on which all ranks agree, or None to continue. Collective, once per step."""
        from mpi4py import MPI

        agreed = self._finish()
        reason, clock = agreed >> _CLOCK_BITS, agreed % (1 << _CLOCK_BITS)
        if reason:
            return "wall-clock limit" if reason >= _WALLTIME else signal.Signals(reason).name
        self.seconds = max(self.seconds, 1e-3 * clock)
        mine = self._state() << _CLOCK_BITS
        if self._comm.rank == 0:
            mine += int(1e3 * (time.monotonic() - self._begun))
        self._mine[:] = mine.to_bytes(8, "little")
        self._request = self._comm.Iallreduce([self._mine, MPI.INT64_T], [self._all, MPI.INT64_T], op=MPI.MAX)
        return None
