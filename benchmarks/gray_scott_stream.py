"""Our STREAM against the same kernels in C: is the limit that all fractions are taken of the machine's?"""

import ctypes
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from gray_scott_sweep import STREAM_BYTES, Settings
from harness.c_library import CUnavailable, load
from harness.table import Row
from harness.timing import interleave
from ridgeline.limits.stream import KERNELS, StreamArrays

_NO_MEMCPY = "-fno-tree-loop-distribute-patterns"


def _c_kernels(arrays: StreamArrays) -> dict[str, Callable[[], object]]:
    """Return the C kernels on the same arrays, by kernel and kind of stores. Raises CUnavailable."""
    single = arrays.dtype == np.float32
    library = load("stream", _NO_MEMCPY, *(("-DREAL=float",) if single else ()))
    real = ctypes.c_float if single else ctypes.c_double
    a, b, c = (ctypes.c_void_p(x.ctypes.data) for x in (arrays.a, arrays.b, arrays.c))
    n = ctypes.c_ssize_t(arrays.a.size)
    operands = {"copy": (a, a, c), "scale": (c, c, b), "add": (a, b, c), "triad": (b, c, a)}
    found: dict[str, Callable[[], object]] = {}
    for number, kernel in enumerate(KERNELS):
        arguments = number, *operands[kernel], real(2.0**0.5 - 1.0), n, arrays.n_threads
        found[f"{kernel}, ordinary stores"] = lambda x=arguments: library.stream_ordinary(*x)
        if library.stream_nontemporal(number, *operands[kernel], real(0.0), ctypes.c_ssize_t(0), 1) == 0:
            found[f"{kernel}, streaming stores"] = lambda x=arguments: library.stream_nontemporal(*x)
    return found


def stream(settings: Settings) -> Iterator[Row]:
    """Our rate over that of C, for every kernel and kind of stores."""
    for dtype, n_threads in settings.cases():
        where = f"{dtype}, {n_threads} thread{'s' * (n_threads > 1)}"
        arrays = StreamArrays(STREAM_BYTES, n_threads, dtype)
        try:
            peers = _c_kernels(arrays)
        except CUnavailable as reason:
            yield Row(f"our STREAM over C's: {where}", None, ">= 0.97", note=str(reason))
            continue
        candidates: dict[str, Callable[[], object]] = {}
        for name, peer in peers.items():
            kernel, kind = name.split(", ")
            candidates[f"C {name}"] = peer
            candidates[name] = partial(arrays.run, kernel, streaming=kind == "streaming stores")
        timings = interleave(candidates, settings.seconds)
        for kernel in KERNELS:  # rounds that ran backwards leave other values than `check` knows
            arrays.run(kernel)
        arrays.check()
        for name in peers:
            rates = [
                arrays.bytes_moved(name.split(",")[0]) / timings.best(x) / 1e9 for x in (name, f"C {name}")
            ]
            yield Row(
                f"our STREAM over C's, {name}: {where}",
                timings.ratio(f"C {name}", name),
                ">= 0.97",
                timings.median_ratio(f"C {name}", name),
                f"{rates[0]:.1f} against {rates[1]:.1f} GB/s",
            )
