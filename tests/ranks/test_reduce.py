"""Reductions that do not depend on the ranks, and agreement on errors and decisions."""

import hashlib
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.parallel.allreduce import (
    allreduce_max,
    allreduce_min,
    allreduce_sums,
    broadcast_decision,
    errors_on_all_ranks,
    gather_and_broadcast,
    raise_on_all_ranks,
)
from ridgeline.parallel.partition import factorizations
from ridgeline.runtime.errors import ConfigError, OutputError, RidgelineError

QUICK_RANKS = (3,)

SHAPE = (13, 11, 17)
CELLS = int(np.prod(SHAPE))
GRIDS = list(factorizations(MPI.COMM_WORLD.size))


def hard_values(kind: str, dtype) -> np.ndarray:
    """Values whose plain sum depends on the order."""
    rng = np.random.default_rng(5)
    values = rng.standard_normal(SHAPE)
    if kind == "wide":
        values *= 10.0 ** rng.integers(-12, 12, SHAPE)
    elif kind == "cancelling":
        values *= 1e10
        flat = values.reshape(-1)
        flat[1::2] = -flat[: CELLS // 2 * 2 : 2]
        values += 1e-3
    elif kind == "tiny":
        values *= 1e-310 if dtype == np.float64 else 1e-40
    elif kind == "huge":
        values *= 1e300 if dtype == np.float64 else 1e34
    elif kind == "zero":
        values *= 0.0
    elif kind == "alike":  # as large as the fixed point allows, all of one sign
        values[...] = np.nextafter(dtype(1), dtype(0))
    return values.astype(dtype)


def my_part(block, values: np.ndarray) -> np.ndarray:
    """This rank's owned view, strided and with ghosts of junk around it."""
    field = BlockArray.allocate(block, values.dtype, fill=1e5)
    field.owned[...] = values[tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))]
    return field.owned


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["plain", "wide", "cancelling", "tiny", "huge", "zero", "alike"])
def test_sums_are_exact_to_rounding_and_alike_for_all_grids(comm, kind, dtype) -> None:
    values = hard_values(kind, dtype)
    exact = sum(map(Fraction, values.astype(np.float64).ravel().tolist()))
    found = set()
    for grid in GRIDS:
        cartesian, block = decompose(comm, SHAPE, grid)
        sums = allreduce_sums(cartesian, [my_part(block, values), my_part(block, -values)], CELLS)
        assert sums[1] == -sums[0]
        found.add(float(sums[0]).hex())
        cartesian.Free()
    assert len(found) == 1
    assert len(set(comm.allgather(found.pop()))) == 1
    # 62 - 12 bits per fold: far below the last bit of a double, except where nearly all cancels.
    bound = float(np.abs(values.astype(np.float64)).max()) * CELLS * 2.0**-149
    assert abs(Fraction(float(sums[0])) - exact) <= Fraction(bound) + abs(exact) * Fraction(2) ** -53


def test_sums_are_the_same_at_every_rank_count(comm) -> None:
    """The digest is that of one rank, written down here, so that launches can be compared."""
    digest = hashlib.sha256()
    for kind in ("plain", "wide", "cancelling"):
        values = hard_values(kind, np.float64)
        cartesian, block = decompose(comm, SHAPE)
        digest.update(allreduce_sums(cartesian, [my_part(block, values)], CELLS).tobytes())
        cartesian.Free()
    serial = hashlib.sha256()
    for kind in ("plain", "wide", "cancelling"):
        serial.update(np.array([math.fsum(hard_values(kind, np.float64).ravel())]).tobytes())
    assert digest.digest() == serial.digest()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_sum_of_what_is_not_finite_is_nan_on_all_ranks(comm, bad) -> None:
    good, poor = np.ones(5), np.ones(5)
    if comm.rank == comm.size - 1:
        poor[3] = bad
    sums = allreduce_sums(comm, [good, poor], 5 * comm.size)
    assert sums[0] == 5 * comm.size
    assert math.isnan(sums[1])


