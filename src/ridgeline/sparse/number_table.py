"""Hash tables from global numbers to local ones, open addressing, serial.

A table is int32 [2^k], -1 where free, at most half full. It holds places in an array of numbers, which a look-up
compares with.
"""

import numpy as np
from numba import int32, int64

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

_HASH = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads consecutive groups
_BITS = 4  # numbers that differ in the last ones alone share a cache line


def empty_table(count: int) -> np.ndarray:
    """Return a table for `count` numbers."""
    return np.full(1 << max(_BITS, (2 * count - 1).bit_length()), -1, np.int32)


@subroutine
def _shift(table):
    """Return by how much a hash of 64 bits is shifted to name one of the table's groups of slots."""
    shift = 64
    while (1 << (64 - shift + _BITS)) < table.size:
        shift -= 1
    return shift


@subroutine
def _slot(number, shift, numbers, table):
    """Return the slot where a number stands, or would."""
    group = 0
    if shift < 64:
        group = np.int64(((np.uint64(number) >> np.uint64(_BITS)) * _HASH) >> np.uint64(shift))
    slot = (group << _BITS) + (number & ((1 << _BITS) - 1))
    while table[slot] >= 0 and numbers[table[slot]] != number:
        slot = (slot + 1) & (table.size - 1)
    return slot


@kernel(lambda: (int64[::1], int32[::1]))
def fill_table(numbers, table):
    """Enter all numbers; return the place of one that is there twice, or -1."""
    shift = _shift(table)
    for place in range(numbers.size):
        slot = _slot(numbers[place], shift, numbers, table)
        if table[slot] >= 0:
            return place
        table[slot] = place
    return -1


@kernel(lambda: (int64[::1], int64[::1], int32[::1], int32[::1]))
def look_up(wanted, numbers, table, places):
    """places[i] = place of wanted[i] among the numbers of a table, or -1."""
    shift = _shift(table)
    for i in range(wanted.size):
        places[i] = table[_slot(wanted[i], shift, numbers, table)]


@kernel(lambda: (int64[::1], int64[::1], int64[::1], int32[::1], int32[::1]))
def look_up_rows(indptr, wanted, numbers, table, places):
    """Do as `look_up` for rows of numbers; return how many are not there. wanted, places begin at entry indptr[0].

    Rows that follow each other often want numbers one higher, at places one higher: tried first, and never trusted.
    """
    shift, missing = _shift(table), 0
    before, width = 0, 0
    for row in range(indptr.size - 1):
        start, end = indptr[row] - indptr[0], indptr[row + 1] - indptr[0]
        for p in range(start, end):
            place = places[before + p - start] + 1 if p - start < width else 0
            if place >= numbers.size or numbers[place] != wanted[p]:
                place = table[_slot(wanted[p], shift, numbers, table)]
                missing += place < 0
            places[p] = place
        before, width = start, end - start
    return missing


@kernel(lambda: (int64[::1], int32[::1], int64[::1], int32[::1]))
def find_distinct(numbers, table, distinct, which):
    """Set distinct[k] to the numbers in the order in which they come, and which[m] to k; return how many they are."""
    shift, count = _shift(table), 0
    for m in range(numbers.size):
        slot = _slot(numbers[m], shift, distinct, table)
        if table[slot] < 0:
            table[slot] = count
            distinct[count] = numbers[m]
            count += 1
        which[m] = table[slot]
    return count


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([fill_table, look_up, look_up_rows, find_distinct])
