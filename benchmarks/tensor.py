"""Benchmarks of small matrix products and of the stiffness operator: ratios, each of times taken in turn in one run.

    python benchmarks/tensor.py [--quick] [--only NAME ...] [--json FILE]

products: the three tensor products of an element over and over in cache, against LIBXSMM's generated kernels called
from C (c/tensor_libxsmm.c; Debian: libxsmm-dev). Along y and z the engines multiply by even and odd parts, which is a
row of its own, in operations of the whole matrix. stiffness: the operator with six factors per point on elements in
memory, against min(measured peak of fma, STREAM x intensity). One core.
"""

import argparse
import ctypes
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.c_library import CUnavailable, load
from harness.machine import describe
from harness.table import Row, markdown, show, write_json
from harness.timing import interleave
from ridgeline.parallel.job import prepare_rank
from ridgeline.runtime.aligned import aligned_empty

NAMES = ("products", "stiffness")
DIRECTIONS = ("x", "y", "z")
ARCHIVES = (
    "-lxsmm",
    "-lxsmmnoblas",
)  # Debian's are static only; --whole-archive, for they precede the source
BATCH_FLOPS = 1e8  # of one timed sample
STREAM_BYTES = 2**27  # of one array
FMA_CHAINS, FMA_ROUNDS = 16, 200_000


@dataclass(frozen=True)
class Settings:
    """What a run covers; `seconds` for each comparison; `bytes` of the six factors."""

    sizes: tuple[int, ...] = (8, 10, 12, 16, 24, 32)
    dtypes: tuple[str, ...] = ("float64", "float32")
    seconds: float = 1.0
    bytes: int = 2**27


