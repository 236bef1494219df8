"""Gray-Scott on CPU cores: two sets of fields, a sweep from one into the other, and the exchange of ghosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.halo import HaloExchange
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.jit.random import Generator, round_keys
from ridgeline.models.contract import Context
from ridgeline.models.gray_scott.diagnostics import scan, scan_extrema
from ridgeline.models.gray_scott.engine import OUTSIDE, Box, split_for_overlap
from ridgeline.models.gray_scott.kernels import Sweep, Tiling, make_scratch, make_sweep, tiling
from ridgeline.models.gray_scott.physics import Coefficients
from ridgeline.parallel.allreduce import kernels_of_sums
from ridgeline.parallel.layout import place_on_node
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.machine import cache_sizes

if TYPE_CHECKING:
    from mpi4py import MPI


def usual_tiling(comm: MPI.Comm, dtype: DTypeLike, shape_local: Triple) -> Callable[[int], Tiling]:
    """Return the rule for the tiling of a rank on this machine, as a function of the steps of a sweep. Collective."""
    caches = cache_sizes()
    ranks = place_on_node(comm).ranks
    sizes = (caches[2], caches[max(caches)] // ranks) if 2 in caches else ()
    return lambda steps: tiling(dtype, shape_local, steps, *sizes)


class CpuEngine:
    """Fields and sweeps on CPU cores (see `engine.Engine`).

    The block's ghost width is the number of steps that one sweep advances. Each sweep computes the cells that
    neighbours wait for first, starts the exchange, and computes the rest while the faces travel.
    """

    def __init__(
        self,
        block: Block,
        cartesian: MPI.Cartcomm,
        coefficients: Coefficients,
        noise: tuple[Generator, int],
        dtype: DTypeLike,
        context: Context,
        cut: Tiling | None = None,
    ) -> None:
        """Allocate both sets of fields and plan the exchange. Collective over cartesian.

        Parameters
        ----------
        block, cartesian : this rank's block, with ghosts; the ranks in their process grid
        coefficients, dtype : of the step, in the precision of the fields
        noise : how its random numbers are made, and the seed
        context : threads, regions of time
        cut : how sweeps are cut; None for the tiling of the rule
        """
        self._block, self._c, self._context = block, coefficients, context
        self._dtype = np.dtype(dtype)
        self.steps_per_sweep = block.ghost
        generator, seed = noise
        self._keys = round_keys(seed, generator.rounds) if coefficients.noise else None
        # Ghosts beyond a fixed boundary keep the value that they are allocated with.
        self._sets = [
            [BlockArray.allocate(block, self._dtype, outside) for outside in OUTSIDE] for _ in range(2)
        ]
        self._now = 0
        self._sweep: Sweep = make_sweep(generator)
        self._halo = HaloExchange.of_fields(
            cartesian,
            self._sets,
            corners=self.steps_per_sweep > 1,
            wrap=(True, True, False),  # the sweep wraps rows that are whole rings
            n_threads=context.threads,
        )
        # Cells that are sent across an edge or a corner lie in the layers of a face that is sent as well.
        across_faces = [d for d in self._halo.directions if sum(map(abs, d)) == 1]
        faces = {(axis, side) for d in across_faces for axis, side in enumerate(d) if side}
        self._first_boxes, self._rest_boxes = split_for_overlap(block, faces)
        self._scratch_rows = 0
        usual = usual_tiling(cartesian, self._dtype, block.shape_local)
        self.cut(cut or usual(self.steps_per_sweep))
        self.bytes_exchanged = self._halo.bytes_sent / self.steps_per_sweep
        self.messages = self._halo.messages_sent / self.steps_per_sweep
        words = self._tiling.words()
        steps = f"{self.steps_per_sweep} step{'s' * (self.steps_per_sweep > 1)} per sweep"
        self.method = f"{steps} in {words}, exchange by {self._halo.method}"

    def cut(self, how: Tiling) -> None:
        """Cut the sweeps in another way from now on, which changes nothing but their speed."""
        self._tiling = how
        if how.tile_rows > self._scratch_rows:
            block, self._scratch_rows = self._block, how.tile_rows
            self._scratch = make_scratch(
                self._dtype, block.shape_local, block.ghost, how.tile_rows, self._context.threads
            )

    def free(self) -> None:
        """Free the requests of the exchange; not usable afterwards."""
        self._halo.free()

    def compile(self) -> None:
        compile_kernels(
            [
                *specialise([self._sweep], self._dtype, self._keys is not None),
                *specialise([scan_extrema], self._dtype),
                *kernels_of_sums(self._dtype),
            ]
        )

    def host(self) -> tuple[NDArray[Any], NDArray[Any]]:
        u, v = self._sets[self._now]
        return u.owned, v.owned

    def commit(self) -> None:
        self._halo.exchange(self._now)

    def use_coefficients(self, coefficients: Coefficients) -> None:
        self._c = coefficients

    def squares(self) -> tuple[float, float]:
        changed = whole = 0.0
        for new, old in zip(self._sets[self._now], self._sets[1 - self._now]):
            # A plane at a time, so that no copy of a field is made.
            for after, before in zip(new.owned, old.owned):
                values = after.astype(np.float64)
                changed += float(np.square(values - before).sum())
                whole += float(np.square(values).sum())
        return changed, whole

    def advance(self, step: int, most: int) -> int:
        steps = min(most, self.steps_per_sweep)
        regions = self._context.regions
        compute, exchange = regions("compute"), regions("exchange")
        new = 1 - self._now
        with compute:
            for box in self._first_boxes:
                self._run(box, step, steps)
        with exchange:
            self._halo.start(new)
        with compute:
            for box in self._rest_boxes:
                self._run(box, step, steps)
        with exchange:
            self._halo.finish(new)
        self._now = new
        return steps

    def fields(self) -> tuple[BlockArray, BlockArray]:
        u, v = self._sets[self._now]
        return u, v

    def nonfinite(self) -> int:
        return sum(scan(field, self._context.threads)[2] for field in self.fields())

    def allocated(self) -> int:
        """Return the bytes of both sets of fields and of the sweep's scratch."""
        fields = sum(array.flat.nbytes for pair in self._sets for array in pair)
        return fields + sum(array.nbytes for array in self._scratch)

    def _run(self, box: Box, step: int, steps: int) -> None:
        """Sweep one box of local cells (z0, z1, y0, y1, x0, x1) from the present fields into the other set."""
        (u, v), (out_u, out_v) = self._sets[self._now], self._sets[1 - self._now]
        block = self._block
        self._sweep(
            u.flat,
            v.flat,
            (u.origin, u.row_pitch, u.plane_pitch),
            box,
            block.offset_global,
            block.shape_global,
            block.periodic,
            step,
            steps,
            self._keys,
            self._c,
            self._tiling.tile_rows,
            self._tiling.streaming,
            self._context.threads,
            *self._scratch,
            out_u.flat,
            out_v.flat,
        )
