"""The boxes of HPCG: one box of nx x ny x nz points a rank, on a process grid of npx x npy x npz ranks, x fastest.

Rules of HPCG 3.1: local sizes are at least 16 and can be halved three times. The smallest size over the largest is at
least 1/8 for the local box and for the process grid. Source: Heroux, Dongarra, Luszczek, "HPCG Technical
Specification", SAND2013-8752.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ridgeline.runtime.errors import ConfigError

LEAST_SIZE = 16
MULTIPLE = 8  # halved three times for four levels
LEAST_ASPECT = 0.125

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class HpcgGeometry:
    """The place of a rank's box. nx, ny, nz: local sizes; ipx, ipy, ipz: coordinates in the process grid."""

    size: int
    rank: int
    npx: int
    npy: int
    npz: int
    ipx: int
    ipy: int
    ipz: int
    nx: int
    ny: int
    nz: int

    @property
    def gnx(self) -> int:
        """The points of the whole box in x."""
        return self.npx * self.nx

    @property
    def gny(self) -> int:
        """The points of the whole box in y."""
        return self.npy * self.ny

    @property
    def gnz(self) -> int:
        """The points of the whole box in z."""
        return self.npz * self.nz

    @property
    def n_rows(self) -> int:
        """The rows of this rank."""
        return self.nx * self.ny * self.nz

    @property
    def total_rows(self) -> int:
        """The rows of all ranks."""
        return self.gnx * self.gny * self.gnz

    @property
    def local(self) -> Triple:
        """(nx, ny, nz)."""
        return self.nx, self.ny, self.nz

    @property
    def whole(self) -> Triple:
        """(gnx, gny, gnz)."""
        return self.gnx, self.gny, self.gnz

    @property
    def origin(self) -> Triple:
        """The point of the whole box where this rank's box begins."""
        return self.ipx * self.nx, self.ipy * self.ny, self.ipz * self.nz


def _grids(size: int, fixed: Triple) -> Iterator[Triple]:
    """Yield all process grids of `size` ranks that have the fixed numbers (0: free)."""
    for npx in [fixed[0]] if fixed[0] else range(1, size + 1):
        if size % npx == 0:
            rest = size // npx
            for npy in [fixed[1]] if fixed[1] else range(1, rest + 1):
                if rest % npy == 0 and fixed[2] in (0, rest // npy):
                    yield npx, npy, rest // npy


def process_grid(size: int, npx: int = 0, npy: int = 0, npz: int = 0) -> Triple:
    """Return the grid (npx, npy, npz) of `size` ranks with the least surface.

    Among grids of equal surface it is the grid of the official code, so that both divide a box in the same way, for
    instance 2 x 1 x 1, 2 x 2 x 1, 2 x 3 x 1, 2 x 2 x 2, 2 x 3 x 2, 4 x 2 x 2. Numbers that are not 0 are kept.

    Raises ConfigError if no such grid has `size` ranks.
    """
    fixed = npx, npy, npz
    grids = list(_grids(size, fixed)) if min(fixed) >= 0 else []
    if not grids:
        raise ConfigError(
            f"process grid npx x npy x npz = {npx} x {npy} x {npz} (0: chosen by the benchmark): the product must be "
            f"the number of ranks, {size}. Leave out --npx, --npy and --npz, or choose factors of {size}."
        )
    primes = _prime_factors(size)
    return min(grids, key=lambda grid: (surface(grid), _search_order(primes, grid)))


def _prime_factors(number: int) -> dict[int, int]:
    """Return the power of each prime factor, in ascending order of the primes."""
    powers: dict[int, int] = {}
    prime = 2
    while number > 1:
        while number % prime == 0:
            powers[prime] = powers.get(prime, 0) + 1
            number //= prime
        prime += 1
    return powers


def _search_order(primes: dict[int, int], grid: Triple) -> tuple[object, ...]:
    """Return a key that sorts grids in the order in which the official code's search meets them.

    For a power of one prime, larger numbers come first. For three prime factors of which one occurs twice, the grid
    p, q and the one that occurs twice is the first. Otherwise npx, then npy count up the powers of the primes, the
    smallest prime fastest, from 2 on.
    """
    if len(primes) <= 1:
        return tuple(-number for number in grid)
    if sorted(primes.values()) == [1, 2]:
        twice = max(primes, key=lambda prime: primes[prime])
        return (grid != (*primes, twice), grid)
    powers = [[_prime_factors(number).get(prime, 0) for prime in reversed(primes)] for number in grid]
    return (1 in grid[:2], powers)


def surface(grid: Triple) -> int:
    """Return half the surface of a box of unit cubes."""
    return grid[0] * grid[1] + grid[1] * grid[2] + grid[2] * grid[0]


def place(size: int, rank: int, local: Triple, grid: Triple) -> HpcgGeometry:
    """Return the geometry of a rank without checking HPCG's rules. local: (nx, ny, nz); grid: of `size` ranks."""
    npx, npy, npz = grid
    return HpcgGeometry(size, rank, npx, npy, npz, rank % npx, rank // npx % npy, rank // (npx * npy), *local)


def make_geometry(
    size: int, rank: int, nx: int, ny: int, nz: int, npx: int = 0, npy: int = 0, npz: int = 0
) -> HpcgGeometry:
    """Return the geometry of a rank by HPCG's rules; `process_grid` chooses the process numbers that are 0.

    Raises ConfigError, the same on all ranks, if a size or an aspect ratio is against the rules.
    """
    for name, value in zip(("nx", "ny", "nz"), (nx, ny, nz)):
        if value < LEAST_SIZE or value % MULTIPLE:
            nearest = max(LEAST_SIZE, MULTIPLE * math.floor(value / MULTIPLE + 0.5))
            raise ConfigError(
                f"{name} = {value}: HPCG's local sizes must be multiples of {MULTIPLE} and at least {LEAST_SIZE}, "
                f"because its four grid levels halve them three times. Try {nearest}."
            )
    _check_aspect("local box nx x ny x nz", (nx, ny, nz), "Make its sizes more alike.")
    grid = process_grid(size, npx, npy, npz)
    _check_aspect("process grid npx x npy x npz", grid, "Use a different number of ranks or other factors.")
    return place(size, rank, (nx, ny, nz), grid)


def _check_aspect(what: str, sizes: Triple, advice: str) -> None:
    aspect = min(sizes) / max(sizes)
    if aspect < LEAST_ASPECT:
        words = " x ".join(map(str, sizes))
        raise ConfigError(
            f"{what} = {words}: the smallest size divided by the largest is {aspect:.3g}, but HPCG's rules require "
            f"at least {LEAST_ASPECT}. {advice}"
        )


def coarsen(geometry: HpcgGeometry) -> HpcgGeometry:
    """Return the geometry with every second point in each direction. Raises ConfigError if a size is odd."""
    if any(value % 2 for value in geometry.local):
        words = " x ".join(map(str, geometry.local))
        raise ConfigError(f"a local box of {words} points cannot be halved. Use even sizes or fewer levels.")
    return replace(geometry, nx=geometry.nx // 2, ny=geometry.ny // 2, nz=geometry.nz // 2)
