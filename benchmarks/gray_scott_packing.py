"""Packing faces for the halo exchange: against a plain copy of as many bytes, and as a share of a step."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from gray_scott_ours import ours
from gray_scott_peers import Fields
from gray_scott_sweep import NOISE, STREAM_BYTES, Settings
from harness.table import Row
from harness.timing import interleave
from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.halo import HaloPlan, HostPacker
from ridgeline.jit import stream_kernels
from ridgeline.limits.stream import StreamArrays
from ridgeline.runtime.aligned import CACHE_LINE

GRIDS = {"z": (2, 1, 1), "y": (1, 2, 1), "x": (1, 1, 2)}
FIELDS = 2


def packing(settings: Settings) -> Iterator[Row]:
    """Speed of gathering both faces of u and v, over that of a contiguous copy (the faster of two).

    Everything comes out of memory, since a sweep went over the fields before.

    What must move: a face's cells, in and out; across x, where they lie a row apart, whole cache lines come in
    for one cell each.

    The share of a step is that of packing and unpacking in both and a sweep over the block of a rank, with noise.
    """
    n = min(256, max(settings.sizes))
    for dtype, n_threads in settings.cases():
        flush = StreamArrays(STREAM_BYTES, n_threads, dtype)
        for axis, grid in GRIDS.items():
            block = Block.of_rank((n, n, n), grid, 0)
            fields = [BlockArray.allocate(block, dtype, 0.5) for _ in range(FIELDS)]
            plan = HaloPlan(block, FIELDS, np.dtype(dtype).itemsize)
            packer = HostPacker(plan, [fields], n_threads)
            cells = sum(message.items for message in plan.messages)
            fetched = cells if axis != "x" else cells * CACHE_LINE // np.dtype(dtype).itemsize
            moved = (fetched + cells) * np.dtype(dtype).itemsize  # least bytes to and from memory
            # A copy that moves as many bytes; long ones stand for all longer ones.
            source = fields[0].flat[: min((fetched + cells) // 2, fields[0].flat.size)]
            target = np.zeros(source.size, dtype)
            swept = Fields.allocate(block.shape_local, dtype)
            candidates = {
                "pack": partial(packer.pack, 0),
                "unpack": partial(packer.unpack, 0),
                "sweep": partial(ours(swept, n_threads, noise=NOISE), swept),
                "copy": partial(stream_kernels.copy, source, target, n_threads),
                "copy on one thread": partial(np.copyto, target, source),
            }
            timings = interleave(candidates, settings.seconds / 2, before=partial(flush.run, "read"))
            copy = min(("copy", "copy on one thread"), key=timings.best)
            scale = moved / (2 * source.nbytes)
            rates = moved / timings.best("pack") / 1e9, 2 * source.nbytes / timings.best(copy) / 1e9
            where = f"{n}^3 {dtype}, {n_threads} thread{'s' * (n_threads > 1)}"
            yield Row(
                f"packing faces across {axis} over a copy: {where}",
                scale * timings.ratio(copy, "pack"),
                ">= 0.8",
                scale * timings.median_ratio(copy, "pack"),
                f"moves at least {moved / 1e6:.1f} MB, {rates[0]:.1f} against {rates[1]:.1f} GB/s",
            )
            exchange = timings.best("pack") + timings.best("unpack")
            packing, unpacking, sweep = (timings.samples[name] for name in ("pack", "unpack", "sweep"))
            yield Row(
                f"packing and unpacking across {axis}, share of a step: {where}",
                exchange / (exchange + timings.best("sweep")),
                "",
                float(np.median((packing + unpacking) / (packing + unpacking + sweep))),
                f"{exchange * 1e3:.2f} against {timings.best('sweep') * 1e3:.1f} ms",
            )
