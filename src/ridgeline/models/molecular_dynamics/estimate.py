"""The memory, output, work and predicted time of a run of molecular dynamics, before it runs: no MPI, no allocation.

estimate(case, n_ranks)              decomposition, memory, output and least work
predict(case, place, iterations)     time of a step on a machine, from that least work and the messages
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ridgeline.blocks.block import check_process_grid
from ridgeline.io.bp_attributes import BYTES_OF_VERTEX
from ridgeline.limits.exchange_costs import neighbours, sum_over_ranks, without_latency
from ridgeline.limits.prediction import Allocation, Part, Prediction, exchange_kind
from ridgeline.models.contract import Estimate, Work
from ridgeline.models.molecular_dynamics.external_potential import ExternalPotential
from ridgeline.models.molecular_dynamics.problem import Melt
from ridgeline.models.molecular_dynamics.settings import MolecularDynamicsCase
from ridgeline.parallel.partition import Triple, factorizations
from ridgeline.particles.boxes import Boxes, even_boxes
from ridgeline.particles.ghosts import check_reach
from ridgeline.particles.neighbours import SPARE as SPARE_LISTS
from ridgeline.particles.neighbours import list_capacity
from ridgeline.particles.particles import SPARE
from ridgeline.runtime.errors import DecompositionError
from ridgeline.runtime.units import number

WORD = 8
# Operations for a pair within the cut-off, fused multiply-adds counted as two: 3 differences, 5 for the square of the
# distance, a division, 2 products for r^-6, 4 for the force, 6 to add it to both atoms.
FLOPS_PER_PAIR = 3 + 5 + 1 + 2 + 4 + 6
FLOPS_PER_ATOM = 18  # of velocity Verlet: three fused multiply-adds in each direction
STATE = 3 + 3 + 3 + 1 + 1.5  # words of an atom: position, velocity, held, identity, image
PACKED = math.ceil(STATE)  # words of an atom that moves to another rank
ROW = 4  # words of a position or a force that is sent; in mixed precision positions have half as many bytes
ROWS = 4 + 4 + 1  # words of an atom or a ghost: row of position, row of force, identity
SORTED = 3 + 0.5 + 0.5  # words of an atom or a ghost in cells: positions, order, cell
SHARE = "codes.molecular_dynamics"  # of the peak, in a machine file
SUMS = 2  # over all ranks where lists are rebuilt: how far atoms moved, and that no atom was lost


def process_grid(case: MolecularDynamicsCase, n_ranks: int) -> Triple:
    """Return the process grid. DecompositionError if it does not fit the ranks or its boxes are too thin."""
    melt, grid = case.melt, case.grid.process_grid
    if grid == "auto":
        return _fewest_ghosts(melt, n_ranks)
    check_process_grid(case.grid.cells, grid, n_ranks)
    check_reach(boxes_of(melt.lengths, grid), melt.reach)
    return grid


def _fewest_ghosts(melt: Melt, n_ranks: int) -> Triple:
    """Return the process grid with the fewest ghosts; of equal ones, that which cuts z first."""

    def cuts(ranks: int) -> list[Triple]:
        return [grid for grid in factorizations(ranks) if min(_edges(melt, grid)) >= melt.reach]

    fitting = cuts(n_ranks)
    if not fitting:
        most = math.prod(int(length / melt.reach) for length in melt.lengths)
        fewer = next(ranks for ranks in range(min(n_ranks - 1, most), 0, -1) if cuts(ranks))
        edges = " x ".join(f"{edge:.4g}" for edge in _edges(melt, (1, 1, 1)))
        raise DecompositionError(
            f"the domain of {edges} sigma (z y x) cannot be divided into {n_ranks} boxes that are at least as wide "
            f"as the cut-off plus the skin, {melt.reach:g} sigma. Use {fewer} ranks, the next lower number that is "
            f"possible, or more grid.cells."
        )
    return min(
        fitting, key=lambda grid: (round(_ghosts(melt, _edges(melt, grid), [True] * 3)), grid[2], grid[1])
    )


def _edges(melt: Melt, grid: Triple) -> list[float]:
    """Return the edges of a rank's box, z, y, x."""
    return [length / n for length, n in zip(melt.lengths[::-1], grid)]