def test_arrays_of_any_shape_and_order_are_summed(comm) -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    parts = [values, values[0], values[0, 0], values.T, values[:, ::2, ::-1], values.astype(int), values[:0]]
    sums = allreduce_sums(comm, parts, 24 * comm.size)
    assert sums.tolist() == [float(part.sum()) * comm.size for part in parts]
    assert allreduce_sums(comm, [], 1).tolist() == []
    with pytest.raises(
        ValueError, match=f"n_global = 3 is less than the {24 * comm.size} values of all ranks"
    ):
        allreduce_sums(comm, [values], 3)
    uneven = values.ravel()[: 24 if comm.rank else 0]  # no rank alone holds more than the bound
    if comm.size > 2:
        with pytest.raises(ValueError, match=f"n_global = 24 is less than the {24 * (comm.size - 1)} values"):
            allreduce_sums(comm, [uneven], 24)


def test_sum_beyond_the_largest_float_is_infinite(comm) -> None:
    sums = allreduce_sums(comm, [np.full(4, -1.7e308)], 4 * comm.size)
    assert sums.tolist() == [-math.inf]


def test_extremes(comm) -> None:
    assert allreduce_max(comm, comm.rank) == comm.size - 1
    assert allreduce_min(comm, -comm.rank) == 1 - comm.size
    pair = np.array([comm.rank, -comm.rank], dtype=float)
    assert allreduce_max(comm, pair).tolist() == [comm.size - 1, 0]
    assert allreduce_min(comm, pair).tolist() == [0, 1 - comm.size]
    zero = -0.0 if comm.rank % 2 else 0.0
    for result in (allreduce_max(comm, zero), allreduce_min(comm, zero), allreduce_min(comm, -zero)):
        assert math.copysign(1.0, result) == 1.0
    poor = [1.0, math.nan if comm.rank == comm.size - 1 else 2.0]
    for result in (allreduce_max(comm, poor), allreduce_min(comm, poor)):
        assert result[0] == 1.0
        assert math.isnan(result[1])
    assert allreduce_max(comm, -math.inf) == -math.inf
    assert allreduce_min(comm, math.inf) == math.inf


def test_error_of_one_rank_is_raised_on_all(comm) -> None:
    last = comm.size - 1
    mine = ConfigError("run.steps = -1 is negative") if comm.rank == last else None
    with pytest.raises(ConfigError, match=r"^run\.steps = -1 is negative") as caught:
        raise_on_all_ranks(comm, mine)
    assert caught.value.exit_code == 2
    if comm.rank == last:
        assert caught.value is mine
    else:
        assert caught.value.__notes__ == [f"raised on rank {last} of {comm.size}"]
    raise_on_all_ranks(comm, None)


def test_first_rank_speaks_when_several_fail(comm) -> None:
    with pytest.raises(OutputError, match=r"^rank 0 says no"):
        raise_on_all_ranks(comm, OutputError(f"rank {comm.rank} says no"))


class Unpicklable(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def test_error_that_cannot_travel_is_told_in_words(comm) -> None:
    mine = Unpicklable(1, 2) if comm.rank == 0 else None
    expected = Unpicklable if comm.rank == 0 else RidgelineError
    with pytest.raises(expected, match="1 and 2"):
        raise_on_all_ranks(comm, mine)


def test_block_of_code_fails_together(comm) -> None:
    def open_missing_file() -> None:
        with errors_on_all_ranks(comm):
            if comm.rank == comm.size - 1:
                Path("/no/such/file").read_text()

    with pytest.raises(FileNotFoundError):
        open_missing_file()
    with errors_on_all_ranks(comm):
        pass


def test_rank_zero_combines_the_values_of_all_ranks(comm) -> None:
    held = []  # by this rank

    def combine(values: list[int]) -> int:
        held.extend(values)
        return sum(values)

    assert gather_and_broadcast(comm, comm.rank + 1, combine) == comm.size * (comm.size + 1) // 2
    assert held == (list(range(1, comm.size + 1)) if comm.rank == 0 else [])
    with pytest.raises(ZeroDivisionError):
        gather_and_broadcast(comm, 0, lambda values: 1 // sum(values))


def test_decision_of_root_is_everybodys(comm) -> None:
    root = comm.size - 1
    assert broadcast_decision(comm, lambda: {"rank": comm.rank}, root=root) == {"rank": root}
    with pytest.raises(ZeroDivisionError):
        broadcast_decision(comm, lambda: 1 // 0)
