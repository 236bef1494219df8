"""The runtime's agreements between ranks."""

import os
import signal
import time
from functools import partial

import numba
import pytest
from mpi4py import MPI

from ridgeline.bench import node_memory
from ridgeline.bench.node_memory import memory_per_rank, require_memory
from ridgeline.jit.kernel import compile_kernels, kernel, specialise
from ridgeline.parallel import layout
from ridgeline.parallel.communicator import compile_on_nodes, node_communicator
from ridgeline.parallel.layout import node_cores, oversubscription_warning, place_on_node
from ridgeline.runtime.errors import ConfigError
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


def test_the_clock_of_rank_0_travels_with_the_agreement(comm, monkeypatch):
    """Each rank has a clock of its own here: 10 s a poll on rank 0, and 1000 s on the others."""
    now = [0.0]
    monkeypatch.setattr("ridgeline.runtime.signals.time.monotonic", lambda: now[0])
    seen = []
    with SignalCatcher() as caught, StopRequest(comm, caught, None, 0.0) as stop:
        for _ in range(5):
            now[0] += 10.0 if comm.rank == 0 else 1000.0
            assert stop.poll() is None
            seen.append(stop.seconds)
    assert seen == [0.0, 10.0, 20.0, 30.0, 40.0]


PARTIAL_SUMS = [
    lambda x: x + 0,
    lambda x: x + 1,
    lambda x: x + 2,
    lambda x: x + 3,
    lambda x: x + 4,
    lambda x: x + 5,
]


def compile_and_note(order, number, compile, arguments):
    order.append(number)
    return compile(arguments)


def test_former_signal_handlers_come_back(comm):
    before = signal.getsignal(signal.SIGTERM)
    with SignalCatcher():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_ranks_of_a_node_share_the_kernels_and_compile_each_once(comm, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", comm.bcast(str(tmp_path)))
    kernels = [kernel(lambda: (numba.int64,))(partial_sum) for partial_sum in PARTIAL_SUMS]
    order: list[int] = []
    for number, each in enumerate(kernels):
        monkeypatch.setattr(each, "compile", partial(compile_and_note, order, number, each.compile))
    compile_on_nodes(comm, lambda: compile_kernels(specialise(kernels)))
    assert sorted(set(order)) == list(range(6))
    assert order[0] == 6 * comm.rank // comm.size, "each rank begins with another part"
    compiled = comm.allreduce(sum(sum(each.stats.cache_misses.values()) for each in kernels))
    assert compiled == 6


def test_the_place_of_a_rank_on_its_node(comm):
    with node_communicator(comm) as node:
        ranks = node.allgather(comm.rank)
    assert place_on_node(comm) == (ranks.index(comm.rank), len(ranks), ranks[0])


def test_cores_of_a_node_are_those_of_all_its_ranks_together(comm, monkeypatch):
    """A launcher binds each rank to a core, as srun --cpu-bind=cores and Open MPI do; or all to one."""
    place = place_on_node(comm)
    monkeypatch.setattr(layout, "usable_cores", lambda: {place.local_rank})
    assert (node_cores(comm), oversubscription_warning(comm, 1)) == (place.ranks, None)
    assert "oversubscribed" in str(oversubscription_warning(comm, 2))
    monkeypatch.setattr(layout, "usable_cores", lambda: {7})
    assert node_cores(comm) == 1
    assert (oversubscription_warning(comm, 1) is None) == (comm.size == 1)


def test_memory_that_one_node_lacks_is_refused_on_all_ranks(comm, monkeypatch):
    with node_communicator(comm) as node:
        last_node = comm.allreduce(comm.rank, MPI.MAX) in node.allgather(comm.rank)
        together = node.allreduce(2**30)
    monkeypatch.setattr(node_memory, "memory_available", lambda: together - last_node)
    with pytest.raises(
        ConfigError, match=r"^these need \d+\.0 GiB on a node, which is more than is free\. Use less\.$"
    ):
        require_memory(comm, 2**30, "these need", "Use less")
    monkeypatch.setattr(node_memory, "memory_available", lambda: together)
    require_memory(comm, 2**30, "these need", "use less")
    assert memory_per_rank(comm) == 2**30