def boxes_of(lengths: Sequence[float], grid: Triple) -> Boxes:
    """Return the boxes of all ranks, z slowest. lengths: of the periodic box, x, y, z."""
    ranks = np.arange(math.prod(grid)).reshape(grid)
    return even_boxes((0.0, 0.0, 0.0), tuple(lengths)[::-1], ranks, (True, True, True))


def pairs_within(melt: Melt, distance: float) -> float:
    """Return the expected number of other atoms within a distance of an atom."""
    return 4 / 3 * math.pi * distance**3 * melt.density


def least_work(melt: Melt, grid: Triple, external: ExternalPotential | None = None) -> Work:
    """Return the least work of a step: each pair within the cut-off once, the state read and written once."""
    ranks = math.prod(grid)
    edges = _edges(melt, grid)
    ghosts = _ghosts(melt, edges, [n > 1 for n in grid])
    of_atom = FLOPS_PER_ATOM + (external.operations + 3 if external else 0)
    flops = melt.atoms * (FLOPS_PER_PAIR * pairs_within(melt, melt.cutoff) / 2 + of_atom)
    cut = sum(n > 1 for n in grid)
    return Work(melt.atoms, flops, melt.atoms * 2 * 6 * WORD, ranks * ghosts * 3 * WORD, 2.0 * ranks * cut)


@dataclass(frozen=True)
class GhostTraffic:
    """What a rank sends to others.

    ghosts, messages: bytes and messages of a step; rebuild: further bytes of a step that rebuilds the lists;
    migrants: atoms that leave the rank then.
    """

    ghosts: float
    messages: float
    rebuild: float
    migrants: float

    def per_step(self, every: int) -> float:
        """Return the mean bytes of a step, with lists that are rebuilt every `every` steps."""
        return self.ghosts + self.rebuild / every


