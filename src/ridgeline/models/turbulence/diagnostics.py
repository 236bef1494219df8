"""The figures of a turbulence run: one row of the time series, and its profiles (spectra and densities).

Definitions, for velocity u of fluctuating energy E' (without mean flow), u' = sqrt(2 E' / 3), vorticity w,
enstrophy Z = <w.w> / 2 and viscosity nu (Pope, Turbulent Flows, 2000, Secs. 5.3, 6.1 and 6.3-6.5):

    dissipation       eps = 2 nu Z                   taylor_scale        lambda = u' sqrt(15 / (2 Z))
    kolmogorov_scale  eta = (nu^3 / eps)^(1/4)       reynolds_taylor     R_lambda = u' lambda / nu
    integral_scale    L = pi / (2 u'^2) sum E / k    eddy_turnover_time  L / u'

A figure that has no meaning, in a fluid at rest or without viscosity, is 0. Figures are NaN only if a field is not
finite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.modes import Modes, Shells
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.models.contract import Metric, Profile
from ridgeline.models.turbulence import kernels_diagnostics
from ridgeline.models.turbulence.gradients import (
    AXES,
    BIN_EDGES,
    GradientStatistics,
    gradient_statistics,
)
from ridgeline.models.turbulence.kernels_diagnostics import first_nonfinite, offsets_along
from ridgeline.models.turbulence.passes import Fields, FlowPasses
from ridgeline.models.turbulence.pressure import (
    DEVIATIONS,
    PressureStatistics,
    pressure_spectrum,
    pressure_statistics,
    products,
)
from ridgeline.models.turbulence.problem import NO_DAMPING, NO_WAVES, Damping, FlowParameters, Waves
from ridgeline.models.turbulence.recorders import state_names
from ridgeline.models.turbulence.spectra import Sums, largest_sphere, structure_functions, sum_over_modes
from ridgeline.parallel.allreduce import allreduce_sums, kernels_of_sums

if TYPE_CHECKING:
    from mpi4py import MPI

SUMMARY_UNITS = {
    "energy": "length^2/time^2",
    "dissipation": "length^2/time^3",
    "u_rms": "length/time",
    "integral_scale": "length",
    "kolmogorov_scale": "length",
    "reynolds_taylor": "",
    "k_max_eta": "",
    "divergence": "",
}


@dataclass(frozen=True)
class ScalarParameters:
    """The parameters of a scalar that its figures need.

    diffusivity: nu / Schmidt number; mean_gradient: (G_x, G_y, G_z) of the mean scalar; schmidt: the number, by which
    hyperviscosity is divided too.
    """

    diffusivity: float
    mean_gradient: tuple[float, float, float] = (0.0, 0.0, 0.0)
    schmidt: float = 1.0


def scalar_parameters(flow: FlowParameters) -> list[ScalarParameters]:
    """Return the parameters of a flow's scalars; buoyancy over N has the mean gradient (0, 0, N)."""
    gradients = list(flow.mean_gradients)
    if flow.waves.stratified:
        gradients[0] = 0.0, 0.0, flow.waves.brunt_vaisala
    return [
        ScalarParameters(kappa, gradient, schmidt)
        for kappa, gradient, schmidt in zip(flow.diffusivities[1:], gradients, flow.schmidt)
    ]


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Computes the figures of spectral fields. All methods are collective over comm unless they say otherwise.

    passes: over the fields where the engine holds them; scalars: in the order of the fields; waves: of rotation and
    stratification, for the pressure; damping: beside viscosity, whose figures exist only if it does.
    """

    comm: MPI.Comm
    passes: FlowPasses
    viscosity: float
    scalars: Sequence[ScalarParameters] = ()
    waves: Waves = NO_WAVES
    damping: Damping = NO_DAMPING

    def series(self, fields: Fields, dt: float) -> dict[str, float]:
        """Return one row of the time series, equal on all ranks; its columns are the same in every row.

        fields: 3 + S; dt: length of the last time step, 0 before the first. The columns are those of `flow_figures`,
        dt, courant, and those of `gradient_figures`, `pressure_figures`, `scalar_figures` and damping. Cost: 9
        transforms for the gradients; for the pressure 9, or 18 with phase shifts, and another one.
        """
        sums = sum_over_modes(self.comm, fields, self.passes)
        gradients = gradient_statistics(self.comm, fields[:3], self.passes)
        of_products = products(self.comm, fields, self.passes, self.waves)
        pressure = pressure_statistics(self.comm, of_products.pressure, self.passes)
        return {
            **flow_figures(sums, self.viscosity, self.passes.modes),
            "dt": dt,
            "courant": dt * of_products.courant_rate,
            **gradient_figures(gradients),
            **pressure_figures(pressure),
            **self._scalar_figures(sums),
            **self._damping_figures(fields, sums),
        }

    def mode_figures(self, fields: Fields) -> dict[str, float]:
        """Return the columns of `series` that need no transform: one pass over the modes."""
        sums = sum_over_modes(self.comm, fields, self.passes)
        of_flow = flow_figures(sums, self.viscosity, self.passes.modes)
        return of_flow | self._scalar_figures(sums) | self._damping_figures(fields, sums)

    def _damping_figures(self, fields: Fields, sums: Sums) -> dict[str, float]:
        """Return what hyperviscosity and drag dissipate, per time: of the energy, and of scalars' variances.

        They are hyperdissipation = <nu_h k^(2p) |u|^2>, scalar_0_hyperdissipation, ..., and drag_dissipation =
        <alpha |u|^2>; the columns are those of what the flow has.
        """
        if not self.damping:
            return {}
        figures: dict[str, float] = {}
        hyper, drag, *of_scalars = allreduce_sums(
            self.comm,
            list(self.passes.sum_damping(fields, self.damping)),
            self.passes.modes.truncation.n_lines,
        )
        if self.damping.hyperviscosity:
            figures["hyperdissipation"] = float(hyper)
            for s, (scalar, total) in enumerate(zip(self.scalars, of_scalars)):
                figures[f"scalar_{s}_hyperdissipation"] = 2 * float(total) / scalar.schmidt
        if self.damping.drag:
            figures["drag_dissipation"] = float(drag) + 2 * self.damping.uniform_rate * sums.energy
        return figures

    def _scalar_figures(self, sums: Sums) -> dict[str, float]:
        figures: dict[str, float] = {}
        for s, scalar in enumerate(self.scalars):
            figures |= scalar_figures(sums.scalars[s], scalar, f"scalar_{s}_")
        return figures

    def profiles(self, fields: Fields) -> dict[str, Profile]:
        """Return spectra over shells of wavenumber and densities over bins, float64, equal on all ranks.

        - Over "k": energy_spectrum E, dissipation_spectrum D = nu k^2 |u|^2 and transfer_spectrum T, with
          dE/dt = T - D in decaying flow; energy_flux, which is minus the sum of T up to k; pressure_spectrum of
          (p/rho)^2; scalar_0_spectrum, ... of theta^2. The sum over a spectrum times the spacing of k is the average
          over the box.
        - Over "separation", along x: longitudinal_structure_2, _3, _4 and transverse_structure_2, _4 (`spectra`).
        - Over "ratio", which is eps / <eps> or Omega / <Omega> at the geometric middle of a bin: dissipation_density,
          enstrophy_density, and the width of the bins, ratio_width.
        - Over "deviation", which is p / p' in the middle of a bin of 1/8: pressure_density.

        Cost: 9 transforms for the densities of gradients; 9, or 18 with phase shifts, for transfer and pressure; 1
        for the density of the pressure; 3 for the structure functions.
        """
        sums = sum_over_modes(self.comm, fields, self.passes)
        gradients = gradient_statistics(self.comm, fields[:3], self.passes)
        of_products = products(self.comm, fields, self.passes, self.waves)
        pressure = pressure_statistics(self.comm, of_products.pressure, self.passes)
        of_pressure = pressure_spectrum(self.comm, of_products.pressure, self.passes)
        over_k = {
            "k": (Shells(self.passes.modes).wavenumbers, "middle of the shell of wavenumbers"),
            "energy_spectrum": (sums.energy_spectrum, "E(k), its integral is the kinetic energy"),
            "dissipation_spectrum": (self.viscosity * sums.gradient_spectrum, "2 nu k^2 E(k)"),
            "transfer_spectrum": (
                of_products.transfer_spectrum,
                "energy that nonlinear terms transfer to k, per time",
            ),
            "energy_flux": (
                -np.cumsum(of_products.transfer_spectrum) * Shells(self.passes.modes).width,
                "energy that nonlinear terms take from the modes up to k, per time",
            ),
            "pressure_spectrum": (of_pressure, "its integral is the variance of p/rho"),
        }
        for s, spectrum in enumerate(sums.scalar_spectra):
            over_k[f"scalar_{s}_spectrum"] = (spectrum, "its integral is the mean square of the scalar")
        over_ratio = {
            "ratio": (np.sqrt(BIN_EDGES[1:] * BIN_EDGES[:-1]), "value over its mean, middle of the bin"),
            "ratio_width": (np.diff(BIN_EDGES), "width of the bin"),
            "dissipation_density": (gradients.dissipation.density, "probability density"),
            "enstrophy_density": (gradients.enstrophy.density, "probability density"),
        }
        over_deviation = {
            "deviation": (DEVIATIONS, "value over its root mean square, middle of the bin"),
            "pressure_density": (pressure.density, "probability density"),
        }
        structure = structure_functions(self.comm, fields[:3], self.passes)
        over_separation = {"separation": (structure.separation, "distance along x")}
        for p, values in zip((2, 3, 4), structure.longitudinal):
            words = f"mean power {p} of the increment of u_x"
            over_separation[f"longitudinal_structure_{p}"] = values, words
        for p, values in zip((2, 4), structure.transverse):
            words = f"mean power {p} of the increments of u_y and u_z"
            over_separation[f"transverse_structure_{p}"] = values, words
        return {
            name: Profile(values, (axis,), description=text)
            for axis, curves in (
                ("k", over_k),
                ("separation", over_separation),
                ("ratio", over_ratio),
                ("deviation", over_deviation),
            )
            for name, (values, text) in curves.items()
        }

    def averaged_numbers(self) -> int:
        """Return how many numbers all curves over "k" and "separation" of `profiles` have. No communication."""
        n_separations = len(offsets_along(self.passes.modes.shape[2]))
        return (5 + len(self.scalars)) * Shells(self.passes.modes).n_shells + 5 * n_separations

    def locate_nonfinite(self, fields: NDArray[Any]) -> str | None:
        """Return the first field and mode, in canonical order, that is not finite; None if all are finite.

        The text is "velocity_y at mode j = (z 3, y -2, x 0)"; the wavenumber of mode j is 2 pi j / length.
        """
        lines = self.passes.modes.lines
        mine: tuple[int, int, tuple[int, int, int]] | None = None
        for number, field in enumerate(fields):
            place = int(first_nonfinite(field))
            if place >= 0:
                line = int(np.searchsorted(lines.start, place, side="right")) - 1
                inside = place - int(lines.start[line])
                most = int(lines.most[line])
                jy = inside if inside <= most else inside - 2 * most - 1
                mode = int(lines.jz[line]), jy, int(lines.jx[line])
                mine = number, int(lines.start_global[line]) + inside, mode
                break
        of_ranks = [each for each in self.comm.allgather(mine) if each is not None]
        if not of_ranks:
            return None
        number, _, (jz, jy, jx) = min(of_ranks)
        return f"{state_names(len(fields) - 3)[number]} at mode j = (z {jz}, y {jy}, x {jx})"


def flow_figures(sums: Sums, viscosity: float, modes: Modes) -> dict[str, float]:
    """Return the figures of the velocity field that follow from sums over modes. No communication.

    They are energy, dissipation, enstrophy, helicity <u.w>, energy_x, energy_y, energy_z (<u_x^2> / 2 and so on, of
    the fluctuations), u_rms = u', the scales of the module's docstring, k_max_eta = k_max (`largest_sphere`) times
    eta, and divergence, the root mean square of div u over that of the velocity gradient.
    """
    flow = sums.flow
    enstrophy = flow["enstrophy"]
    dissipation = 2 * viscosity * enstrophy
    u_rms = math.sqrt(2 / 3 * sums.fluctuation_energy)
    taylor = u_rms * math.sqrt(_ratio(15, 2 * enstrophy))
    kolmogorov = _ratio(viscosity**3, dissipation) ** 0.25
    integral = _ratio(math.pi * flow["energy_length"], 2 * u_rms**2)
    return {
        "energy": sums.energy,
        "dissipation": dissipation,
        "enstrophy": enstrophy,
        "helicity": flow["helicity"],
        **{f"energy_{axis}": flow[f"energy_{axis}"] for axis in AXES},
        "u_rms": u_rms,
        "taylor_scale": taylor,
        "kolmogorov_scale": kolmogorov,
        "integral_scale": integral,
        "eddy_turnover_time": _ratio(integral, u_rms),
        "reynolds_taylor": _ratio(u_rms * taylor, viscosity),
        "k_max_eta": largest_sphere(modes) * kolmogorov,
        "divergence": math.sqrt(_ratio(flow["divergence"], flow["gradient"])),
    }


def gradient_figures(gradients: GradientStatistics) -> dict[str, float]:
    """Return the figures of the velocity gradients: skewness, flatness, and moments of eps and Omega (Eq. 10)."""
    figures = {"skewness": gradients.skewness, "flatness": gradients.flatness}
    for name in ("dissipation", "enstrophy"):
        moments = getattr(gradients, name).moments
        figures |= {f"{name}_moment_{p}": moment for p, moment in zip((2, 3, 4), moments)}
    return figures


def pressure_figures(pressure: PressureStatistics) -> dict[str, float]:
    """Return variance <(p/rho)^2>, skewness and flatness of the pressure, whose mean is zero (Eq. 11)."""
    return {f"pressure_{name}": getattr(pressure, name) for name in ("variance", "skewness", "flatness")}


def scalar_figures(sums: Mapping[str, float], scalar: ScalarParameters, prefix: str = "") -> dict[str, float]:
    """Return variance <theta^2>, its dissipation 2 D <|grad theta|^2> and its production -2 G.<u theta>.

    They are those of the fluctuations; the mean of theta, which never changes, is left out.
    d variance / dt = production - dissipation, and minus that of hyperviscosity. Units: theta^2, and theta^2/time for
    the last two.
    """
    flux = sum(g * sums[f"flux_{axis}"] for g, axis in zip(scalar.mean_gradient, AXES))
    return {
        f"{prefix}variance": sums["variance"],
        f"{prefix}dissipation": 2 * scalar.diffusivity * sums["gradient"],
        f"{prefix}production": 0.0 - 2 * flux,
    }


def summarise(figures: Mapping[str, float]) -> dict[str, Metric]:
    """Return the most important figures of a flow, with units. figures: of `Diagnostics.mode_figures`."""
    units = SUMMARY_UNITS | {name: "scalar^2" for name in figures if name.endswith("_variance")}
    return {name: Metric(figures[name], unit) for name, unit in units.items()}


def _ratio(a: float, b: float) -> float:
    """Return a / b, or 0 if b is 0."""
    return a / b if b else 0.0


def kernels_of_diagnostics(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels of diagnostics and derived outputs without waves. dtype: complex, of the spectral fields."""
    of_modes = [
        kernels_diagnostics.sum_modes,
        kernels_diagnostics.combine_derivatives,
        kernels_diagnostics.streamfunction_modes,
        kernels_diagnostics.shift_modes,
        kernels_diagnostics.add_stress,
        kernels_diagnostics.add_spectrum,
        kernels_diagnostics.first_nonfinite,
    ]
    of_points = [
        kernels_diagnostics.sum_powers,
        kernels_diagnostics.count_octaves,
        kernels_diagnostics.count_evenly,
        kernels_diagnostics.add_squares,
        kernels_diagnostics.add_magnitudes,
        kernels_diagnostics.multiply,
        kernels_diagnostics.add_increments,
    ]
    real = np.zeros(0, dtype).real.dtype
    return [*specialise(of_modes, dtype), *specialise(of_points, real), *kernels_of_sums(np.float64)]
