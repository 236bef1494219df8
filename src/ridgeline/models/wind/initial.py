"""Initial states, set by global index: the same bits on any number of ranks.

    uniform       u = U
    log           u = (u*/kappa) ln((z + z_0)/z_0): the neutral surface layer, which is at rest at z = 0
    taylor-green  u = U + A cos(k x') sin(l y'), v = V - A (k/l) sin(k x') cos(l y'), k = 2 pi n/Lx, l = 2 pi n/Ly
    vortex        u = U - A (y'/R) exp((1 - r^2/R^2)/2), v = V + A (x'/R) exp((1 - r^2/R^2)/2): fastest at r = R
    bubble        theta = profile + A cos^2(pi r/(2 R)) for r < R
    formulas      u, v, w and theta of x, y, z and `random`

Taylor-Green and the vortex have exact solutions (`taylor_green`, `carried_vortex`). Random numbers are those of
`jit.random` at steps that no run reaches; each field has its own. The first projection removes the divergence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block
from ridgeline.config.expressions import parse
from ridgeline.jit.random import uniform_reference
from ridgeline.models.wind.forcing import theta_profile
from ridgeline.models.wind.settings_initial import INITIAL_NAMES
from ridgeline.parallel.allreduce import raise_on_all_ranks
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.wind.settings_physics import PhysicsSettings

Array = NDArray[np.float64]
Triple = tuple[float, float, float]
Places = Mapping[str, Any]
VELOCITY = ("u", "v", "w")
RANDOM = "random"
# The random numbers of the start are those of steps that no run reaches, another one for each field.
_LAST_STEP = 2**32 - 1


def taylor_green(
    places: Places, lengths: Triple, wind: Triple, amplitude: float, waves: int, viscosity: float, time: float
) -> tuple[Array, Array]:
    """Return u and v of vortices of Taylor and Green in x and y that are carried by a wind, an exact solution.

    places: x and y; lengths: of the domain in z, y and x. A decays as exp(-nu (k^2 + l^2) t).
    """
    k, m = 2 * math.pi * waves / lengths[2], 2 * math.pi * waves / lengths[1]
    x, y = k * (places["x"] - wind[0] * time), m * (places["y"] - wind[1] * time)
    size = amplitude * math.exp(-viscosity * (k * k + m * m) * time)
    return wind[0] + size * np.cos(x) * np.sin(y), wind[1] - size * (k / m) * np.sin(x) * np.cos(y)


def carried_vortex(
    places: Places,
    lengths: Triple,
    centre: Triple,
    radius: float,
    wind: Triple,
    amplitude: float,
    time: float,
) -> tuple[Array, Array]:
    """Return u and v of a Gaussian vortex about z that is carried across a periodic domain by a wind.

    It is an exact solution without viscosity in an infinite plane: the periodic images act as exp(-L^2/(8 R^2)).
    """
    x, y = (
        _nearest(places[name] - c - w * time, length)
        for name, c, w, length in zip("xy", centre, wind, (lengths[2], lengths[1]))
    )
    shape = amplitude / radius * np.exp((1 - (x * x + y * y) / radius**2) / 2)
    return wind[0] - y * shape, wind[1] + x * shape


def _nearest(distance: Any, length: float) -> Any:
    return distance - length * np.round(distance / length)


def warm_bubble(
    places: Places, lengths: Triple, centre: Triple, radius: float, amplitude: float, planar: bool
) -> Array:
    """Return the excess temperature of a bubble, A cos^2(pi r/(2 R)) inside of it; a cylinder along y if planar."""
    x = _nearest(places["x"] - centre[0], lengths[2])
    y = 0.0 * places["y"] if planar else _nearest(places["y"] - centre[1], lengths[1])
    z = places["z"] - centre[2]
    r = np.minimum(np.sqrt(x * x + y * y + z * z) / radius, 1.0)
    return np.asarray(amplitude * np.cos(np.pi / 2 * r) ** 2)


class InitialState:
    """The initial state of a case on planes of cells.

    settings : the sections of the case
    lengths, shape : of the domain in z, y and x
    seed : of the random numbers
    scalars : names of the passive scalars
    """

    def __init__(
        self,
        settings: PhysicsSettings,
        lengths: Triple,
        shape: tuple[int, int, int],
        seed: int,
        scalars: Sequence[str] = (),
    ) -> None:
        initial = settings.initial
        self._settings, self._lengths, self._seed = settings, lengths, seed
        self._h = tuple(length / n for length, n in zip(lengths, shape, strict=True))
        self._centre = initial.centre or (lengths[2] / 2, lengths[1] / 2, lengths[0] / 2)
        across = lengths[1:] if initial.kind == "vortex" else (lengths[0], lengths[2])
        self._radius = initial.radius or min(across) / 10
        self.names = (
            *VELOCITY,
            *(["theta"] if settings.temperature.enabled else []),
            *scalars,
        )
        self._formulas: dict[str, Any] = {}
        texts: dict[str, str | None] = {}
        if initial.kind == "formulas":
            texts = {name: getattr(initial, name) for name in (*VELOCITY, "theta")}
        texts.update(zip(scalars, initial.scalars))
        for name, text in texts.items():
            if text is not None and name in self.names:
                self._formulas[name] = parse(text, INITIAL_NAMES)

    def plane(
        self, k: int, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> Iterator[tuple[str, Array]]:
        """Yield each field by name in a plane of cells, (rows, columns) float64. All numbers are global indices."""
        initial = self._settings.initial
        dz, dy, dx = self._h
        places: dict[str, Any] = {
            "x": (columns[np.newaxis, :] + 0.5) * dx,
            "y": (rows[:, np.newaxis] + 0.5) * dy,
            "z": np.float64((k + 0.5) * dz),
        }
        top = initial.perturbation_height
        perturbed = top is None or float(places["z"]) < top
        for n, (name, values) in enumerate(self._undisturbed(places).items()):

            def random(n: int = n) -> Array:
                return uniform_reference(self._seed, _LAST_STEP - n, k, rows[:, np.newaxis], columns)

            if name in self._formulas:
                formula = self._formulas[name]
                known = {**places, RANDOM: random()} if RANDOM in formula.variables else places
                values = formula.evaluate(known)
            field = np.array(np.broadcast_to(values, (len(rows), len(columns))), np.float64)
            amplitude = initial.perturbation if name in VELOCITY else 0.0
            if name == "theta":
                amplitude = initial.theta_perturbation
            if amplitude and perturbed:
                field += amplitude * random()
            yield name, field

    def text(self, name: str) -> str:
        """Return the formula of a field, "" if it has none."""
        return self._formulas[name].text if name in self._formulas else ""

    def key(self, name: str) -> str:
        """Return the setting of the formula of a field."""
        return f"initial.{name}" if name in (*VELOCITY, "theta") else "initial.scalars"

    def _undisturbed(self, places: Places) -> dict[str, Any]:
        """Return all fields in a plane, which broadcast, before formulas and random numbers."""
        initial, surface = self._settings.initial, self._settings.surface
        z, wind = float(places["z"]), initial.velocity
        fields: dict[str, Any] = dict(zip(VELOCITY, wind))
        if initial.kind == "log":
            rough = surface.roughness
            speed = (initial.friction_velocity or 0.0) / surface.von_karman * math.log((z + rough) / rough)
            angle = math.radians(initial.direction)
            fields = {"u": speed * math.cos(angle), "v": speed * math.sin(angle), "w": 0.0}
        elif initial.kind == "taylor-green":
            fields["u"], fields["v"] = taylor_green(
                places, self._lengths, wind, initial.amplitude, initial.waves, 0.0, 0.0
            )
        elif initial.kind == "vortex":
            fields["u"], fields["v"] = carried_vortex(
                places, self._lengths, self._centre, self._radius, wind, initial.amplitude, 0.0
            )
        if "theta" in self.names:
            fields["theta"] = theta_profile(self._settings.temperature, np.array([z]))[0]
            if initial.kind == "bubble":
                bubble = self._lengths, self._centre, self._radius, initial.amplitude, initial.planar
                fields["theta"] = fields["theta"] + warm_bubble(places, *bubble)
        return {name: fields.get(name, 0.0) for name in self.names}


def set_start(state: InitialState, block: Block, fields: Mapping[str, NDArray[Any]], comm: MPI.Comm) -> None:
    """Set the owned cells of this rank's block to the initial state, by the names of `state.names`. Collective.

    Raises ConfigError on all ranks where a formula is not finite.
    """
    raise_on_all_ranks(comm, _set_fields(state, block, fields))


def _set_fields(state: InitialState, block: Block, fields: Mapping[str, NDArray[Any]]) -> ConfigError | None:
    first, rows, columns = (
        offset + np.arange(n) for offset, n in zip(block.offset_global, block.shape_local, strict=True)
    )
    for local, k in enumerate(first):
        for name, values in state.plane(int(k), rows, columns):
            fields[name][local] = values
            wrong = ~np.isfinite(fields[name][local])
            if wrong.any():
                j, i = np.argwhere(wrong)[0]
                return ConfigError(
                    f"{state.key(name)}: {state.text(name)} is {values[j, i]} in the cell k = {k}, j = {rows[j]}, "
                    f"i = {columns[i]} of the initial state. The formula must be finite in every cell."
                )
    return None