def traffic_of(case: MolecularDynamicsCase, grid: Triple) -> GhostTraffic:
    """Return what a rank sends. Images of its own atoms need no message, but those at edges travel with the others.

    Atoms leave as in free flight: density sqrt(T / 2 pi) of them cross a unit of area in a unit of time (Maxwell).
    Before the lattice has melted they are about twice as many, because sides of boxes are often planes of atoms.
    """
    melt, lists = case.melt, case.neighbour
    edges = _edges(melt, grid)
    rows = _ghosts(melt, edges, [True] * 3) - _ghosts(melt, edges, [n == 1 for n in grid])
    place = ROW * (WORD // 2 if case.method.mixed else WORD)
    back = ROW * WORD if lists.newton else 0
    temperature = case.langevin.temperature if case.langevin else melt.temperature
    flux = melt.density * math.sqrt(temperature / (2 * math.pi)) * lists.every * melt.dt
    area = sum(2 * math.prod(edges) / edge for edge, n in zip(edges, grid) if n > 1)
    migrants = min(flux * area, math.prod(edges) * melt.density)
    messages = 2.0 * sum(n > 1 for n in grid) * (2 if lists.newton else 1)
    return GhostTraffic(
        rows * (place + back), messages, rows * WORD * (ROW + 1) + migrants * PACKED * WORD, migrants
    )


def remarks(case: MolecularDynamicsCase, grid: Triple) -> tuple[str, ...]:
    """Return the sentences of `ridgeline check` on the external potential and on messages."""
    words = []
    if case.external is not None:
        kept = (
            "momentum is not conserved" if case.external.steady else "energy and momentum are not conserved"
        )
        words.append(f"the external potential takes {case.external.operations} operations an atom; {kept}")
    if math.prod(grid) == 1:
        return tuple(words)
    sent, lists = traffic_of(case, grid), case.neighbour
    when = f"{'at most ' if lists.check else ''}every {lists.every} steps"
    words.append(
        f"each rank sends {number(sent.ghosts, 'B')} of ghosts in {sent.messages:g} messages per step, and "
        f"{number(sent.rebuild, 'B')} more when the lists are rebuilt ({when}), when about {sent.migrants:.3g} of "
        f"its atoms migrate"
    )
    return tuple(words)


def _ghosts(melt: Melt, edges: list[float], wanted: list[bool]) -> float:
    """Return the expected number of ghosts of a box, counting the directions that are wanted."""
    around = math.prod(edge + 2 * melt.reach * want for edge, want in zip(edges, wanted))
    return melt.density * (around - math.prod(edges))


def estimate(case: MolecularDynamicsCase, n_ranks: int) -> Estimate:
    """Return decomposition, memory, output and least work of the case on n_ranks ranks."""
    melt, (nz, ny, nx) = case.melt, case.grid.cells
    grid = process_grid(case, n_ranks)
    edges = _edges(melt, grid)
    owned = melt.atoms / n_ranks
    every = owned + _ghosts(melt, edges, [True] * 3)
    neighbours = pairs_within(melt, melt.reach) / (2 if case.neighbour.newton else 1)
    lists = SPARE_LISTS * owned * (list_capacity(int(SPARE * neighbours)) / 2 + 2)  # with counts and order
    scratch = 4 * every * case.run.threads if case.neighbour.newton else 0.0
    scratch += 2 * every if case.method.mixed else 0.0
    words = SPARE * (STATE * owned + (ROWS + SORTED) * every) + lists + scratch
    outputs = case.outputs()
    each = {"position": 3 * WORD, "velocity": 3 * WORD, "force": 3 * WORD, "image": 12}
    written = sum(each[name] for name in case.output.variables)
    written += BYTES_OF_VERTEX if "position" in case.output.variables else 0
    return Estimate(
        process_grid=grid,
        block=(-(-nz // grid[0]), -(-ny // grid[1]), -(-nx // grid[2])),
        memory_per_rank=float(WORD * words),
        output_bytes=float(outputs * written * melt.atoms),
        outputs=outputs,
        checkpoint_bytes=float((3 * 3 * WORD + 12) * melt.atoms),
        work=least_work(melt, grid, case.external),
        memory_between_steps=float(WORD * 3 * STATE * owned),
        remarks=remarks(case, grid),
    )


def predict(case: MolecularDynamicsCase, place: Allocation, iterations: Mapping[str, float]) -> Prediction:
    """Return the predicted time of a case on a machine. Raises DecompositionError for boxes that are too thin."""
    ranks, lists = place.ranks, case.neighbour
    plan = estimate(case, ranks)
    nz, ny, nx = plan.process_grid
    sent, share = traffic_of(case, (nz, ny, nx)), place.find(SHARE)
    sums = (SUMS + lists.check) / lists.every
    kind = exchange_kind(place)
    absent = (f"the full peak is assumed, because the machine file has no {SHARE}",)
    no_kernels = ("the peak is that of the GPUs, for which this model has no kernels yet",)

    def compute() -> float:
        return plan.work.flops / ranks / (place.of_rank("peak") * (share or 1.0))

    def exchange() -> float:
        return neighbours(place, sent.per_step(lists.every), sent.messages)

    return Prediction(
        case=f"molecular_dynamics, {case.melt.atoms} atoms",
        place=place,
        parts=(
            Part.of("forces, lists and integration", "node", compute),
            Part.of("ghosts and migration", kind, exchange),
            Part.of("global sums", kind, lambda: sums * sum_over_ranks(place)),
        ),
        steps=case.planned_steps(),
        memory_per_rank=plan.memory_per_rank,
        output_bytes=plan.output_bytes,
        flops=plan.work.flops,
        process_grid=plan.process_grid,
        bounds=(absent if share is None else ()) + without_latency(place),
        notes=no_kernels if place.on_devices else (),
    )
