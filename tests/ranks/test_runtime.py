"""The runtime's agreements between ranks."""

import os
import signal
import time

from ridgeline.parallel.communicator import in_turn_per_node, node_communicator
from ridgeline.runtime.signals import SignalCatcher, StopRequest


def polls_until_stop(comm, caught, walltime=None, signal_on=None, at=3, limit=1000):
    with StopRequest(comm, caught, walltime, time.monotonic()) as stop:
        for n in range(limit):
            if n == at and comm.rank == signal_on:
                os.kill(os.getpid(), signal.SIGUSR1)
            reason = stop.poll()
            if reason is not None:
                return n, reason
    return limit, None


def test_a_signal_to_one_rank_stops_all_at_the_same_step(comm):
    with SignalCatcher() as caught:
        n, reason = polls_until_stop(comm, caught, signal_on=comm.size - 1)
    assert (n, reason) == (4, "SIGUSR1")
    assert comm.allgather(n) == [n] * comm.size


def test_the_wall_clock_limit_stops_all_at_the_same_step(comm):
    with SignalCatcher() as caught:
        n, reason = polls_until_stop(comm, caught, walltime=0.0)
    assert (n, reason) == (1, "wall-clock limit")


def test_nothing_stops_without_a_reason(comm):
    with SignalCatcher() as caught:
        assert polls_until_stop(comm, caught, limit=50) == (50, None)


def test_former_signal_handlers_come_back(comm):
    before = signal.getsignal(signal.SIGTERM)
    with SignalCatcher():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_one_rank_of_a_node_acts_before_the_others(comm):
    node = node_communicator(comm)
    times = node.allgather(in_turn_per_node(comm, time.monotonic_ns))
    assert all(times[0] < later for later in times[1:])
    node.Free()
