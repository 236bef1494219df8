"""STREAM over ranks: rates of all ranks together, the same answer on each."""

from dataclasses import replace

import pytest

from ridgeline.limits import stream
from ridgeline.limits.stream import measure_stream
from ridgeline.runtime.errors import ConfigError

MiB = 2**20


def test_every_rank_gets_the_same_limits(comm):
    limits = measure_stream(comm, 1, bytes_per_rank=3 * MiB, repeats=2)
    assert (limits.ranks, limits.ranks_per_node) == (comm.size, comm.size)
    assert comm.allgather(limits) == [limits] * comm.size


def test_the_slowest_rank_decides_and_bytes_add_up(comm, monkeypatch):
    class Clock:
        """A clock on which a kernel takes rank + 1 seconds."""

        now = 0.0

        def perf_counter(self):
            self.now += comm.rank + 1
            return self.now

    monkeypatch.setattr(stream, "time", Clock())
    limits = measure_stream(comm, 1, bytes_per_rank=3 * MiB, repeats=3)
    assert limits.ordinary.copy == 2 * MiB  # bytes of all ranks, 2 words each, over comm.size seconds
    assert limits.streaming.triad == 3 * MiB


def test_default_size_is_shared_out_over_the_node(comm, monkeypatch):
    monkeypatch.setattr(stream, "last_level_caches", lambda cpus: {f"rank {comm.rank}": 4 * MiB})
    limits = measure_stream(comm, 1, repeats=1)
    assert limits.caches_per_node == 4 * MiB * comm.size
    assert limits.bytes_per_array == 16 * MiB
    assert replace(limits, ranks_per_node=comm.size).times_caches == 4.0


def test_bad_arguments_are_refused_on_every_rank(comm):
    with pytest.raises(ConfigError):
        measure_stream(comm, 0)
    comm.Barrier()
