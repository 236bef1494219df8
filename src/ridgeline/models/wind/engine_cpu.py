"""A step of the wind model on the block of one rank, on CPU cores.

State. u, v, w and the scalars are `BlockArray`s at cells with three layers of ghosts; a second set takes turns with
them. The pressure is at nodes, with one layer. Tendencies and face velocities have the layout of the fields, so that
one index serves them all; face (k, j, i) is the lower one of that cell. All of it belongs to one level: levels of
refinement would each have such an engine.

Step of Godunov's method. `reference` has the equations. One pass finds the speeds, and one sets the tendencies of
the velocity; each scalar has one more. `predict_faces` reads velocities and tendencies once, `advect` each field
with its tendency and the faces once. Then come the corrector (the tendencies once more, and one pass that adds them)
and the nodal projection (three passes over the velocity). Without the linear solvers, a step with n fields reads or
writes about 30 + 13 n values a cell. The method of lines makes most of this twice.

Messages. A step exchanges the fields twice (before its advection and before its corrector), the tendencies once, the
face velocities once and the velocity once, each in one message to each neighbour, with edges and corners. The solvers
exchange by themselves. One allreduce of two numbers finds the speeds.

The same bits on any ranks: cells are computed alike in any block, maxima are exact, and the solvers promise it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.halo import HaloExchange
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.models.contract import Context, SolveCount
from ridgeline.models.wind import kernels, kernels_advection, kernels_diffusion
from ridgeline.models.wind.host_passes import WindPasses, layout_of
from ridgeline.models.wind.kernels import INSIDE, SIDE_VALUE
from ridgeline.models.wind.problem import GHOST, WindProblem, evaluate_side, normal_field
from ridgeline.models.wind.projections import layer_block, touched_sides
from ridgeline.parallel.allreduce import allreduce_max

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.wind.physical_terms import PhysicalTerms

SMALL = 1e-10  # as in the reference
# Regions of time that make up a step.
PHASES = (
    "tendencies",
    "face prediction",
    "MAC projection",
    "advection",
    "implicit diffusion",
    "nodal projection",
    "exchange",
)
KERNELS = (
    kernels.find_speeds,
    kernels.add_difference,
    kernels.combine,
    kernels_advection.predict_faces,
    kernels_advection.advect,
    kernels_diffusion.set_momentum,
    kernels_diffusion.set_diffusion,
)


class CpuEngine(WindPasses):
    """Fields and steps of one block.

    Parameters
    ----------
    problem : what is computed
    cartesian, block : the ranks in their grid, and this rank's block with three layers of ghosts
    context : threads, regions of time
    terms : the physics beside the equations of the problem, None without any
    tolerance : of the solves, as `FlowProjections` has it
    direct : whether Poisson problems are solved on one rank by diagonalisation, otherwise by multigrid
    """

    def __init__(
        self,
        problem: WindProblem,
        cartesian: MPI.Cartcomm,
        block: Block,
        context: Context,
        terms: PhysicalTerms | None = None,
        tolerance: float = 1e-9,
        direct: bool = False,
    ) -> None:
        self.problem, self.block, self.time = problem, block, 0.0
        self._side_time = 0.0  # at which values and fluxes at sides are taken
        self._sides_vary = any(
            callable(condition.value) for side in problem.sides.values() for condition in side.fields
        )
        self._comm, self._threads, self._regions = cartesian, context.threads, context.regions
        self._terms = terms
        self._dt = 1.0
        self._sides = touched_sides(problem, block)
        self._projections = self._make_projections(tolerance, direct)
        self._allocate()
        self._plan(cartesian)
        n = len(problem.names)
        self._codes = np.zeros((n, 3, 2), np.int64)
        for axis, last in self._sides:
            side = problem.at(axis, last)
            assert side is not None
            for number, field in enumerate(side.fields):
                self._codes[number, axis, int(last)] = SIDE_VALUE if field.fixed else INSIDE
        self._tiles = kernels_advection.make_tiles(block.shape_local)
        arrays = max(kernels_advection.FACE_ARRAYS, kernels_advection.ADVECTION_ARRAYS)
        self._work = kernels_advection.workspace(block.shape_local, arrays, context.threads)
        self._per_width = tuple(1.0 / h for h in problem.widths)
        self._speed, self._rate = 0.0, 0.0
        first, n_planes = block.offset_global[0], block.shape_local[0]
        self._theta_profile = problem.theta_profile[first : first + n_planes].copy()
        self._forces = np.array(problem.forces)
        self._extent = layout_of(self._sets[0][0]), block.shape_local
        self._mirrors = [self._mirrors_of(fields) for fields in self._sets]

    def _allocate(self) -> None:
        n, block = len(self.problem.names), self.block

        def some(count: int) -> tuple[BlockArray, ...]:
            return tuple(self._new_field(block) for _ in range(count))

        self._sets = [some(n), some(n)]
        self._now = 0
        self._tendencies, self._later = some(n), some(n)
        self._rates = () if self.problem.godunov else some(n)
        self._faces = some(3)
        self._pressure = self._new_field(self._projections.nodes)

    def _plan(self, cartesian: MPI.Cartcomm) -> None:
        halo = partial(self._make_halo, cartesian)
        self._field_halo = halo(*self._sets)
        self._velocity_halo = halo(*(each[:3] for each in self._sets))
        self._tendency_halo = halo(self._tendencies)
        self._face_halo = halo(self._faces)
        self._pressure_halo = halo((self._pressure,))
        self._outflow_faces = {}
        for axis in range(3):
            side = self.problem.at(axis, True)
            if side is not None and side.outflow:
                layer = self._new_field(layer_block(self.block, axis))
                self._outflow_faces[axis] = layer, halo((layer,))

    # ---- what the model asks for ----

    @property
    def fields(self) -> tuple[BlockArray, ...]:
        """The present fields, with ghosts that are not guaranteed."""
        return self._sets[self._now]

    @property
    def solves(self) -> dict[str, SolveCount]:
        """Counts of the solves so far, by their names."""
        return self._projections.solves

    @property
    def pressure(self) -> BlockArray:
        """The present pressure at nodes."""
        return self._pressure

    @property
    def faces(self) -> tuple[BlockArray, ...]:
        """The velocities across the lower faces in z, y and x of the last step."""
        return self._faces

    def compile(self) -> None:
        """Compile or load every kernel. No communication."""
        compile_kernels(specialise(KERNELS))
        if self._terms is not None:
            compile_kernels(self._terms.kernels(self.fields[0]))

    def commit(self) -> None:
        """Take over what was written into fields and pressure. Collective."""
        self._pressure_halo.exchange()

    @property
    def rate(self) -> float:
        """The largest |u_i| / width at the beginning of the last step, over the whole grid."""
        return self._rate

    @property
    def bytes_exchanged(self) -> float:
        """Bytes that this rank sends in a step of Godunov's method, without the linear solvers."""
        return float(sum(times * halo.bytes_sent for times, halo in self._exchanges()))

    @property
    def messages(self) -> float:
        """Messages that this rank sends in a step of Godunov's method, without the linear solvers."""
        return float(sum(times * halo.messages_sent for times, halo in self._exchanges()))

    def _exchanges(self) -> list[tuple[int, HaloExchange]]:
        stages = 1 if self.problem.godunov else 2
        once = (self._tendency_halo, self._face_halo, self._velocity_halo)
        return [(2, self._field_halo), *((stages, halo) for halo in once)]

    def allocated(self) -> int:
        """Return the bytes of fields held, without those of the linear solvers."""
        arrays = [*self._sets[0], *self._sets[1], *self._tendencies, *self._later, *self._rates, *self._faces]
        arrays += [self._pressure]
        return sum(int(each.flat.nbytes) for each in arrays) + int(self._work.nbytes)

    @property
    def eddies(self) -> tuple[BlockArray | None, BlockArray | None]:
        """The eddy viscosity and the eddy diffusivity that `fill` has set, None without a closure."""
        return (None, None) if self._terms is None else (self._terms.viscosity, self._terms.diffusivity)

    def cell_pressure(self) -> NDArray[np.float64]:
        """Return the mean of the pressure at the nodes around each cell."""
        p: NDArray[Any] = self.pressure.ghosted
        nz, ny, nx = self.block.shape_local
        g = self.pressure.block.ghost
        steps = (g, g + 1)
        parts = [p[k : k + nz, j : j + ny, i : i + nx] for k in steps for j in steps for i in steps]
        total = parts[0].copy()
        for part in parts[1:]:
            total += part
        return np.asarray(0.125 * total)

    def largest_divergence(self) -> float:
        """Return the largest divergence of the face velocities of the last step in this block."""
        return self._projections.largest_divergence(self._faces)

    def speeds(self) -> tuple[float, float, float]:
        """Return the largest |u_i|, the largest |u_i| / width, and the largest eddy diffusivity. Collective.

        The last one is that of the last call of `fill`, the larger of 2 nu_t and kappa_t.
        """
        eddy = 0.0 if self._terms is None else self._terms.largest_diffusivity()
        speed, rate, diffusivity = map(float, allreduce_max(self._comm, [*self._largest_speeds(), eddy]))
        self._speed, self._rate = speed, rate
        return speed, rate, diffusivity

    def start(self) -> None:
        """Make an initial velocity free of divergence, by the nodal projection. Collective."""
        self.speeds()
        self._clear(self._pressure)
        self._project(self._now, 1.0, self.time, last=False)

    def guess_pressure(self, dt: float) -> None:
        """Let the pressure be that of a step of length dt, which is not kept. Collective."""
        kept = [q.owned.copy() for q in self.fields]
        time = self.time
        self.advance(dt)
        self.time = time
        for q, old in zip(self.fields, kept, strict=True):
            q.owned[...] = old

    # ---- a step ----

    def advance(self, dt: float, is_ready: bool = False) -> None:
        """Advance by one step of length dt. Collective.

        is_ready: whether `fill` and `speeds` have been called for the present fields and time, as a model does that
        chooses dt by them.
        """
        if not is_ready:
            self.fill()
            self.speeds()
        self._dt = dt
        if self._terms is not None:
            self._forces = self._terms.forces(self._sets[self._now], dt)
        if self.problem.godunov:
            self._advance_godunov(dt)
        else:
            self._advance_lines(dt)
        self.time += dt

    def _advance_godunov(self, dt: float) -> None:
        now, other, end = self._now, 1 - self._now, self.time + dt
        new = self._sets[other]
        self._set_tendencies(now, self._tendencies)
        if self._sides_vary:  # the states at faces are those in the middle of the step
            self._side_time = self.time + 0.5 * dt
            self.fill_sides(now)
        if self.problem.implicit:
            self._advect(now, new, dt, (0.0, dt))
            self._solve_diffusion(now, new, dt)
            if self._sides_vary:
                self._side_time = self.time
                self.fill_sides(now)
            self._set_tendencies(now, self._tendencies, False)
            self._add_eddy_diffusion_of(other, end)
        else:
            self._advect(now, new, dt, (1.0, dt))
        self.fill(other, end)
        self._set_tendencies(other, self._later, not self.problem.implicit, True)
        with self._regions("tendencies"):
            for q, later, first in zip(new, self._later, self._tendencies, strict=True):
                self._add_difference(q, 0.5 * dt, later, first)
        self._project(other, dt, end)
        self._now = other

    def _add_eddy_diffusion_of(self, other: int, time: float) -> None:
        """Add the eddy diffusion of the predicted fields with the viscosities of the present ones to the tendencies.

        Heun's corrector then holds the change of the viscosities alone: Crank-Nicolson's scheme has the rest.
        """
        if self._terms is not None and self._terms.viscosity is not None:
            self.fill(other, time, prepares=False)
            self._terms.add_eddy_diffusion(self._sets[other], self._tendencies)

    def _advance_lines(self, dt: float) -> None:
        """Advance by Heun's scheme, with the states at faces at the times of the fields."""
        now, other, end = self._now, 1 - self._now, self.time + dt
        fields, new = self._sets[now], self._sets[other]
        self._set_tendencies(now, self._tendencies)
        self._advect(now, self._later, 0.0, (0.0, 1.0))
        for q, rate, target in zip(fields, self._later, new, strict=True):
            self._combine(q, dt, rate, 0.0, rate, target)
        if self.problem.implicit:
            for rate in self._later:
                rate.owned[...] = dt * owned(rate)
            self._solve_diffusion(now, self._later, dt, new)
            for rate in self._later:
                rate.owned[...] = owned(rate) / dt
        self._project(other, dt, end, last=False)
        self.fill(other, end)
        self._set_tendencies(other, self._tendencies)
        self._advect(other, self._rates, 0.0, (0.0, 1.0))
        if self.problem.implicit:
            # Crank-Nicolson's scheme has the diffusion of the first fields alone on the right side.
            for number, rate in enumerate(self._rates):
                for source, sign in ((now, 1.0), (other, -1.0)):
                    self._set_diffusion(number, source, self._tendencies[number])
                    owned(rate)[...] += sign * owned(self._tendencies[number])
            for rate, first in zip(self._rates, self._later, strict=True):
                rate.owned[...] = (0.5 * dt) * (owned(first) + owned(rate))
            self._solve_diffusion(now, self._rates, dt, fields)
        else:
            for q, first, second in zip(fields, self._later, self._rates, strict=True):
                half = 0.5 * dt
                self._combine(q, half, first, half, second, q)
        self._project(now, dt, end)

    def _set_tendencies(
        self, which: int, out: tuple[BlockArray, ...], with_diffusion: bool = True, keeps_eddies: bool = False
    ) -> None:
        """Set the tendencies of all fields of a set after `fill`, at the time of the sides.

        keeps_eddies: whether eddy diffusion is in the tendencies without diffusion as well.
        """
        fields = self._sets[which]
        with self._regions("tendencies"):
            self._set_momentum(fields, self.problem.viscosity if with_diffusion else 0.0, out)
            for number in range(3, len(fields)):
                if with_diffusion:
                    self._set_diffusion(number, which, out[number])
                else:
                    self._clear(out[number])
            if with_diffusion:
                self._add_side_fluxes(out)
            if self._terms is not None:
                self._terms.add(fields, out, self._side_time, self._dt)
                if with_diffusion or keeps_eddies:
                    self._terms.add_eddy_diffusion(fields, out)

    def fill(self, which: int | None = None, time: float | None = None, prepares: bool = True) -> None:
        """Fill the ghosts of a set of fields at a time, by default of the present ones. Collective.

        prepares: whether eddy viscosities are set as well.
        """
        which = self._now if which is None else which
        fields = self._sets[which]
        self._side_time = self.time if time is None else time
        with self._regions("exchange"):
            self._field_halo.exchange(which)
        with self._regions("tendencies"):
            self.fill_sides(which)
            if prepares and self._terms is not None:
                self._terms.prepare(fields)
                for field in (self._terms.viscosity, self._terms.diffusivity):
                    if field is not None:
                        self._extend(field, range(3))

    def _advect(
        self, which: int, out: tuple[BlockArray, ...], dt: float, factors: tuple[float, float]
    ) -> None:
        """Set out = factors[0] fields + factors[1] (tendencies - div(u fields)), with states at faces dt/2 later."""
        fields, regions = self._sets[which], self._regions
        numbers = np.array(
            [*(dt * r for r in self._per_width), *self._per_width, 0.5 * dt, SMALL * self._speed, *factors]
        )
        with regions("exchange"):
            self._tendency_halo.exchange()
        with regions("face prediction"):
            for field in self._tendencies:
                self._extend(field, range(3))
            self._predict_faces(fields, numbers)
        self._project_faces()
        with regions("advection"):
            for number, (q, force, target) in enumerate(zip(fields, self._tendencies, out, strict=True)):
                self._advect_field(number, q, force, numbers, target)

    def _project_faces(self) -> None:
        """Make the face velocities free of divergence, and fill their ghosts."""
        with self._regions("MAC projection"):
            self._projections.project_faces(self._faces, self._rate)
        with self._regions("exchange"):
            self._face_halo.exchange()
            # The faces on upper sides are beyond the cells that an exchange sends: they have one of their own.
            for axis, (layer, halo) in self._outflow_faces.items():
                faces = self._faces[axis].ghosted[inside_axis(axis, self.block.shape_local[axis])]
                layer.owned[...] = faces[inside_others(axis)]
                halo.exchange()
                if (axis, True) in self._sides:
                    faces[...] = layer.ghosted[(slice(None),) * axis + (slice(GHOST, -GHOST),)]
        with self._regions("face prediction"):
            for axis, face in enumerate(self._faces):
                if (axis, True) in self._sides and axis not in self._outflow_faces:
                    value = self._value_at(normal_field(axis), axis, True)
                    self._set_last_faces(face, axis, value)
                self._extend(face, [d for d in range(3) if d != axis])

    def _set_last_faces(self, face: BlockArray, axis: int, value: Any) -> None:
        """Set the velocities across an upper side, on which no exchange sends them."""
        plane(face.ghosted, axis, GHOST + self.block.shape_local[axis])[...] = value

    def _project(self, which: int, dt: float, time: float, last: bool = True) -> None:
        """Make the velocity of a set approximately free of divergence, with sides of a time.

        last: whether the pressure is kept.
        """
        velocity, p, projections = self._sets[which][:3], self._pressure, self._projections
        self._side_time = time
        with self._regions("nodal projection"):
            projections.add_gradient(p, dt, velocity)
        with self._regions("exchange"):
            self._velocity_halo.exchange(which)
        with self._regions("nodal projection"):
            for axis, end in self._sides:
                side = self.problem.at(axis, end)
                assert side is not None
                if side.inflow:  # what flows through the side counts; other ghosts beyond sides do not
                    number = normal_field(axis)
                    planes(velocity[number], axis, end, 1)[0][...] = self._value_at(number, axis, end)
            phi = projections.project_velocity(velocity, p, dt, self._rate)
            if last:
                self._scale(phi, 1.0 / dt, p)

    def _solve_diffusion(
        self, which: int, rates: tuple[BlockArray, ...], dt: float, out: tuple[BlockArray, ...] | None = None
    ) -> None:
        """Set out to the fields of a set and x, where (1 - dt/2 L) x = rates. out: the rates themselves if None."""
        with self._regions("implicit diffusion"):
            for number, (q, b, target) in enumerate(zip(self._sets[which], rates, out or rates, strict=True)):
                kappa = self.problem.diffusivity(number)
                eddies = None if self._terms is None else self._terms.eddy_coefficient(number)
                if eddies is not None:
                    factor, field = eddies
                    beta: Any = (0.5 * dt) * (kappa + factor * owned(field))
                    x = self._projections.solve_diffusion(number, beta, b)
                elif kappa:
                    x = self._projections.solve_diffusion(number, 0.5 * dt * kappa, b)
                else:
                    target.owned[...] = owned(q) + owned(b)
                    continue
                target.owned[...] = owned(q) + x

    # ---- sides ----

    def _mirrors_of(self, fields: tuple[BlockArray, ...]) -> list[tuple[int, int, bool, Any, Any]]:
        """Return field, axis and end of each side of a set, its ghosts, and the cells inside that they mirror."""
        found = []
        for axis, last in self._sides:
            for number, field in enumerate(fields):
                along: NDArray[Any] = np.moveaxis(field.ghosted, axis, 0)
                along = along[::-1] if last else along
                found.append((number, axis, last, along[:GHOST], along[2 * GHOST - 1 : GHOST - 1 : -1]))
        return found

    def fill_sides(self, which: int) -> None:
        """Fill the ghosts beyond the sides of a set, from the cells inside and the values at the sides."""
        for number, axis, last, ghosts, inside in self._mirrors[which]:
            side = self.problem.at(axis, last)
            assert side is not None
            if side.fields[number].fixed:
                np.subtract(2.0 * self._value_at(number, axis, last), inside, out=ghosts)
            else:
                ghosts[...] = inside

    def _extend(self, field: BlockArray, axes: Any) -> None:
        """Copy the cells at the sides across some axes into the first ghosts beyond."""
        for axis, last in self._sides:
            if axis in axes:
                ghost, inside = planes(field, axis, last, 1)
                ghost[...] = inside

    def _value_at(self, number: int, axis: int, last: bool) -> Any:
        """Return what a field has at a side, on the faces of this block with ghosts around."""
        side = self.problem.at(axis, last)
        assert side is not None
        value = side.fields[number].value
        if not callable(value):
            return value
        sizes = []
        places: dict[str, Any] = {
            "zyx"[axis]: self.problem.shape[axis] * self.problem.widths[axis] if last else 0.0
        }
        along = [d for d in range(3) if d != axis]
        for d in along:
            n = self.problem.shape[d]
            index = self.block.offset_global[d] + np.arange(-GHOST, self.block.shape_local[d] + GHOST)
            index = index % n if self.problem.periodic[d] else index.clip(0, n - 1)
            sizes.append(len(index))
            centres = (index + 0.5) * self.problem.widths[d]
            places["zyx"[d]] = centres[:, None] if d == along[0] else centres
        return np.broadcast_to(evaluate_side(value, places, self._side_time), sizes)

    def _add_side_fluxes(self, out: tuple[BlockArray, ...]) -> None:
        """Add the fluxes through the sides to the tendencies of the cells there."""
        inner = (slice(GHOST, -GHOST),) * 2
        for axis, last in self._sides:
            side = self.problem.at(axis, last)
            assert side is not None
            for number, condition in enumerate(side.fields):
                if condition.fixed or (not callable(condition.value) and condition.value == 0.0):
                    continue
                flux = np.asarray(self._value_at(number, axis, last))
                flux = flux[inner] if flux.ndim == 2 else flux
                cells = plane(out[number].owned, axis, -1 if last else 0)
                cells += flux * self._per_width[axis]


