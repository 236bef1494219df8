"""Messages that can be checked: one wrong byte, a stale, a shifted or a foreign message is found."""

import numpy as np
import pytest

from ridgeline.parallel.payload import Buffer, check, content, memory_for
from ridgeline.runtime.errors import VerificationError

SIZES = [0, 1, 2, 7, 8, 9, 63, 64, 65, 1000, 4099]


@pytest.mark.parametrize("size", SIZES)
def test_content_is_the_same_everywhere_and_passes(size):
    message = content(size, 3, 5, 7)
    assert (message.dtype, message.size) == (np.uint8, size)
    assert (message == content(size, 3, 5, 7)).all()
    assert (message == content(size + 13, 3, 5, 7)[:size]).all()
    check(message, 3, 5, 7)


@pytest.mark.parametrize("size", [size for size in SIZES if size])
def test_any_wrong_byte_is_found_and_named(size):
    random = np.random.default_rng(size)
    places = {0, size - 1, *random.integers(0, size, 10).tolist()}
    for place in places:
        message = content(size, 0, 1)
        message[place] ^= 1 << int(random.integers(8))
        words = f"rank 1 received {size} B from rank 0, 1 of them wrong, the first at byte {place}\\."
        with pytest.raises(VerificationError, match=words):
            check(message, 0, 1)


@pytest.mark.parametrize("other", [(1, 0, 0), (0, 2, 0), (2, 1, 0), (0, 1, 1), (0, 1, 2), (5, 5, 5)])
def test_foreign_and_stale_messages_differ_in_almost_every_word(other):
    mine, theirs = content(8000, 0, 1, 0).view(np.uint64), content(8000, *other).view(np.uint64)
    assert (mine != theirs).mean() > 0.99


def test_short_messages_differ_between_sequences_pairs_and_directions():
    cases = [(a, b, k) for a in range(6) for b in range(6) for k in range(4)]
    assert len({content(8, *case).tobytes() for case in cases}) == len(cases)


@pytest.mark.parametrize("shift", [1, 4, 7, 8, 16, 4096])
def test_shifted_message_is_found(shift):
    with pytest.raises(VerificationError):
        check(content(9000, 0, 1)[shift:], 0, 1)


def test_bytes_are_evenly_spread():
    """So that a link or memory cell that sticks is seen in any bit."""
    bits = np.unpackbits(content(2**16, 0, 1))
    assert abs(bits.reshape(-1, 64).mean(axis=0) - 0.5).max() < 0.03


def test_buffer_on_the_host():
    buffer = Buffer(10)
    assert not buffer.staged
    assert buffer.read(10).tolist() == [0] * 10
    buffer.write(np.arange(4, dtype=np.uint8))
    assert buffer.read(10).tolist() == [0, 1, 2, 3, 0, 0, 0, 0, 0, 0]
    array, count, _ = Buffer(0).message(0)
    assert (array.size, count) == (1, 0)  # MPI may refuse the address of nothing


def test_host_memory_needs_no_device():
    assert memory_for(None, "cpu") == "host"
