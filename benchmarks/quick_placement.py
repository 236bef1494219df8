"""What the place of arrays costs: a sweep on the engine's arrays against the same in huge pages."""

import mmap
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np

from gray_scott_ours import ours
from gray_scott_peers import Fields
from gray_scott_sweep import label
from harness.table import Row
from harness.timing import interleave
from ridgeline.blocks.block import BlockArray
from ridgeline.jit import stream_kernels
from ridgeline.runtime.node_topology import this_node

HUGE_PAGE = 2**21
CELLS = 256


def huge_bytes() -> int:
    """Return the bytes of this process that lie in huge pages."""
    text = Path("/proc/self/smaps").read_text()
    return 1024 * sum(map(int, re.findall(r"^AnonHugePages:\s+(\d+) kB", text, re.MULTILINE)))


def elsewhere(array: BlockArray, n_threads: int, huge: bool) -> BlockArray:
    """Return a copy in other memory, in huge pages or small ones, which n_threads threads touch first."""
    memory = mmap.mmap(-1, array.flat.nbytes + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    whole = np.frombuffer(memory, np.uint8)
    start = -whole.ctypes.data % HUGE_PAGE
    flat = whole[start : start + array.flat.nbytes].view(array.flat.dtype)
    stream_kernels.copy(array.flat, flat, n_threads)
    return replace(array, flat=flat)


def moved(fields: Fields, n_threads: int, huge: bool) -> Fields:
    """Return a copy of all fields in other memory."""
    arrays = (fields.u, fields.v, fields.u_new, fields.v_new)
    return Fields(*(elsewhere(array, n_threads, huge) for array in arrays))


def rows(n_threads: int, target: str) -> Iterator[Row]:
    """Return the speed of a sweep on arrays as the engine allocates them over that on others."""
    numba.set_num_threads(n_threads)
    domains = len(this_node().domains)
    for dtype in ("float64", "float32"):
        where = label(CELLS, dtype, n_threads)
        before = huge_bytes()
        fields = Fields.allocate((CELLS,) * 3, dtype)
        kept = huge_bytes()
        huge = moved(fields, n_threads, huge=True)
        gained = huge_bytes() - kept
        sets = {"as allocated": fields, "huge": huge}
        if domains > 1:
            sets["own"] = moved(fields, n_threads, huge=False)
        calls: dict[str, Callable[[], object]] = {}
        for name, fields_there in sets.items():
            sweep = ours(fields_there, n_threads)
            calls[name] = lambda sweep=sweep, there=fields_there: sweep(there)
        timings = interleave(calls, 1.0)
        pages = f"sweep on arrays as allocated over arrays in huge pages: {where}"
        if gained < huge.u.flat.nbytes:
            yield Row(pages, None, target, note="not run: the system offers no huge pages")
        else:
            whole = 4 * fields.u.flat.nbytes
            note = f"as allocated {(kept - before) / 1e6:.0f} of {whole / 1e6:.0f} MB are in huge pages"
            ratio = timings.ratio("huge", "as allocated")
            yield Row(pages, ratio, target, timings.median_ratio("huge", "as allocated"), note)
        touched = f"sweep on arrays as allocated over arrays that each thread touched first: {where}"
        if domains == 1:
            yield Row(touched, None, target, note="not run: there is only one NUMA domain")
        else:
            ratio = timings.ratio("own", "as allocated")
            yield Row(touched, ratio, target, timings.median_ratio("own", "as allocated"))
