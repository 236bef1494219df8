"""Effective bandwidth of a 7-point stencil, as the Frontier paper counts it."""


def effective_bytes(shape: tuple[int, int, int], itemsize: int, variables: int = 1) -> float:
    """Return the least bytes that one sweep over a block of `shape` computed cells must move.

    Source: Godoy et al., SC-W 2023, Eqs. 4a and 4b, with L = n + 2 cells per direction, ghosts included:
    every cell is fetched once but the corners and edges, which no 7-point stencil reads; every inner cell is
    written once. For unequal sides, 8 corners and 4 (Lx + Ly + Lz - 6) edge cells (12 (L - 2) in a cube).
    """
    lengths = [n + 2 for n in shape]
    fetched = lengths[0] * lengths[1] * lengths[2] - 8 - 4 * (sum(lengths) - 6)
    written = shape[0] * shape[1] * shape[2]
    return float(variables * itemsize * (fetched + written))
