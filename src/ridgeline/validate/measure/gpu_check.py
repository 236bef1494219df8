"""One process that checks GPUs of its node, and prints what it finds as lines of JSON.

`validate.measure.gpu_stages` starts it: a process for each GPU checks memory, triad and products, so that a GPU that
hangs or fails takes no other measurement with it; then one process copies between the host and each GPU, and between
GPUs. Its only argument is the order in JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.runtime.device_errors import device_error
from ridgeline.runtime.devices import simulated
from ridgeline.runtime.errors import DeviceError, RidgelineError
from ridgeline.runtime.node_topology import parse_cpu_list

_SHARE = {True: 0.5, False: 0.9}  # of free memory in which patterns are written, quick or not
_TRIAD_ITEMS = {True: 2**25, False: 2**26}
_ORDER = {True: 4096, False: 8192}
_OWN_ORDER = 2048  # of products without cuBLAS
_COPY_BYTES = {True: 2**27, False: 2**29}
_CALLS = 10  # of a repeat of triad
_PATTERNS = 3  # of those of `memory_check`, in whose order most is found first
_SCALAR = 3.0


def check(order: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
    """Do what is ordered and tell what was found, one GPU or figure at a time.

    order: {"what": "compile", "compute" or "copies", "gpus": [{"index", "address"}], "quick": bool, "repeats": int}.
    To compile is to compute with a few numbers, which fills the kernel cache.
    """
    if order["what"] != "copies":
        small = simulated() or order["what"] == "compile"
        for gpu in order["gpus"]:
            _compute(gpu, order["quick"], order["repeats"], small, tell)
    else:
        _copies(order["gpus"], order["quick"], order["repeats"], tell)


def _compute(
    gpu: dict[str, Any], quick: bool, repeats: int, small: bool, tell: Callable[[dict[str, Any]], None]
) -> None:
    """Check memory, then measure triad and products, on one GPU."""
    from ridgeline.bench.memory import device_check_cuda as kernels
    from ridgeline.bench.memory.memory_check import PATTERNS

    cuda = import_module("numba.cuda")
    index = gpu["index"]
    cuda.select_device(index)
    stream = cuda.stream()
    free = cuda.current_context().get_memory_info().free
    n = 512 if small else int(_SHARE[quick] * free) // 8
    words = cuda.device_array(n, np.uint64)
    wrong, text = 0, ""
    for name, kind, key in PATTERNS[:_PATTERNS]:
        count, first = kernels.check_pattern(words, kind, key, stream)
        if count and not wrong:
            text = f"the first at offset {8 * first} of {8 * n} bytes (pattern: {name})"
        wrong += count
    del words
    if not simulated():
        cuda.current_context().memory_manager.deallocations.clear()  # Numba postpones freeing unused memory
    tell({"index": index, "bytes": 8 * n, "wrong": wrong, "detail": text})
    tell(
        {
            "index": index,
            "quantity": "GPU triad",
            "values": _triad(kernels, cuda, stream, quick, repeats, small),
        }
    )
    tell({"index": index} | _products(kernels, cuda, stream, quick, repeats, small))


def _triad(kernels: Any, cuda: Any, stream: Any, quick: bool, repeats: int, small: bool) -> list[float]:
    """Return B/s of triad, each the mean of some calls."""
    free = cuda.current_context().get_memory_info().free
    n = 64 if small else int(min(_TRIAD_ITEMS[quick], free // 4 // 24))
    a, b, c = (cuda.to_device(np.full(n, value)) for value in (0.0, 1.0, 2.0))
    blocks = kernels.blocks_for(n)
    calls = 1 if small else _CALLS

    def run() -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            kernels.triad[blocks, kernels.THREADS, stream](a, b, c, _SCALAR)
        stream.synchronize()
        return calls * 24 * n / (time.perf_counter() - begin)

    run()
    rates = [run() for _ in range(repeats)]
    if not (a.copy_to_host() == 1.0 + _SCALAR * 2.0).all():
        raise DeviceError("triad gave a wrong result. This GPU computes or stores wrongly. Do not use it.")
    return rates


def _products(kernels: Any, cuda: Any, stream: Any, quick: bool, repeats: int, small: bool) -> dict[str, Any]:
    """Return FLOP/s of products of matrices, by cuBLAS or else by our kernel, and how many numbers are wrong."""
    from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock, make_blas

    blas, why = None, ""
    try:
        blas = make_blas()
    except DeviceError as error:
        why = str(error)
    n = 2 * kernels.TILE if small else _ORDER[quick] if blas is not None else _OWN_ORDER
    left, right, out = (cuda.device_array(n * n, np.float64) for _ in range(3))
    blocks = kernels.blocks_for(n * n)
    kernels.fill_factors[blocks, kernels.THREADS, stream](left, right, n)
    tiles = (n // kernels.TILE, n // kernels.TILE), (kernels.TILE, kernels.TILE)

    def run() -> float:
        begin = time.perf_counter()
        if blas is None:
            kernels.multiply[(*tiles, stream)](left, right, out, n)
        else:
            a, b, c = (DeviceBlock(array, 0, n, n, n) for array in (left, right, out))
            blas.assign_product(a, b, c, stream)
        stream.synchronize()
        return 2.0 * n**3 / (time.perf_counter() - begin)

    run()
    rates = [run() for _ in range(repeats)]
    wrong = cuda.to_device(np.zeros(1, np.int64))
    sums = cuda.to_device(kernels.sums_of_factors(n))
    kernels.count_wrong_products[blocks, kernels.THREADS, stream](out, n, sums, wrong)
    stream.synchronize()
    name = "GPU DGEMM" if blas is not None else "GPU DGEMM of our own kernel"
    return {"quantity": name, "values": rates, "wrong_products": int(wrong.copy_to_host()[0]), "without": why}


def _copies(
    gpus: Sequence[dict[str, Any]], quick: bool, repeats: int, tell: Callable[[dict[str, Any]], None]
) -> None:
    """Measure copies between the host and each GPU, from memory beside the GPU, and between each two GPUs."""
    cuda = import_module("numba.cuda")
    n_bytes = 4096 if simulated() else _COPY_BYTES[quick]
    on_gpu: dict[int, Any] = {}
    for gpu in gpus:
        stay_near(gpu["address"])
        with cuda.gpus[gpu["index"]]:
            on_gpu[gpu["index"]] = _host_copies(cuda, gpu["index"], n_bytes, repeats, tell)
    for place, a in enumerate(gpus):
        for b in gpus[place + 1 :]:
            first, second = a["index"], b["index"]
            forth = _copies_between(cuda, first, second, on_gpu, repeats)
            back = _copies_between(cuda, second, first, on_gpu, repeats)
            slower = np.minimum(forth, back).tolist()
            tell({"index": first, "peer": second, "quantity": "GPU to GPU", "values": slower})


def _host_copies(
    cuda: Any, index: int, n_bytes: int, repeats: int, tell: Callable[[dict[str, Any]], None]
) -> Any:
    """Measure copies of the current GPU to and from pinned memory; return an array on the GPU."""
    host, device = cuda.pinned_array(n_bytes, np.uint8), cuda.device_array(n_bytes, np.uint8)
    expected = np.resize(np.arange(251, dtype=np.uint8), n_bytes)
    host[:] = expected
    there = _rates(lambda: device.copy_to_device(host), cuda.synchronize, n_bytes, repeats)
    host[:] = 0
    back = _rates(lambda: device.copy_to_host(host), cuda.synchronize, n_bytes, repeats)
    tell({"index": index, "quantity": "GPU host to device", "values": there})
    tell({"index": index, "quantity": "GPU device to host", "values": back})
    wrong = int((host != expected).sum())
    if wrong:
        tell({"index": index, "fault": f"{wrong} bytes were wrong after copies to the GPU and back"})
    return device


def _copies_between(cuda: Any, source: int, target: int, on_gpu: dict[int, Any], repeats: int) -> list[float]:
    """Return B/s of copies from one GPU to another, directly where they have access to each other's memory."""
    with cuda.gpus[target]:
        other = cuda.current_context()
    with cuda.gpus[source]:
        with suppress(Exception):  # no access, or given before; without it the driver copies through the host
            cuda.current_context().enable_peer_access(other.handle)
        a, b = on_gpu[source], on_gpu[target]
        return _rates(lambda: b.copy_to_device(a), cuda.synchronize, a.nbytes, repeats)


def _rates(
    copy: Callable[[], Any], synchronise: Callable[[], None], n_bytes: int, repeats: int
) -> list[float]:
    copy()
    synchronise()
    rates = []
    for _ in range(repeats):
        begin = time.perf_counter()
        copy()
        synchronise()
        rates.append(n_bytes / (time.perf_counter() - begin))
    return rates


def stay_near(address: str, root: Path = Path("/")) -> None:
    """Move this thread to the cores beside a PCI device, as far as it may run there."""
    with suppress(OSError, RidgelineError):
        text = (root / f"sys/bus/pci/devices/{address}/local_cpulist").read_text()
        near = set(parse_cpu_list(text)) & os.sched_getaffinity(0)
        if near:
            os.sched_setaffinity(0, near)


def main(argument: str) -> int:
    """Check what the argument orders; return the exit code. A failure of a GPU is told as one, in words."""

    def tell(line: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    order = json.loads(argument)
    try:
        check(order, tell)
    except Exception as error:
        known = device_error(error)
        text = str(known or error) if known or isinstance(error, RidgelineError) else repr(error)
        tell({"index": order["gpus"][0]["index"], "fault": " ".join(text.split())})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
