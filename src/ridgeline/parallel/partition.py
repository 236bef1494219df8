"""Even splits and process grids: how many of n cells each of several ranks gets. No communication."""

from collections.abc import Iterator

Triple = tuple[int, int, int]


def split(n: int, parts: int, index: int) -> tuple[int, int]:
    """Return (offset, size) of part `index` of n cells over `parts`; the first n % parts parts get one more."""
    size, more = divmod(n, parts)
    return index * size + min(index, more), size + (index < more)


def factorizations(n: int) -> Iterator[Triple]:
    """Yield all (pz, py, px) with pz * py * px = n."""
    for pz in (d for d in range(1, n + 1) if n % d == 0):
        for py in (d for d in range(1, n // pz + 1) if (n // pz) % d == 0):
            yield pz, py, n // pz // py
