"""Bytes that the optimised version moves in an iteration, from the arrays it really reads and writes.

The specification counts the bytes of its reference code, which no other storage moves; a fraction of the memory's
bandwidth needs these. Each pass counts every array that it streams once; a store counts once, as STREAM counts it,
the halo not at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeline.bench.hpcg.optimise import OptimisedLevel

_VALUE = 8
# Vectors of n rows that the passes of a level stream (bench.hpcg.multigrid names them).
_FORWARD_ZERO = 4  # r, inverse diagonal, x, half_product
_BACKWARD = 3  # half_product, inverse diagonal, x
_COARSE_RESIDUAL = 1  # x
_ADD_PRODUCT = 2  # half_product, read and written
_FORWARD = 6  # r, inverse diagonal, half_product and x, read and written
_COARSE_POINTS = 4  # of the coarse rows: r, half_product, coarse r; correction
_PRODUCT = 3  # diagonal, p, Ap
_VECTORS = 3 + 5  # r -= alpha Ap: r twice, Ap; x += alpha p, p = z + beta p: x and p twice, z


def bytes_per_iteration(level: OptimisedLevel) -> int:
    """Return the bytes to and from memory of one iteration of CG on this rank. level: the finest."""
    product = _bytes(level.lower, level.upper, level.boundary) + _PRODUCT * _VALUE * level.n_rows
    dot = _VALUE * level.n_rows  # r, in the last sweep
    return product + _VECTORS * _VALUE * level.n_rows + bytes_per_cycle(level) + dot


def bytes_per_cycle(level: OptimisedLevel) -> int:
    """Return the bytes of one multigrid cycle from this level down, on this rank."""
    row = _VALUE * level.n_rows
    triangles = _bytes(level.lower, level.upper)
    sweep = triangles + (_FORWARD_ZERO + _BACKWARD) * row
    if level.coarse is None or level.transfer is None:
        return sweep
    transfer = level.transfer
    between = _bytes(transfer.lower, transfer.points, transfer.boundary, transfer.upper)
    between += (_COARSE_RESIDUAL + _ADD_PRODUCT) * row + _COARSE_POINTS * _VALUE * level.coarse.n_rows
    second = triangles + _bytes(level.boundary) + (_FORWARD + _BACKWARD) * row
    return sweep + between + second + bytes_per_cycle(level.coarse)


def _bytes(*parts: Any) -> int:
    return sum(part.nbytes if isinstance(part, np.ndarray) else _bytes(*part) for part in parts)
