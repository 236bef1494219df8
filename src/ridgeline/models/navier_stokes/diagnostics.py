"""The diagnostics of a Navier-Stokes run: the numbers in one row of the time series.

    diagnostics = Diagnostics(comm, grid, geometry, viscosity, walls, axis, scalars)     # once
    diagnostics.series(velocity, scalars, dt, courant_rate, force, iterations, fluxes) -> {column: number}
    diagnostics.bulk_quantities(velocity, scalars) -> {column: number}                     # without derivatives
    locate_nonfinite(comm, grid, geometry, {name: [E, n, n, n]}) -> str | None

velocity: [3, E, n, n, n]; scalars: [s, E, n, n, n], float64. The density is 1. Averages <.> are over the volume V, by
the quadrature of the elements. With A the area of all walls and nu the viscosity:

    kinetic_energy    <u.u>/2              dissipation   2 nu <S:S>, S the rate of strain
    enstrophy         <w.w>/2              divergence    sqrt(<(div u)^2>)
    wall_shear        tau_a, mean over the walls; a: the axis of the flow. tau = -nu (grad u + grad u^T) n, n out of
                      the fluid, is the traction on the wall. Without an axis, the mean of its size along the wall.
                      wall_shear_y_min, ...: the same for each wall
    hydraulic_diameter D = 4 V/A           re_tau        sqrt(|tau|) h/nu
    friction_factor   f = 8 tau/U^2        f_re          f U D/nu, with the bulk velocity U = <u_a>
    force_friction_factor, force_f_re      the same with the shear F V/A that balances the driving force F

h is D/2 between walls across two directions (half the side of a square duct), and V/A between walls across one
direction (half the gap of a channel). Scalars have mean, min and max, and where walls heat the fluid (kinds "fixed"
and "flux"):

    scalar_0_flux     q = k dT/dn, mean over these walls, into the fluid
    scalar_0_bulk     T_b = <u_a T>/U, or <T> without an axis or a flow along it
    scalar_0_nusselt  q D / (k (T_w - T_b)), T_w the mean over these walls; not between a hot and a cold wall

Scalars that act on the flow have also, for each of these walls, scalar_0_flux_y_min, ... Between opposite walls at a
distance H, fixed at T_0 and T_1, conduction alone gives the flux k (T_0 - T_1)/H. The ratios to it:

    scalar_0_nusselt_y_min, ..._y_max   of the fluxes through both
    scalar_0_nusselt_y                  of the flux through the volume: 1 + <u_y T> H/(k (T_0 - T_1))

Tractions and heat fluxes are those that a step leaves at the sides (side_fluxes.py), and those of gradients where no
step has led to the flow. `differences` compares both.

With an axis there are also bulk_velocity U and peak_velocity, the largest u_a. A number is 0 where it has no meaning.
Sums have the same bits on any number of ranks. Re_tau and friction are those of a flow between walls, as in a channel
or a duct (`between_walls`); the summary of a run leaves them out elsewhere, as in a cavity or behind a cylinder.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.geometry import MOST_FACES, ElementGeometry
from ridgeline.elements.mesh import ElementGrid, side_axis
from ridgeline.models.contract import Metric
from ridgeline.models.navier_stokes.derivatives import element_chunks, velocity_gradient, vorticity
from ridgeline.models.navier_stokes.side_fluxes import SideFlux, heat_by_gradients, traction_by_gradients
from ridgeline.parallel.allreduce import allreduce_max, allreduce_min, allreduce_sums, broadcast_first

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[np.float64]
AXES = ("x", "y", "z")
FLAT = 1e-8  # share of the area of walls below which they do not stand across a direction
ROUNDING = 1e-12  # a sum is taken for 0 if it is less than this share of the parts that cancel in it
SUMMARY_UNITS = {
    "kinetic_energy": "length^2/time^2",
    "dissipation": "length^2/time^3",
    "bulk_velocity": "length/time",
    "peak_velocity": "length/time",
    "re_tau": "",
    "friction_factor": "",
    "f_re": "",
    "courant": "",
    "divergence": "1/time",
}
BETWEEN_WALLS = ("re_tau", "friction_factor", "f_re")  # only for flows between walls


@dataclass(frozen=True)
class DiagnosedScalar:
    """What the diagnostics of a scalar need: its diffusivity, and the sides that heat the fluid.

    active: whether it acts on the flow; axes: those along which it then conducts between two sides, see
    `NavierStokesSettings.conduction_axes`.
    """

    diffusivity: float
    heated: tuple[str, ...] = ()
    active: bool = False
    axes: tuple[int, ...] = ()


class WallFluxes(NamedTuple):
    """Fluxes of a flow at sides, by names: the traction on walls, and the heat flux of each scalar."""

    traction: Mapping[str, SideFlux]
    heat: Sequence[Mapping[str, SideFlux]]


class Diagnostics:
    """Computes the diagnostics of a flow. The constructor and all methods are collective over comm.

    walls: names of the sides of kinds "wall" and "moving-wall"; axis: 0, 1, 2 (x, y, z) along which the flow is
    driven or runs, None without such an axis.

    wall_directions: how many of x, y, z walls stand across; between_walls: whether there are walls, all of them along
    the axis of the flow.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        geometry: ElementGeometry,
        viscosity: float,
        walls: Sequence[str] = (),
        axis: int | None = None,
        scalars: Sequence[DiagnosedScalar] = (),
    ) -> None:
        self.comm, self.grid, self.geometry, self.viscosity = comm, grid, geometry, viscosity
        self.walls, self.axis, self.scalars = walls, axis, scalars
        (self.volume,) = self._sums([self._integral(1.0)])
        self.wall_area = sum(self._areas(walls).values())
        across = np.zeros(3)  # area of the walls across x, y and z
        for name in walls:
            across += np.abs(geometry.sides[name].normal_area).sum(axis=(0, 2, 3))
        across = np.asarray(comm.allreduce(across))
        if grid.mesh.regular:
            self.wall_directions = len({side_axis(name)[0] for name in walls})
        else:
            self.wall_directions = int((across > FLAT * across.max()).sum())
        self.between_walls = False
        if axis is not None and walls:
            self.between_walls = bool(across[axis] <= FLAT * across.max())

    def _sums(self, per_element: Sequence[Array]) -> list[float]:
        """Return sums over all ranks of arrays with a number for each of some elements, or of some of their faces."""
        return [
            float(s) for s in allreduce_sums(self.comm, per_element, MOST_FACES * self.grid.n_elements_global)
        ]

    def _integral(self, values: Array | float, elements: slice = slice(None)) -> Array:
        """Return the integral of point values over each of some elements."""
        mass = self.geometry.mass[elements]
        return np.asarray((mass * values).reshape(len(mass), -1).sum(axis=1))

    def _areas(self, sides: Sequence[str]) -> dict[str, float]:
        areas = [self.geometry.sides[name].area.sum(axis=(1, 2)) for name in sides]
        return dict(zip(sides, self._sums(areas)))

    @property
    def hydraulic_diameter(self) -> float:
        """D = 4 V/A of all walls; 0 without walls."""
        return _ratio(4.0 * self.volume, self.wall_area)

    @property
    def half_height(self) -> float:
        """The length h of Re_tau: D/2 between walls across two directions, V/A across one direction."""
        return self.hydraulic_diameter / (4.0 if self.wall_directions == 1 else 2.0)

    def bulk_quantities(self, velocity: Array, scalars: Array) -> dict[str, float]:
        """Return the numbers without derivatives: energy, mean velocity, bulk velocity, scalars. Two passes."""
        sums = [self._integral(0.5 * (velocity**2).sum(axis=0)), *(self._integral(u) for u in velocity)]
        sums += [self._integral(theta) for theta in scalars]
        energy, *means = (s / self.volume for s in self._sums(sums))
        row = {"kinetic_energy": energy}
        row |= {f"mean_velocity_{a}": mean for a, mean in zip(AXES, means)}
        if self.axis is not None:
            row["bulk_velocity"] = means[self.axis]
            row["peak_velocity"] = float(allreduce_max(self.comm, float(velocity[self.axis].max())))
        extremes = [(float(theta.min()), float(theta.max())) for theta in scalars]
        for i, (low, high) in enumerate(extremes):
            row[f"scalar_{i}_mean"] = means[3 + i]
            row[f"scalar_{i}_min"] = float(allreduce_min(self.comm, low))
            row[f"scalar_{i}_max"] = float(allreduce_max(self.comm, high))
        return row

    def series(
        self,
        velocity: Array,
        scalars: Array,
        dt: float,
        courant_rate: float,
        force: Sequence[float] = (0.0, 0.0, 0.0),
        iterations: Mapping[str, float] | None = None,
        fluxes: WallFluxes | None = None,
        viscosity: Array | None = None,
    ) -> dict[str, float]:
        """Return a row of the time series; always the same columns.

        dt: last time step, 0 before the first; courant_rate: Courant number of this flow over dt; force: the
        driving force (x, y, z), with that of a flow rate; iterations: of the last step's solves, by name; fluxes: of
        the flow at the walls and the heated sides, those of gradients by default; viscosity: at the points, if it
        varies.
        Cost: gradients of velocity in all elements, in NumPy.
        """
        fluxes = self.fluxes_by_gradients(velocity, scalars) if fluxes is None else fluxes
        row = self.bulk_quantities(velocity, scalars)
        row |= {"dt": dt, "courant": dt * courant_rate}
        row |= self._gradient_quantities(velocity, viscosity)
        row |= {f"force_{a}": float(f) for a, f in zip(AXES, force)}
        if self.walls:
            bulk, speed = row.get("bulk_velocity", 0.0), math.sqrt(2.0 * max(row["kinetic_energy"], 0.0))
            row |= self._wall_quantities(fluxes.traction, _unless_rounding(bulk, speed), force)
        for i, theta in enumerate(scalars):
            if self.scalars[i].heated:
                row |= self._heat_quantities(f"scalar_{i}_", theta, self.scalars[i], velocity, fluxes.heat[i])
        row |= {f"iterations_{name}": float(n) for name, n in (iterations or {}).items()}
        return row

    def _gradient_quantities(self, velocity: Array, viscosity: Array | None) -> dict[str, float]:
        strain, rotation, divergence = (np.empty(self.grid.n_elements) for _ in range(3))
        for chunk in element_chunks(self.grid.n_elements, self.grid.n**3):
            gradient = velocity_gradient(self.geometry, velocity, chunk)
            symmetric = 0.5 * (gradient + gradient.swapaxes(0, 1))
            here = self.viscosity if viscosity is None else viscosity[chunk]
            strain[chunk] = self._integral(here * (symmetric**2).sum(axis=(0, 1)), chunk)
            rotation[chunk] = self._integral((vorticity(gradient) ** 2).sum(axis=0), chunk)
            divergence[chunk] = self._integral((gradient[0, 0] + gradient[1, 1] + gradient[2, 2]) ** 2, chunk)
        s, w, d = (total / self.volume for total in self._sums([strain, rotation, divergence]))
        return {
            "dissipation": 2.0 * s,
            "enstrophy": 0.5 * w,
            "divergence": math.sqrt(d) if d >= 0 else d,
        }

    def fluxes_by_gradients(self, velocity: Array, scalars: Array) -> WallFluxes:
        """Return the fluxes at the walls and the heated sides that gradients there give. No communication."""
        geometry, sides = self.geometry, self.geometry.sides
        traction = {
            name: traction_by_gradients(geometry, self.viscosity, sides[name], velocity)
            for name in self.walls
        }
        heat = [
            {
                name: heat_by_gradients(geometry, scalar.diffusivity, sides[name], theta)
                for name in scalar.heated
            }
            for scalar, theta in zip(self.scalars, scalars)
        ]
        both = [{name: SideFlux(flux, flux) for name, flux in each.items()} for each in (traction, *heat)]
        return WallFluxes(both[0], both[1:])

    def differences(self, fluxes: WallFluxes) -> dict[str, Metric]:
        """Return how much the fluxes differ from those of gradients, over their size.

        Both are sums over the faces of elements, of the sizes of their fluxes.
        """
        named: dict[str, list[SideFlux]] = {}
        if self.between_walls:
            named["wall_shear_difference"] = [fluxes.traction[name] for name in self.walls]
        for i, scalar in enumerate(self.scalars):
            if scalar.heated:
                named[f"scalar_{i}_flux_difference"] = [
                    SideFlux(flux.value[None], flux.by_gradients[None])
                    for flux in (fluxes.heat[i][name] for name in scalar.heated)
                ]
        figures = {}
        for name, every in named.items():
            sizes = [
                np.sqrt((part.sum(axis=(2, 3)) ** 2).sum(axis=0))
                for flux in every
                for part in (flux.value - flux.by_gradients, flux.value)
            ]
            sums = self._sums(sizes)
            figures[name] = Metric(_ratio(sum(sums[::2]), sum(sums[1::2])))
        return figures

    def _wall_quantities(
        self, tractions: Mapping[str, SideFlux], bulk: float, force: Sequence[float]
    ) -> dict[str, float]:
        shears = dict(zip(self.walls, self._sums([self._shear(name, tractions) for name in self.walls])))
        areas = self._areas(self.walls)
        shear = _ratio(sum(shears.values()), self.wall_area)
        figures = {"wall_shear": shear}
        figures |= {f"wall_shear_{name}": _ratio(shears[name], areas[name]) for name in self.walls}
        figures["re_tau"] = math.sqrt(abs(shear)) * self.half_height / self.viscosity
        if self.axis is not None:
            balance = force[self.axis] * self.volume / self.wall_area
            for name, tau in (("", shear), ("force_", balance)):
                figures[f"{name}friction_factor"] = _ratio(8.0 * tau, bulk**2)
                figures[f"{name}f_re"] = _ratio(8.0 * tau * self.hydraulic_diameter, bulk * self.viscosity)
        return figures

    def _shear(self, name: str, tractions: Mapping[str, SideFlux]) -> Array:
        """Return the integral of the wall shear over each face of a side."""
        traction = tractions[name].value
        if self.axis is not None:
            return np.asarray(-traction[self.axis].sum(axis=(1, 2)))
        side = self.geometry.sides[name]
        normal = (side.normal_area / side.area[:, None]).swapaxes(0, 1)
        along = traction - normal * (traction * normal).sum(axis=0)
        return np.asarray(np.sqrt((along**2).sum(axis=0)).sum(axis=(1, 2)))

    def _heat_quantities(
        self,
        name: str,
        theta: Array,
        scalar: DiagnosedScalar,
        velocity: Array,
        heat: Mapping[str, SideFlux],
    ) -> dict[str, float]:
        sides = [self.geometry.sides[side] for side in scalar.heated]
        fluxes = [heat[side].value.sum(axis=(1, 2)) for side in scalar.heated]
        values = [(side.area * side.take(theta)).sum(axis=(1, 2)) for side in sides]
        areas = self._areas(scalar.heated)
        area = sum(areas.values())
        sums = self._sums([*fluxes, *values])
        flux = _ratio(sum(sums[: len(sides)]), area)
        wall = _ratio(sum(sums[len(sides) :]), area)
        along = np.ones_like(theta) if self.axis is None else velocity[self.axis]
        carried, flow, through, mean = self._sums(
            [self._integral(values) for values in (along * theta, along, np.abs(along), theta)]
        )
        bulk = carried / flow if _unless_rounding(flow, through) else mean / self.volume
        diameter = self.hydraulic_diameter or _ratio(4.0 * self.volume, area)
        nusselt = _ratio(
            flux * diameter, scalar.diffusivity * _unless_rounding(wall - bulk, abs(wall) + abs(bulk))
        )
        figures = {"flux": flux, "wall": wall, "bulk": bulk}
        if not scalar.axes:  # with axes, one wall takes what the other gives
            figures["nusselt"] = nusselt
        if scalar.active:
            each = dict(zip(areas, zip(sums, sums[len(sides) :])))
            means = {side: (_ratio(f, areas[side]), _ratio(w, areas[side])) for side, (f, w) in each.items()}
            figures |= {f"flux_{side}": mean for side, (mean, _) in means.items()}
            for axis in scalar.axes:
                figures |= self._nusselt_numbers(axis, theta, velocity[axis], scalar.diffusivity, means)
        return {name + key: value for key, value in figures.items()}

    def _nusselt_numbers(
        self,
        axis: int,
        theta: Array,
        velocity: Array,
        diffusivity: float,
        means: Mapping[str, tuple[float, float]],
    ) -> dict[str, float]:
        """Return the Nusselt numbers along an axis. means: of the flux and of T at sides, by name."""
        low, high = f"{AXES[axis]}_min", f"{AXES[axis]}_max"
        (low_flux, low_wall), (high_flux, high_wall) = means[low], means[high]
        conducted = diffusivity * (low_wall - high_wall) * self._areas([low])[low] / self.volume
        (carried,) = self._sums([self._integral(velocity * (theta - 0.5 * (low_wall + high_wall)))])
        return {
            f"nusselt_{low}": _ratio(low_flux, conducted),
            f"nusselt_{high}": _ratio(-high_flux, conducted),
            f"nusselt_{AXES[axis]}": 1.0 + carried / (self.volume * conducted) if conducted else 0.0,
        }


