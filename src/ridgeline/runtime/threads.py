"""Cores and threads: how many this process may use, and pools set to what the run asked for."""

import os

_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def cores_available() -> int:
    """Return the number of cores that this process may use (its affinity mask)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_pools() -> None:
    """Give every pool but Numba's one thread. Call before NumPy is imported: its BLAS starts its pool then.

    Model code threads through Numba alone. Workers of a BLAS beside it would spin on the cores of other ranks.
    """
    for pool in _POOLS:
        os.environ[pool] = "1"


def configure_threads(threads: int) -> None:
    """Give Numba `threads` threads and every other pool one. Call before Numba or NumPy's BLAS starts."""
    limit_pools()
    os.environ["NUMBA_NUM_THREADS"] = str(threads)
    # Idle workers of Numba's own pool sleep instead of spinning, so ranks that share cores do not fight.
    os.environ.setdefault("NUMBA_THREADING_LAYER", "workqueue")


def oversubscription(ranks_on_node: int, threads: int, cores: int) -> str | None:
    """Return a warning if the node's ranks x threads exceed its cores, None otherwise."""
    if ranks_on_node * threads <= cores:
        return None
    return (
        f"{ranks_on_node} ranks x {threads} threads share {cores} cores: oversubscribed, expect less than the "
        f"machine's speed; -n {max(1, cores // threads)} would use them all"
    )
