"""The memory, output, work and predicted time of a Navier-Stokes run, before it runs: no MPI, no fields.

    estimate(case, n_ranks)              decomposition, memory, output, least work, and the sentences of `check`
    predict(case, place, iterations)     time of a step on a machine, from the work of its parts and the messages

The work is that of the method with one iteration of each solve, which is the least that a step can take. Counts are
words and floating-point operations per stored point, with c = 3 + S fields (velocity and scalars). They assume a
cache that holds an element but not a field (NekBox paper, Sec. 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ridgeline.config.intervals import ROUNDING, multiples
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.limits.exchange_costs import neighbours, sum_over_ranks, without_latency
from ridgeline.limits.prediction import Allocation, Part, Prediction, exchange_kind, optimistic, traffic
from ridgeline.models.contract import Estimate, Work
from ridgeline.models.navier_stokes.check_remarks import (
    convection_remarks,
    diffusion_remarks,
    ends_at_once,
    first_courant_rate,
    first_step_remark,
    flux_remarks,
    mesh_remarks,
    sponge_remarks,
)
from ridgeline.models.navier_stokes.device_memory import device_memory
from ridgeline.models.navier_stokes.mesh_rules import checked_places
from ridgeline.models.navier_stokes.problem_of_case import dealias_points, mesh_of, problem_of
from ridgeline.models.navier_stokes.settings import NavierStokesCase
from ridgeline.models.navier_stokes.sources import kept_formulas
from ridgeline.models.navier_stokes.step_work import buoyancy_counts
from ridgeline.models.navier_stokes.wall_resolution import wall_units
from ridgeline.parallel.partition import split

DOUBLE, SINGLE = 8, 4
PRECONDITIONER_LEVELS = 3  # p, an intermediate order, 1
# The largest mesh whose neighbours are looked at one by one. In a larger one, parts count as cubes.
MOST_ELEMENTS = 200_000
SHARE = "codes.navier_stokes"  # of the memory bandwidth, in a machine file
SOLVES = "pressure", "velocity"  # of a step; the iterations of the velocity are those of each scalar too


def part_sizes(case: NavierStokesCase, n_ranks: int) -> tuple[ElementGrid, int]:
    """Return (the grid of rank 0, elements of the largest part). DecompositionError for more ranks than elements."""
    grid = ElementGrid(mesh_of(case), case.grid.order, n_ranks, 0)
    return grid, max(grid.counts())


def shared_faces(mesh: Mesh, n_ranks: int) -> tuple[float, float]:
    """Return (element faces between parts, pairs of parts that share a face), over all ranks."""
    if n_ranks == 1:
        return 0.0, 0.0
    total = mesh.n_elements
    if total > MOST_ELEMENTS:
        size = total / n_ranks
        return 3.0 * n_ranks * size ** (2 / 3), 3.0 * n_ranks
    positions = mesh.range(0, total)
    parts = np.repeat(np.arange(n_ranks), [split(total, n_ranks, rank)[1] for rank in range(n_ranks)])
    owner = np.empty(total, np.int64)
    owner[mesh.numbers(positions)] = parts
    across = mesh.neighbours(positions)
    there = np.where(across < 0, parts[:, None], owner[across])
    cut = parts[:, None] < there  # each face once
    pairs = np.unique(np.stack([np.broadcast_to(parts[:, None], cut.shape)[cut], there[cut]]), axis=1)
    return float(cut.sum()), float(pairs.shape[1])


@dataclass(frozen=True)
class Counts:
    """The floating-point operations and bytes per stored point of the parts of a step."""

    n: int
    m: int  # points of the advection
    fields: int  # c
    buoyancy: tuple[int, int]  # scalars that act on the flow, components that they act on
    order: int  # in time
    curved: bool
    pressure_vectors: int
    velocity_vectors: int
    single: int  # bytes of the preconditioner's words

    @classmethod
    def of(cls, case: NavierStokesCase) -> Counts:
        """Return the counts of a case."""
        return cls(
            n=case.grid.order + 1,
            m=dealias_points(case) or case.grid.order + 1,
            fields=3 + len(case.scalar),
            buoyancy=(
                sum(scalar.expansion != 0 for scalar in case.scalar),
                sum(g != 0 for g in case.model.gravity),
            ),
            order=case.model.time_order,
            curved=case.grid.mapping != "none" or bool(case.grid.mesh),
            pressure_vectors=case.model.projection.pressure,
            velocity_vectors=case.model.projection.velocity,
            single=SINGLE if case.model.pressure.precision == "float32" else DOUBLE,
        )

    def products(self, n_to: int, n_from: int) -> float:
        """Return the operations that interpolate an element from n_from^3 to n_to^3 points."""
        return 2.0 * n_from * n_to * (n_from**2 + n_from * n_to + n_to**2)

    def operator(self) -> tuple[float, float]:
        """Return the counts of h1 K + h2 B: Eq. 6 of the paper, or six factors and the mass on curved elements."""
        if self.curved:
            return 12.0 * self.n + 20, 2.0 * DOUBLE + 7 * DOUBLE
        return 6.0 * self.n + 8, 2.0 * DOUBLE

    def advection(self) -> tuple[float, float]:
        """Return the counts of the dealiased rates: velocity and derivatives to m^3 points, products, and back."""
        n, m, c = self.n, self.m, self.fields
        fine = 3 * c * self.products(m, n) + c * self.products(n, m) + 3 * self.products(m, n)
        flops = 6.0 * n * c + (fine + (5.0 * c + 18) * m**3) / n**3
        return flops, DOUBLE * (2.0 * c + (9 if self.curved else 0))

    def pressure_iteration(self) -> tuple[float, float]:
        """Return the counts of one iteration of GMRES with the multigrid; its lower levels add a share to level p."""
        flops, moved = self.operator()
        ext = self.n + 2
        schwarz = 12.0 * ext**4 / self.n**3
        smooth = flops + schwarz
        return flops + 1.3 * smooth + 12, moved + self.single * (2 * (2 + 2) + 2.0) + DOUBLE * 7

    def conjugate_gradient_iteration(self) -> tuple[float, float]:
        """Return the counts of one fused CG iteration of a component: 3 passes, 8 words (r, d, p, w; p, w, x, r)."""
        flops, moved = self.operator()
        return flops + 12, moved + DOUBLE * 8

    def projection(self, vectors: int) -> tuple[float, float]:
        """Return the counts of a guess from the last solutions and of their update: each is read three times."""
        return 8.0 * vectors, DOUBLE * 4.0 * vectors

    def step(self) -> tuple[float, float]:
        """Return (operations, bytes) of a step per stored point."""
        c = self.fields
        parts = [self.advection(), self.pressure_iteration(), self.projection(self.pressure_vectors)]
        parts += [self.conjugate_gradient_iteration(), self.projection(self.velocity_vectors)] * c
        # Right-hand sides: levels of fields and rates; divergence; gradient of the pressure.
        parts.append(((4.0 * self.order + 2) * c, DOUBLE * (2.0 * self.order + 1) * c))
        parts += [(6.0 * self.n + 12, DOUBLE * 5.0), (6.0 * self.n + 12, DOUBLE * 8.0)]
        flops, words = buoyancy_counts(*self.buoyancy)
        parts.append((flops, DOUBLE * words))
        return math.fsum(f for f, _ in parts), math.fsum(b for _, b in parts)


def least_work(case: NavierStokesCase, n_ranks: int) -> Work:
    """Return the least work of one step on n_ranks ranks, summed over them."""
    mesh, counts = mesh_of(case), Counts.of(case)
    stored = mesh.n_elements * counts.n**3
    flops, moved = counts.step()
    faces, pairs = shared_faces(mesh, n_ranks)
    # Sums over shared points: right-hand sides and one operator per field, and each level of the preconditioner.
    doubles = 2.0 * counts.fields + 2
    singles = 2.0 * (PRECONDITIONER_LEVELS - 1)
    calls = 2.0 * (1 + len(case.scalar)) + 2 + 2 * (PRECONDITIONER_LEVELS - 1)
    exchanged = 2.0 * faces * counts.n**2 * (DOUBLE * doubles + counts.single * singles)
    return Work(
        mesh.n_unique((case.grid.order,) * 3),
        flops * stored,
        moved * stored,
        exchanged,
        2.0 * pairs * calls,
    )


def words_per_point(case: NavierStokesCase) -> dict[str, float]:
    """Return the words of 8 bytes that a rank keeps per stored point, by what they are for.

    They are counted from what the parts allocate. Curved elements keep 9 metrics and 6 factors, 4 words more in the
    preconditioner, and the metrics again at the points of the advection.
    """
    counts = Counts.of(case)
    c, model, scalars = counts.fields, case.model, len(case.scalar)
    half = counts.single / DOUBLE
    steps = min(model.pressure.restart, model.pressure.max_iterations)
    krylov = (1.0 + half) * steps + 2 if model.pressure.solver == "gmres" else 4 + half
    sums = 15.0 + 5.0 * scalars + (25.0 if case.output.statistics_of == "budgets" else 0.0)
    problem = problem_of(case, 1.0)
    steady = [each.steady for each in problem.variable_coefficients]
    curved = 19.0 + 9.0 * (counts.m / counts.n) ** 3
    # Diagonal, three arrays of the inner product, and on curved elements six factors of each; numbers of planes; psi,
    # right-hand side and three vectors of the solve.
    number = sum(name.startswith("streamfunction") for name in case.fields_written())
    planes = {"streamfunction": (11.0 if counts.curved else 5.0) * number + 5.0} if number else {}
    return {
        "fields": (2.0 * counts.order + (model.courant is not None)) * c + 2.0 * c + 10,
        "geometry": 8.0 + (curved if counts.curved else 0.0),
        "Krylov vectors": krylov + 3.0 + 15.0,  # of the pressure; of three components at once
        "projection": counts.pressure_vectors + 2.0 + (counts.velocity_vectors + 2.0) * c,
        "preconditioner": half * (5.0 + 16.0 / counts.n),
        "sources": float(len(kept_formulas(problem.source_terms)) + sum(steady) + (False in steady)),
        "statistics": sums if case.output.interval("statistics_every") else 0.0,
        **planes,
    }


def checkpoint_words(case: NavierStokesCase) -> float:
    """Return the words per stored point of a checkpoint: levels of the fields, pressure, the last solutions.

    With sides also the known sides of the equations of the velocity and of scalars that sides fix, for forces and
    heat fluxes there.
    """
    counts = Counts.of(case)
    has_sides = any(not case.is_periodic(name) for name in case.side_names())
    fixed = sum(
        any(case.scalar_kind(number, name) == "fixed" for name in case.side_names())
        for number in range(len(case.scalar))
    )
    return (
        counts.order * counts.fields
        + 1.0
        + 3.0 * has_sides
        + fixed
        + 2.0 * counts.pressure_vectors
        + 2.0 * counts.velocity_vectors * counts.fields
    )


def spacings(case: NavierStokesCase, mesh: Mesh) -> tuple[float, float, float]:
    """Return the smallest distances of points along x, y, z of a box before its map, otherwise about r, s, t."""
    gap = float(np.diff(gauss_lobatto(case.grid.order + 1)[0]).min()) / 2
    if isinstance(mesh, BoxMesh):
        x, y, z = (gap * float(np.diff(mesh.edges[axis]).min()) for axis in (2, 1, 0))
    else:
        x, y, z = gap * mesh.extents(mesh.range(0, mesh.n_elements)).min(axis=0)
    return x, y, z


def remarks(case: NavierStokesCase, mesh: Mesh, needed: dict[str, float]) -> tuple[str, ...]:
    """Return the sentences of `ridgeline check` on a case."""
    n = case.grid.order + 1
    x, y, z = spacings(case, mesh)
    if isinstance(mesh, BoxMesh):
        before = " before the mapping" if mesh.mapping else ""
        smallest = f"smallest distance of points{before}: x {x:.3g}, y {y:.3g}, z {z:.3g}"
    else:
        smallest = f"smallest distance of points: about {min(x, y, z):.3g}"
    stored, unique = mesh.n_elements * n**3, mesh.n_unique((case.grid.order,) * 3)
    words = [
        f"{mesh.n_elements} elements of order {case.grid.order}: {stored} points stored, {unique} unique",
        smallest,
        *mesh_remarks(case, mesh),
        "memory per rank: " + ", ".join(f"{name} {size / 2**20:.4g} MiB" for name, size in needed.items()),
    ]
    words += wall_units(case, mesh)
    if case.has_probes:
        words.append(
            f"probes: {len(checked_places(case, mesh))}, in {case.writes(case.output.probes.interval()) + 1} rows"
        )
    if case.output.interval("statistics_window"):
        points, names = statistics_size(case, mesh)
        words.append(
            f"statistics: {windows_written(case)} windows of {DOUBLE * points * names / 2**20:.4g} MiB "
            f"({names} averages at {points} points)"
        )
    words += sponge_remarks(case, mesh)
    words += diffusion_remarks(case, mesh)
    words += flux_remarks(case, mesh)
    words += convection_remarks(case)
    words.append("work and predicted time count one iteration of each solve, so expect several times as much")
    return tuple(words)


def windows_written(case: NavierStokesCase) -> int:
    """Return how many windows of statistics the planned run writes, the unfinished one at its end included."""
    window, start, end = (
        case.output.interval("statistics_window"),
        case.output.statistics_start,
        case.planned_end(),
    )
    ends = case.writes(window)
    whole = False
    if window.time and not math.isnan(end):
        ends -= multiples(min(start, end), window.time)
        whole = abs(end / window.time - round(end / window.time)) < ROUNDING * end / window.time
    if window.steps:
        steps = case.planned_steps()
        before = case.steps_until(start) if start else 0.0
        ends -= 0 if math.isnan(before) else multiples(min(before, steps), window.steps)
        whole = whole or steps % window.steps == 0
    return ends + (not whole or not ends)


def statistics_size(case: NavierStokesCase, mesh: Mesh) -> tuple[int, int]:
    """Return how many points and averages the statistics of one window have."""
    # Means and second moments; of budgets 25 more, and nine gradients of the mean velocity.
    names = 11 + 5 * len(case.scalar) + (34 if case.output.statistics_of == "budgets" else 0)
    points = mesh.n_elements * (case.grid.order + 1) ** 3
    if case.output.homogeneous:
        assert isinstance(mesh, BoxMesh)  # settings.py allows homogeneous directions only in a box
        kept = (n for n, axis in zip(mesh.elements, "zyx") if axis not in case.output.homogeneous)
        points = math.prod(n * case.grid.order + 1 for n in kept)
    return points, names


def memory(case: NavierStokesCase, points: int) -> dict[str, float]:
    """Return the bytes of host memory of a rank with `points` stored points, by what they are for."""
    words = words_per_point(case)
    if case.run.device == "cuda":  # a copy of the levels, and arrays of inner products and of the set-up
        counts = Counts.of(case)
        copies = (counts.order + 1.0) * counts.fields + 1.0 + 5.0
        kept = ("geometry", "statistics", "streamfunction")
        words = {"fields": copies, **{name: words[name] for name in kept if name in words}}
    return {name: DOUBLE * size * points for name, size in words.items()}


def estimate(case: NavierStokesCase, n_ranks: int) -> Estimate:
    """Return decomposition, memory, output and least work of the case on n_ranks ranks.

    Raises DecompositionError for more ranks than elements, and ConfigError for a map that cannot be loaded or that
    folds an element and for probes outside the mesh.
    """
    plan = estimate_sizes(case, n_ranks)
    most, n, *_ = plan.block
    mesh, model = mesh_of(case), case.model
    rate, sudden = first_courant_rate(case, mesh)
    first_step = rate, model.dt, model.control(), sudden
    sentences = remarks(case, mesh, memory(case, most * n**3))
    if ends_at_once(*first_step):
        return replace(plan, remarks=sentences, refusals=(first_step_remark(*first_step),))
    return replace(plan, remarks=(*sentences, first_step_remark(*first_step)))


def estimate_sizes(case: NavierStokesCase, n_ranks: int) -> Estimate:
    """Return the estimate without remarks, which need all points. Raises DecompositionError, ConfigError."""
    grid, most = part_sizes(case, n_ranks)
    n, mesh, output = grid.n, grid.mesh, case.output
    outputs = case.outputs()
    stored = mesh.n_elements * n**3
    written = math.prod(output.uniform) if output.uniform else stored
    size = float(outputs * len(output.variables) * written * DOUBLE)
    if outputs and not output.uniform:
        size += 3.0 * stored * DOUBLE  # the places of the points, in the first output
    # The fields of an output; and for the points of an image: places, coordinates, values as sent and received.
    between = DOUBLE * most * n**3 * (len(output.variables) + 2.0)
    if output.uniform and output.interval():
        between += DOUBLE * (len(output.variables) + 12.0) * written / n_ranks
    if nek5000 := output.interval("nek5000_every"):
        word = SINGLE if output.nek5000_precision == "float32" else DOUBLE
        files = case.writes(nek5000) + 1  # step 0 has one
        with_places = files if output.nek5000_geometry == "every" else 1
        size += (files * (4.0 + len(case.scalar)) + with_places * 3.0) * stored * word
    return Estimate(
        process_grid=(n_ranks,),
        block=(most, n, n, n),
        memory_per_rank=float(sum(memory(case, most * n**3).values())),
        output_bytes=size,
        outputs=outputs,
        checkpoint_bytes=DOUBLE * checkpoint_words(case) * stored,
        work=least_work(case, n_ranks),
        memory_between_steps=between,
        device_memory=device_memory(case, mesh, most, shared_faces(mesh, n_ranks)[0], n_ranks),
    )


def predict(case: NavierStokesCase, place: Allocation, iterations: Mapping[str, float]) -> Prediction:
    """Return the predicted time of a case on a machine. iterations: of each solve, by name; 1 where it is missing.

    Raises DecompositionError for more ranks than elements.
    """
    ranks = place.ranks
    plan = estimate_sizes(case, ranks)
    grid, most = part_sizes(case, ranks)
    counts, mesh = Counts.of(case), grid.mesh
    of_pressure, of_velocity = (iterations.get(solve, 1.0) for solve in SOLVES)
    points = most * grid.n**3
    c = counts.fields
    faces, pairs = shared_faces(mesh, ranks)
    # Counted as in `least_work`: the right-hand side of each field and the divergence, each operator, each lower
    # level.
    lower = 2.0 * (PRECONDITIONER_LEVELS - 1)
    words = DOUBLE * (c * (1 + of_velocity) + 1 + of_pressure) + counts.single * lower * of_pressure
    calls = 1 + (1 + len(case.scalar)) * (1 + of_velocity) + (1 + lower) * of_pressure
    sent, messages = 2.0 * faces * grid.n**2 * words / ranks, 2.0 * pairs * calls / ranks
    sums = of_pressure + 2 * of_velocity * (1 + len(case.scalar))  # one of GMRES, two of conjugate gradients

    def region(name: str, *terms: tuple[float, tuple[float, float]]) -> Part:
        flops = math.fsum(times * each[0] for times, each in terms) * points
        moved = math.fsum(times * each[1] for times, each in terms) * points
        return Part.of(name, "node", lambda: traffic(place, moved, SHARE, flops, plan.memory_per_rank))

    pressure, velocity = counts.pressure_iteration(), counts.conjugate_gradient_iteration()
    projection = (
        (1.0, counts.projection(counts.pressure_vectors)),
        (c, counts.projection(counts.velocity_vectors)),
    )
    all_parts = counts.step()
    one_each = [(1.0, pressure), (float(c), velocity), *projection]
    rest = (
        all_parts[0] - math.fsum(times * each[0] for times, each in one_each),
        all_parts[1] - math.fsum(times * each[1] for times, each in one_each),
    )
    bounds = optimistic(place, SHARE) + without_latency(place)
    if not iterations:
        bounds += (
            "each solve is assumed to take one iteration (--iterations pressure=N sets how many it takes)",
        )
    kind = exchange_kind(place)
    return Prediction(
        case=f"navier_stokes, {mesh.n_elements} elements of order {case.grid.order}",
        place=place,
        parts=(
            region("advection and right-hand sides", (1.0, rest)),
            region("pressure iterations", (of_pressure, pressure)),
            region("velocity iterations", (of_velocity * c, velocity)),
            region("projection", *projection),
            Part.of("gather-scatter", kind, lambda: neighbours(place, sent, messages)),
            Part.of("global sums", kind, lambda: sums * sum_over_ranks(place)),
        ),
        steps=case.planned_steps(),
        memory_per_rank=plan.memory_per_rank,
        output_bytes=plan.output_bytes,
        process_grid=plan.process_grid,
        bounds=bounds,
    )
