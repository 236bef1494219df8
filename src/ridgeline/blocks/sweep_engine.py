"""Fields of a block on CPU cores: two sets of them, a sweep from one into the other, and the exchange of ghosts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.field_summary import scan, scan_extrema
from ridgeline.blocks.halo import HaloExchange
from ridgeline.blocks.overlap import split_for_overlap
from ridgeline.blocks.sweep import MADE, Sides, Sweep, Tiling, make_scratch, make_sweep, tiling
from ridgeline.blocks.sweep_rows import CellRule
from ridgeline.jit.barrier import make_barrier, threads_meet
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.jit.random import Generator
from ridgeline.parallel.allreduce import kernels_of_sums
from ridgeline.parallel.layout import place_on_node
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.context import Context
from ridgeline.runtime.machine import cache_sizes

if TYPE_CHECKING:
    from mpi4py import MPI

# Cells that a thread advances by a step in one call, if it can make several sweeps: some milliseconds, after which
# signals are answered. A larger block makes one sweep, and a slow one ends after `sweep.LONGEST_CALL`.
CELLS_PER_CALL = 1 << 22
MOST_EXCHANGES = 32  # of a call, which take milliseconds each where processes outnumber the cores


def usual_tiling(
    comm: MPI.Comm, dtype: DTypeLike, n_fields: int, shape_local: Triple
) -> Callable[[int], Tiling]:
    """Return the rule for the tiling of a rank on this machine, as a function of the steps of a sweep. Collective."""
    caches = cache_sizes()
    ranks = place_on_node(comm).ranks
    sizes = (caches[2], caches[max(caches)] // ranks) if 2 in caches else ()
    return lambda steps: tiling(dtype, n_fields, shape_local, steps, *sizes)


class SweepEngine:
    """Fields and sweeps on CPU cores.

    The block's ghost width is the number of steps that one sweep advances. Each sweep computes the cells that
    neighbours wait for first, starts the exchange, and computes the rest while the faces travel. A step of several
    stages is a sweep for each of them; a stage may read what its results held before (`RowCells.before`), which are
    those of the stage before the last.
    """

    def __init__(
        self,
        block: Block,
        cartesian: MPI.Cartcomm,
        rules: Sequence[CellRule],
        coefficients: Sequence[NDArray[Any]],
        noise: tuple[Generator, NDArray[np.uint64] | None],
        sides: Sides,
        context: Context,
        cut: Tiling | None = None,
    ) -> None:
        """Allocate both sets of fields and plan the exchange. Collective over cartesian.

        Parameters
        ----------
        block, cartesian : this rank's block, with ghosts; the ranks in their process grid
        rules : of a cell, for each stage of a step; several only with sweeps of one step
        coefficients : for each stage (steps of a sweep, rule.coefficients), in the precision of the fields
        noise : how random numbers are made, and the keys of the noisy fields one after the other, None for no noise
        sides : what lies beyond sides that are not periodic
        context : threads, regions of time
        cut : how sweeps are cut; None for the tiling of the rule
        """
        self._block, self._context, self._sides = block, context, sides
        self._dtype, self._n_fields = coefficients[0].dtype, len(rules[0].stencil)
        self.coefficients = coefficients
        self.steps_per_sweep = block.ghost
        generator, self._keys = noise
        self._sets = [
            [BlockArray.allocate(block, self._dtype) for _ in range(self._n_fields)] for _ in range(2)
        ]
        self._flat = [tuple(field.flat for field in fields) for fields in self._sets]
        self._now = 0
        self._sweeps: list[Sweep] = [make_sweep(rule, generator, context.threads > 1) for rule in rules]
        self._halo = HaloExchange.of_fields(
            cartesian,
            self._sets,
            corners=self.steps_per_sweep > 1,
            wrap=(False, False, False),  # the sweep wraps directions that are not cut
            n_threads=context.threads,
        )
        # Cells that are sent across an edge or a corner lie in the layers of a face that is sent as well.
        across_faces = [d for d in self._halo.directions if sum(map(abs, d)) == 1]
        faces = {(axis, side) for d in across_faces for axis, side in enumerate(d) if side}
        boxes = split_for_overlap(block, faces)
        self._first_boxes, self._rest_boxes = (np.array(each, np.int64).reshape(-1, 6) for each in boxes)
        self._team = make_barrier(context.threads)
        # A kernel makes several sweeps if no other rank is waited for. All ranks make as many sweeps in a call.
        largest = Block.of_rank(block.shape_global, block.process_grid, 0)
        cells = math.prod(largest.shape_local) * self.steps_per_sweep
        most = max(1, CELLS_PER_CALL * context.threads // cells)
        self._is_alone = cartesian.size == 1 and threads_meet(context.threads)
        self._sweeps_per_call = 1 if len(rules) > 1 else most if self._is_alone else min(most, MOST_EXCHANGES)
        self._is_first_call = True
        self._scratch_rows = 0
        usual = usual_tiling(cartesian, self._dtype, self._n_fields, block.shape_local)
        self.cut(cut or usual(self.steps_per_sweep))
        sweeps = len(rules) / self.steps_per_sweep  # of a step
        self.bytes_exchanged = self._halo.bytes_sent * sweeps
        self.messages = self._halo.messages_sent * sweeps
        words = self._tiling.words()
        steps = f"{self.steps_per_sweep} step{'s' * (self.steps_per_sweep > 1)} per sweep"
        if len(rules) > 1:
            steps = f"{len(rules)} sweeps per step"
        self.method = f"{steps} in {words}, exchange by {self._halo.method}"

    def cut(self, how: Tiling) -> None:
        """Cut the sweeps in another way from now on, which changes nothing but their speed."""
        self._tiling = how
        if how.tile_rows > self._scratch_rows:
            block, self._scratch_rows = self._block, how.tile_rows
            self._scratch = make_scratch(
                self._dtype,
                self._n_fields,
                block.shape_local,
                block.ghost,
                how.tile_rows,
                self._context.threads,
            )

    def free(self) -> None:
        """Free the requests of the exchange; not usable afterwards."""
        self._halo.free()

    def compile(self) -> None:
        compile_kernels(
            [
                *specialise(dict.fromkeys(self._sweeps), self._dtype, self._n_fields, self._keys is not None),
                *specialise([scan_extrema], self._dtype),
                *kernels_of_sums(self._dtype),
            ]
        )

    def host(self) -> tuple[NDArray[Any], ...]:
        """Return the owned cells of each field, as views."""
        return tuple(field.owned for field in self._sets[self._now])

    def commit(self) -> None:
        """Take over what was written into the arrays of `host`, and fill the ghosts. Collective, with neighbours."""
        self._halo.exchange(self._now)

    def squares(self) -> list[tuple[float, float]]:
        """Return the sums over this rank's cells of (new - old)^2 and new^2 of each field, of the last sweep."""
        sums = []
        for new, old in zip(self._sets[self._now], self._sets[1 - self._now]):
            changed = whole = 0.0
            # A plane at a time, so that no copy of a field is made.
            for after, before in zip(new.owned, old.owned):
                values = after.astype(np.float64)
                changed += float(np.square(values - before).sum())
                whole += float(np.square(values).sum())
            sums.append((changed, whole))
        return sums

    @property
    def steps_per_call(self) -> int:
        """The most steps that the next call of `advance` makes.

        The first call, which warms caches, makes one sweep, and so do those of which a trace is kept.
        """
        # The threads of several sweeps wait for each other, so that all of them must run.
        lacks_threads = self._is_alone and numba.get_num_threads() < self._context.threads
        is_one = self._is_first_call or lacks_threads or self._context.regions.timeline is not None
        return self.steps_per_sweep * (1 if is_one else self._sweeps_per_call)

    def advance(self, step: int, most: int) -> int:
        """Advance from `step` by one sweep, or by several sweeps of full length, by at most `most` steps in all.

        Return how many. Collective, with neighbours.
        """
        most = min(most, self.steps_per_call)
        steps = min(most, self.steps_per_sweep)
        most_sweeps = most // steps
        self._is_first_call = False
        if self._is_alone:
            return steps * self._sweep_and_exchange(step, steps, most_sweeps)
        for n in range(most_sweeps):
            self._sweep_and_exchange(step + n * steps, steps, 1)
        return steps * most_sweeps

    def _sweep_and_exchange(self, step: int, steps: int, most_sweeps: int) -> int:
        """Make a sweep of all stages, or several sweeps of a single stage without messages; return how many."""
        sweeps = 1
        regions = self._context.regions
        compute, exchange = regions("compute"), regions("exchange")
        for stage in range(len(self._sweeps)):
            with compute:
                self.update_sides(stage)
                self._run(stage, self._first_boxes, step, steps)
            new = 1 - self._now
            with exchange:
                self._halo.start(new)
            with compute:
                sweeps = self._run(stage, self._rest_boxes, step, steps, most_sweeps)
            with exchange:
                self._halo.finish(new)
            self._now = (self._now + sweeps) % 2
        return sweeps

    def overwrite_other(self, step: int) -> None:
        """Sweep the first stage from the present fields into the others, which is no step. No communication."""
        self.update_sides(0)
        for boxes in (self._first_boxes, self._rest_boxes):
            self._run(0, boxes, step, 1)

    def update_sides(self, stage: int) -> None:
        """Set what lies beyond sides for a stage of the next sweep, where it changes with time."""

    def fields(self) -> tuple[BlockArray, ...]:
        """Return the present fields, ghosts not guaranteed."""
        return tuple(self._sets[self._now])

    def nonfinite(self) -> int:
        """Return how many owned cells of all fields are not finite."""
        return sum(scan(field, self._context.threads)[2] for field in self.fields())

    def allocated(self) -> int:
        """Return the bytes of both sets of fields and of the sweep's scratch."""
        fields = sum(array.flat.nbytes for pair in self._sets for array in pair)
        return fields + sum(array.nbytes for array in self._scratch)

    def _run(self, stage: int, boxes: NDArray[np.int64], step: int, steps: int, sweeps: int = 1) -> int:
        """Sweep boxes, (n, 6) of local cells z0, z1, y0, y1, x0, x1, from the present fields into the other set.

        Further sweeps go back and forth. Return how many were made, which are fewer if they take long.
        """
        if not len(boxes):
            return sweeps
        block, field = self._block, self._sets[0][0]
        self._sweeps[stage](
            self._flat[self._now],
            (field.origin, field.row_pitch, field.plane_pitch),
            boxes,
            block.offset_global,
            block.shape_global,
            block.periodic,
            step,
            steps,
            sweeps,
            self._keys,
            self.coefficients[stage],
            # A plain tuple, as in the signature: for `Sides` itself Numba would compile the sweep again.
            (self._sides.values, self._sides.places, self._sides.weights),
            self._tiling.tile_rows,
            self._tiling.streaming,
            self._context.threads,
            self._team,
            self._scratch,
            self._flat[1 - self._now],
        )
        return int(self._team[0, MADE])
