"""Sizes and repetitions: OSU's unless told."""

import pytest

from ridgeline.bench.shared_options import MAX_COLLECTIVE_SIZE, MAX_SIZE, Repetitions, message_sizes
from ridgeline.runtime.errors import ConfigError


@pytest.mark.parametrize(
    ("family", "small", "large"),
    [
        ("latency", (10_000, 100), (1_000, 10)),
        ("bandwidth", (100, 10), (20, 2)),
        ("collective", (1_000, 100), (100, 10)),
    ],
)
def test_osus_numbers(family, small, large):
    repetitions = Repetitions(family)
    assert [repetitions.of(size) for size in (0, 8192, 8193, MAX_SIZE)] == [small, small, large, large]
    assert Repetitions(family, iterations=3).of(9000) == (3, large[1])
    assert Repetitions(family, warm_up=0).of(0) == (small[0], 0)


@pytest.mark.parametrize(("iterations", "warm_up"), [(0, None), (-1, 0), (None, -1)])
def test_numbers_out_of_range(iterations, warm_up):
    with pytest.raises(ConfigError, match=r"It must be [01] or more\.$"):
        Repetitions("latency", iterations, warm_up)


@pytest.mark.parametrize(
    ("bounds", "sizes"),
    [
        ((0, 4), [0, 1, 2, 4]),
        ((1, 1), [1]),
        ((0, 0), [0]),
        ((3, 9), [3, 4, 8, 9]),
        ((5, 7), [5, 7]),
        ((1024, 4096), [1024, 2048, 4096]),
    ],
)
def test_sizes(bounds, sizes):
    assert message_sizes(*bounds) == sizes


def test_osus_sizes():
    assert len(message_sizes(1, MAX_SIZE)) == 23
    assert message_sizes(1, MAX_COLLECTIVE_SIZE)[-1] == 2**20


@pytest.mark.parametrize("bounds", [(-1, 4), (8, 4)])
def test_no_sizes(bounds):
    with pytest.raises(ConfigError, match=f"sizes from {bounds[0]} to {bounds[1]} B"):
        message_sizes(*bounds)
