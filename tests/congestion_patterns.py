"""What background traffic and tests of the network move, checked in any memory; tests on ranks share it."""

import numpy as np
import pytest

from ridgeline.bench.congestion.background import PATTERNS, SIZE, GetIncastTraffic, PutIncastTraffic
from ridgeline.bench.congestion.network_tests import NATURAL, TESTS, Allreduces, NeighbourRing
from ridgeline.bench.exposed_memory import ExposedMemory
from ridgeline.parallel.payload import Buffer
from ridgeline.runtime.errors import VerificationError

RECEIVERS = {  # whether rank r of n gets data
    "all-to-all": lambda r, n: True,
    "incast": lambda r, n: r == 0 and n > 1,
    "put-incast": lambda r, n: r == 0 and n > 1,
    "get-incast": lambda r, n: r > 0,
    "broadcast": lambda r, n: r > 0,
}
BYTES = {  # that rank r of n moves in a step
    "all-to-all": lambda r, n: SIZE * max(1, n - 1),
    "incast": lambda r, n: SIZE * (r > 0),
    "put-incast": lambda r, n: SIZE * (r > 0),
    "get-incast": lambda r, n: SIZE * (r > 0),
    "broadcast": lambda r, n: SIZE * (n - 1) * (r == 0),
}


def arrives_in(pattern) -> Buffer | ExposedMemory:
    """What a pattern verifies on ranks that get data."""
    if isinstance(pattern, PutIncastTraffic):
        return pattern.exposed
    return pattern.local if isinstance(pattern, GetIncastTraffic) else pattern._received


def check_pattern(comm, kind, memory) -> None:
    """A pattern verifies what it moves, and finds what has not arrived or has changed."""
    pattern = PATTERNS[kind](comm, [10 + rank for rank in range(comm.size)], memory)
    assert pattern.bytes == BYTES[kind](comm.rank, comm.size)
    pattern.open()
    pattern.close()
    if RECEIVERS[kind](comm.rank, comm.size):  # nothing has arrived
        with pytest.raises(VerificationError, match=f"rank {10 + comm.rank} "):
            pattern.verify()
    else:
        pattern.verify()
    comm.Barrier()
    for _ in range(2):
        pattern.open()
        for _ in range(3):
            pattern.step()
        pattern.close()
        pattern.verify()
        comm.Barrier()
    if RECEIVERS[kind](comm.rank, comm.size):  # one byte of the last block
        arrived = arrives_in(pattern)
        data = arrived.read(arrived.n_bytes).copy()
        data[-1] ^= 1
        arrived.write(data)
        with pytest.raises(VerificationError, match=r"\b1 of them wrong"):
            pattern.verify()
    pattern.free()


def check_rings_and_sums(comm, memory) -> None:
    """Rings and sums verify what arrives, and find what has not arrived or has changed."""
    names = [20 + rank for rank in range(comm.size)]
    if comm.size > 1:
        for test in (*TESTS[:2], *NATURAL):
            ring = NeighbourRing(comm, names, test, (5, 0), memory)
            for number in range(2):
                ring.prepare(number)
                if test.natural:
                    around = [(comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size]
                    assert [ring.left, ring.right] == around
                with pytest.raises(VerificationError, match=f"rank {20 + comm.rank} received"):
                    ring.verify()
                comm.Barrier()
                times = np.zeros(2)
                ring.repeat(times)
                assert times.min() > 0
                ring.verify()
            last = ring.received[1][-1]  # one byte in the last of the outstanding messages
            data = last.read(test.size).copy()
            data[-1] ^= 1
            last.write(data)
            with pytest.raises(VerificationError, match="1 of them wrong"):
                ring.verify()
            ring.free()
    sums = Allreduces(comm, names, memory)
    sums.prepare(0)
    with pytest.raises(VerificationError, match="returned 0"):
        sums.verify()
    comm.Barrier()
    sums.repeat(np.zeros(2))
    sums.verify()
    assert sums.expected == sum(range(21, 21 + comm.size))
