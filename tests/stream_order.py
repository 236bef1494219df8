"""Finds work on several CUDA streams that the waits of a program do not put in order; for numba-cuda's simulator.

The simulator does everything at once, in the order of the calls, so that a wait that is missing changes nothing
there. `StreamOrder` takes note of which stream, or the host, reads and writes which numbers. Each of them has a
vector clock, which events and waits hand on. Two accesses to a number, one of which writes, must be in order by these
clocks. Source: Mattern, "Virtual time and global states of distributed systems" (1989).
"""

from collections import defaultdict

import numpy as np

HOST = "host"


class StreamOrder:
    """Clocks of the host and of all streams, and who touched each number last."""

    def __init__(self):
        self.clocks = defaultdict(lambda: defaultdict(int))
        self.written, self.read = {}, defaultdict(dict)
        self.kept = []  # arrays whose memory must not be given to others
        self.accesses = 0

    def work(self, stream, reads=(), writes=(), what=""):
        """Note what a stream, or HOST, reads and writes: arrays or addresses. AssertionError if that is unordered."""
        who = stream if stream is HOST else id(stream)
        clock = self.clocks[who]
        if who is not HOST:
            self._join(clock, self.clocks[HOST])  # what is launched comes after what the host has done
        clock[who] += 1
        for numbers in reads:
            for address in addresses(numbers).tolist():
                self._after(self.written.get(address), clock, what)
                self.read[address][who] = clock[who], what
        for numbers in writes:
            for address in addresses(numbers).tolist():
                self._after(self.written.get(address), clock, what)
                for reader, (time, before) in self.read.pop(address, {}).items():
                    self._after((reader, time, before), clock, what)
                self.written[address] = who, clock[who], what
        self.accesses += 1

    def _after(self, access, clock, what):
        if access is not None:
            who, time, before = access
            assert clock[who] >= time, f"{what} is not put behind {before}"

    def _join(self, clock, other):
        for who, time in other.items():
            clock[who] = max(clock[who], time)

    def event(self):
        """An event, as numba.cuda has it."""
        return _Event(self)

    def stream(self, urgent=False):
        """A stream, as `jit.cuda_device.make_stream` returns it."""
        stream = _Stream(self)
        self.kept.append(stream)
        return stream


class _Event:
    def __init__(self, order):
        self._order, self._clock = order, {}

    def record(self, stream):
        order = self._order
        order._join(order.clocks[id(stream)], order.clocks[HOST])
        self._clock = dict(order.clocks[id(stream)])

    def wait(self, stream):
        self._order._join(self._order.clocks[id(stream)], self._clock)

    def synchronize(self):
        self._order._join(self._order.clocks[HOST], self._clock)


class _Stream:
    def __init__(self, order):
        self._order = order

    def synchronize(self):
        self._order._join(self._order.clocks[HOST], self._order.clocks[id(self)])


def addresses(numbers):
    """Addresses of the numbers of an array, of 8 bytes each; addresses stay what they are."""
    if isinstance(numbers, np.ndarray) and numbers.dtype != np.uintp:
        steps = [np.arange(length) * step for length, step in zip(numbers.shape, numbers.strides)]
        offsets = sum(np.ix_(*steps)) if steps else np.zeros(1, np.int64)
        return (numbers.ctypes.data + offsets).ravel().astype(np.uintp)
    return numbers


def noting(note, function):
    """The function, with a note before each call."""

    def call(*arguments, **named):
        note(*arguments, **named)
        return function(*arguments, **named)

    return call