def inside_axis(axis: int, n: int) -> tuple[slice, ...]:
    """Return the place of the faces beyond the n cells of a block along an axis, with ghosts along the others."""
    return (slice(None),) * axis + (slice(GHOST + n, GHOST + n + 1),)


def inside_others(axis: int) -> tuple[slice, ...]:
    """Return the place of what is owned along the axes other than this one."""
    return tuple(slice(None) if d == axis else slice(GHOST, -GHOST) for d in range(3))


def plane(values: NDArray[Any], axis: int, index: int) -> NDArray[Any]:
    """Return a plane of an array across an axis, a view."""
    return values[(slice(None),) * axis + (index,)]


def planes(field: BlockArray, axis: int, last: bool, distance: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the plane of ghosts at a distance from a side, from 1, and that of the cells mirrored at the side."""
    ghosted, ghost = field.ghosted, field.block.ghost
    if last:
        edge = ghosted.shape[axis] - ghost
        return plane(ghosted, axis, edge + distance - 1), plane(ghosted, axis, edge - distance)
    return plane(ghosted, axis, ghost - distance), plane(ghosted, axis, ghost + distance - 1)


def owned(field: BlockArray) -> NDArray[Any]:
    """Return the owned cells of a field, typed for arithmetic."""
    return field.owned