def _unless_rounding(total: float, parts: float) -> float:
    """Return a sum, or 0 if it is only the rounding of the parts that cancel in it."""
    return 0.0 if abs(total) <= ROUNDING * parts else total


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def summarise(row: Mapping[str, float], between_walls: bool) -> dict[str, Metric]:
    """Return the most important numbers of a row of the series, with units. No communication."""
    left_out = () if between_walls else BETWEEN_WALLS
    units = {name: unit for name, unit in SUMMARY_UNITS.items() if name in row and name not in left_out}
    for name in row:
        quantity = re.fullmatch(r"scalar_\d+_(mean|min|max|nusselt(?:_[xyz])?)", name)
        if quantity:
            units[name] = "" if quantity[1].startswith("nusselt") else "scalar"
    return {name: Metric(row[name], unit) for name, unit in units.items()}


def locate_nonfinite(
    comm: MPI.Comm, grid: ElementGrid, geometry: ElementGeometry, fields: Mapping[str, Array]
) -> str | None:
    """Say where a field [E, n, n, n] is not finite, the same on all ranks; None if all are finite. Collective."""
    place = None
    for name, values in fields.items():
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad) and place is None:
            e, k, j, i = np.unravel_index(bad[0], values.shape)
            x, y, z = geometry.coordinates[:, e, k, j, i]
            element = grid.mesh.name_of(grid.positions[e])
            place = f"{name} at x={x:.6g}, y={y:.6g}, z={z:.6g} in {element}"
    return broadcast_first(comm, place)