def aligned(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Return random numbers that begin at a cache line."""
    array = aligned_empty(shape, dtype)
    array[...] = np.random.default_rng(0).uniform(-1, 1, shape)
    return array


@cache
def make_repeated(n: int, direction: str) -> Callable[..., None]:
    """Return compiled f(u, matrix, out, repeats): one direction's product on one element, again and again."""
    from numba import njit

    from ridgeline.elements.tensor import GENERATED, along_x, along_y, along_z

    rows = n * n

    def x(u, matrix, out, repeats):
        for _ in range(repeats):
            along_x(GENERATED, n, n, rows, False, out, 0, matrix, u, 0)

    def y(u, matrix, out, repeats):
        for _ in range(repeats):
            along_y(GENERATED, n, n, n, n, False, out, 0, matrix, u, 0)

    def z(u, matrix, out, repeats):
        for _ in range(repeats):
            along_z(GENERATED, n, n, rows, False, out, 0, matrix, u, 0)

    compiled: Callable[..., None] = njit({"x": x, "y": y, "z": z}[direction])
    return compiled


@cache
def make_repeated_parts(n: int, direction: str) -> Callable[..., None]:
    """Return compiled f(u, derivative, out, repeats): the same by even and odd parts, along y or z."""
    from numba import njit

    from ridgeline.elements.even_odd import ODD, even_odd_parts, even_odd_product, parts_size
    from ridgeline.elements.tensor import GENERATED

    rows, batch, size = (n, n, parts_size(n, n)) if direction == "y" else (n * n, 1, parts_size(n, n))

    @njit
    def repeated(u, derivative, out, repeats):
        parts = even_odd_parts(derivative, np.empty(size, u.dtype))
        for _ in range(repeats):
            even_odd_product(GENERATED, n, rows, n, batch, False, ODD, out, 0, parts, 0, u, 0)

    compiled: Callable[..., None] = repeated
    return compiled


class Libxsmm:
    """LIBXSMM's kernels for the same products. Raises CUnavailable where it cannot run."""

    def __init__(self) -> None:
        self.library = load(
            "tensor_libxsmm", "-Wl,--whole-archive", *ARCHIVES, "-Wl,--no-whole-archive", "-ldl", "-lm"
        )
        self.library.product_size.restype = ctypes.c_size_t

    def repeated(
        self, n: int, direction: str, arrays: tuple[NDArray[Any], ...], repeats: int
    ) -> Callable[[], object]:
        """Return a call of one direction's product, `repeats` times. Raises CUnavailable without such a kernel."""
        n2 = n * n
        sizes = {
            "x": (n2, n, n, n, n, n, 1, 0, 0, 0),
            "y": (n, n, n, n, n, n, n, 0, n2, n2),
            "z": (n, n2, n, n, n2, n2, 1, 0, 0, 0),
        }[direction]
        handle = ctypes.create_string_buffer(self.library.product_size())
        if self.library.prepare(handle, int(arrays[0].dtype == np.float32), *sizes):
            raise CUnavailable(f"not run: LIBXSMM has no kernel for n = {n} along {direction}")
        zero = ctypes.c_ssize_t(0)
        pointers = (ctypes.c_void_p(x.ctypes.data) for x in arrays)
        arguments = handle, int(direction != "x"), ctypes.c_long(repeats), zero, zero, *pointers
        return lambda: self.library.run(*arguments)


def products(settings: Settings) -> Iterator[Row]:
    """Our speed over LIBXSMM's for every precision, size and direction, one element in cache."""
    try:
        peer = Libxsmm()
    except CUnavailable as reason:
        yield Row("tensor products over LIBXSMM's", None, ">= 1.0", note=str(reason))
        return
    for dtype in settings.dtypes:
        for n in settings.sizes:
            for direction in DIRECTIONS:
                yield from products_along(direction, n, dtype, settings.seconds, peer)


def products_along(direction: str, n: int, dtype: str, seconds: float, peer: Libxsmm) -> Iterator[Row]:
    """Our speed over LIBXSMM's of one product; along y and z also by even and odd parts."""
    from ridgeline.elements.quadrature import gll_derivative

    u, out = aligned((n**3,), dtype), aligned((n**3,), dtype)
    theirs, derivative = out.copy(), gll_derivative(n).astype(dtype)
    matrix = np.ascontiguousarray(derivative).reshape(-1)
    repeats = max(1, round(BATCH_FLOPS / (2 * n**4)))
    names = {"ours": f"product along {direction} over LIBXSMM's: n = {n}, {dtype}"}
    ours = {"ours": partial(make_repeated(n, direction), u, matrix, out, repeats)}
    if direction != "x":
        names["parts"] = f"product along {direction} by even and odd parts over LIBXSMM's: n = {n}, {dtype}"
        ours["parts"] = partial(make_repeated_parts(n, direction), u, derivative, out, repeats)
    try:
        other = peer.repeated(n, direction, (u, matrix, theirs), repeats)
    except CUnavailable as reason:
        yield from (Row(name, None, ">= 1.0", note=str(reason)) for name in names.values())
        return
    timings = interleave({**ours, "theirs": other}, seconds)
    for way, name in names.items():
        ours[way]()
        if not np.allclose(out, theirs, atol=1e-5 * np.abs(theirs).max()):
            raise RuntimeError(f"{name}: the results differ by {np.abs(out - theirs).max()}")
        rates = [2 * n**4 * repeats / timings.best(x) / 1e9 for x in (way, "theirs")]
        yield Row(
            name,
            timings.ratio("theirs", way),
            ">= 1.0",
            timings.median_ratio("theirs", way),
            f"{rates[0]:.1f} against {rates[1]:.1f} GFLOP/s",
        )


def make_peak(dtype: str) -> tuple[Callable[[], object], int]:
    """Return a call that does nothing but fused multiply-adds in registers, and how many operations it does."""
    from llvmlite import ir
    from numba import njit, types
    from numba.core import cgutils
    from numba.extending import intrinsic

    from ridgeline.jit.llvm import I32, Lanes, Vector, element_type, host_vector_bytes

    number = {"float64": types.float64, "float32": types.float32}[dtype]
    count = host_vector_bytes() * 8 // number.bitwidth

    @intrinsic
    def chains(typing, x, rounds):
        def codegen(context, builder, signature, args):
            lanes = Lanes(builder, element_type(number), count)
            factor = lanes.splat(args[0])
            slots = [cgutils.alloca_once_value(builder, factor.value) for _ in range(FMA_CHAINS)]
            with cgutils.for_range(builder, args[1]):
                for slot in slots:
                    value = Vector(lanes, builder.load(slot))
                    builder.store(lanes.fma(value, factor, factor).value, slot)
            total = Vector(lanes, builder.load(slots[0]))
            for slot in slots[1:]:
                total = total + Vector(lanes, builder.load(slot))
            return builder.extract_element(total.value, ir.Constant(I32, 0))

        return number(number, types.int64), codegen

    @njit
    def peak(x, rounds):
        return chains(x, rounds)

    return lambda: peak(np.dtype(dtype).type(0.5), FMA_ROUNDS), 2 * count * FMA_CHAINS * FMA_ROUNDS


def stiffness(settings: Settings) -> Iterator[Row]:
    """The stiffness operator with six factors over min(peak, STREAM x intensity), elements in memory."""
    from ridgeline.elements.helmholtz import make_helmholtz
    from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative
    from ridgeline.limits.stream import KERNELS, StreamArrays

    for dtype in settings.dtypes:
        item = np.dtype(dtype).itemsize
        stream = StreamArrays(min(STREAM_BYTES, settings.bytes), 1, dtype)
        peak, peak_flops = make_peak(dtype)
        for n in settings.sizes:
            elements = np.arange(max(2, settings.bytes // (6 * item * n**3)), dtype=np.int64)
            shape = (elements.size, n, n, n)
            u, factors, w = (
                aligned(shape, dtype),
                aligned((elements.size, 6, n, n, n), dtype),
                aligned(shape, dtype),
            )
            none = np.zeros((0, 3), dtype), np.zeros(0, dtype)
            derivative = np.ascontiguousarray(gll_derivative(n), dtype)
            weights = np.ascontiguousarray(gauss_lobatto(n)[1], dtype)
            kernel = make_helmholtz(n, dtype, False)
            mass = np.zeros((0, n, n, n), dtype)
            operator = partial(kernel, elements, u, 1.0, 0.0, *none, factors, mass, derivative, weights, w)
            candidates: dict[str, Callable[[], object]] = {"operator": operator, "peak": peak}
            for name in KERNELS:
                for streaming in (False, True):
                    candidates[f"{name} {streaming}"] = partial(stream.run, name, streaming)
            timings = interleave(candidates, settings.seconds * 3)
            points = elements.size * n**3
            flops, n_bytes = (12 * n + 15) * points, 8 * item * points
            bandwidth = max(
                stream.bytes_moved(name) / timings.best(f"{name} {streaming}")
                for name in KERNELS
                for streaming in (False, True)
            )
            limits = {"peak": peak_flops / timings.best("peak"), "STREAM": bandwidth * flops / n_bytes}
            lowest = min(limits, key=lambda name: limits[name])
            rate = flops / timings.best("operator")
            yield Row(
                f"stiffness operator over min(peak, STREAM x intensity): n = {n}, {dtype}",
                rate / limits[lowest],
                ">= 0.85",
                note=f"{rate / 1e9:.1f} GFLOP/s, {rate * n_bytes / flops / 1e9:.1f} GB/s; limit {lowest}: "
                f"peak {limits['peak'] / 1e9:.1f} GFLOP/s, STREAM {bandwidth / 1e9:.1f} GB/s",
            )


def main() -> None:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="use two sizes, short times and small arrays")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=NAMES,
        metavar="NAME",
        help=f"run only these comparisons: {', '.join(NAMES)}",
    )
    parser.add_argument("--seconds", type=float, help="duration of each comparison (1)")
    parser.add_argument("--sizes", type=int, nargs="+", help="points in each direction (8 10 12 16 24 32)")
    parser.add_argument("--dtypes", nargs="+", choices=("float64", "float32"), help="number types (both)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    arguments = parser.parse_args()

    prepare_rank()
    defaults = Settings((8, 10), seconds=0.1, bytes=2**24) if arguments.quick else Settings()
    settings = Settings(
        tuple(arguments.sizes or defaults.sizes),
        tuple(arguments.dtypes or defaults.dtypes),
        arguments.seconds or defaults.seconds,
        defaults.bytes,
    )
    machine = describe()
    rows = []
    for name, benchmark in {"products": products, "stiffness": stiffness}.items():
        if name not in (arguments.only or NAMES):
            continue
        for row in benchmark(settings):
            rows.append(row)
            print(f"[{name}] {row.line()}", file=sys.stderr, flush=True)
    command = " ".join(["python", "benchmarks/tensor.py", *sys.argv[1:]])
    show("Tensor products", rows, machine)
    print()
    print(markdown(rows, machine, command))
    if arguments.json:
        write_json(arguments.json, rows, machine, command)


if __name__ == "__main__":
    main()
