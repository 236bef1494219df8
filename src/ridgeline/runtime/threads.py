"""Cores and threads: how many this process may use, and pools set to what the run asked for."""

import os

_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def usable_cores() -> set[int]:
    """Return the cores that this process may use (its affinity mask)."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def cores_available() -> int:
    """Return the number of cores that this process may use."""
    return len(usable_cores())


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
    fewer = []
    if ranks_on_node > 1 and threads <= cores:
        fewer.append(f"-n {cores // threads}")
    if threads > 1 and ranks_on_node <= cores:
        fewer.append(f"--threads {cores // ranks_on_node}")
    return (
        f"{ranks_on_node} rank{'s' * (ranks_on_node > 1)} x {threads} thread{'s' * (threads > 1)} share {cores} "
        f"core{'s' * (cores > 1)}: oversubscribed, expect less than the machine's speed; use "
        f"{' or '.join(fewer) or f'-n {cores} --threads 1'}"
    )
