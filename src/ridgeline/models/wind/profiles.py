"""Profiles in height: means over x and y, and over the time of a window, of fields, moments and subgrid fluxes.

    profiles = HeightProfiles(comm, block, widths, scalars, start)        # zeros
    compile_kernels(profiles.kernels(dtype))
    profiles.sample(step, flow)                                           # every so many steps; collective
    profiles.state() -> {name: DistributedArray}                          # for Model.state: part of every checkpoint
    profiles.restored()                                                   # after the arrays of `state` were filled
    profiles.averages() -> {name: Profile}                                # equal on all ranks, no communication
    profile_windows_recorder(output, comm, profiles, flow) -> [Recorder]  # writes a step for each window

A sample stands for the time since the one before, so that steps of any length count by their length. Moments are
about the plane means of their sample, <a'b'> = <(a - <a>)(b - <b>)>, and these are averaged over time.

Subgrid fluxes at the centres of cells are -nu_t (du/dz + dw/dx), -nu_t (dv/dz + dw/dy) and -kappa_t d theta/dz with
the derivatives of `subgrid`. The flux of the lowest cell is between the ground and the layer above; the flux at the
ground itself is in the time series.

Plane means are exact sums (`allreduce_sums`): the same bits on any number of ranks. A sample makes four allreduces
for each batch of planes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.io import bp_sums
from ridgeline.io.open_store import open_writer
from ridgeline.io.store import Variable
from ridgeline.jit.kernel import Specialisation
from ridgeline.models.contract import Profile, Record, Recorder
from ridgeline.models.wind.subgrid import Closure, gradient_reference
from ridgeline.models.windows import OF_WINDOWS, WindowClock, WindowRecord, on_root
from ridgeline.parallel.allreduce import allreduce_sums, kernels_of_sums
from ridgeline.parallel.partition import DistributedArray

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.blocks.block import Block, BlockArray
    from ridgeline.config.case import AnyCase
    from ridgeline.models.wind.settings_physics import ProfileSettings

Array = NDArray[np.float64]
PLANES = 16  # planes of the whole grid in a batch, whose products are in memory at once
SUBGRID = ("eddy_viscosity", "eddy_diffusivity", "subgrid_energy")
FLUXES = ("subgrid_uw", "subgrid_vw", "subgrid_w_theta")


@dataclass(frozen=True, eq=False)
class ProfiledFlow:
    """The present flow on this rank's block, as profiles need it.

    velocity: u, v and w; scalars: by name, "theta" first if there is one. The other fields are None without a closure
    that has them; viscosity and diffusivity are nu_t and kappa_t. One layer of ghosts of velocity and theta is filled
    where there is a viscosity. on_surface: whether the lowest cells of the grid lie on a surface.
    """

    time: float
    velocity: Sequence[BlockArray]
    scalars: Mapping[str, BlockArray]
    viscosity: BlockArray | None = None
    diffusivity: BlockArray | None = None
    energy: BlockArray | None = None
    on_surface: bool = False


def moment_names(scalars: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return (name, a, b) of each second moment <a'b'>, where a and b name means."""
    moments = [(a + b, a, b) for a, b in ("uu", "vv", "ww", "uv", "uw", "vw")]
    for scalar in scalars:
        moments += [(f"{c}_{scalar}", c, scalar) for c in "uvw"]
        moments.append((f"{scalar}_{scalar}", scalar, scalar))
    return moments


class HeightProfiles:
    """Running sums over time of plane means. Every number in it is equal on all ranks.

    Parameters
    ----------
    comm : of all ranks
    block : of this rank
    widths : of cells in z, y and x
    scalars : names of the transported scalars
    closure : whether there is an eddy viscosity
    energy : whether there is a subgrid kinetic energy
    start : model time before which nothing is gathered
    """

    def __init__(
        self,
        comm: MPI.Comm,
        block: Block,
        widths: tuple[float, float, float],
        scalars: Sequence[str] = (),
        closure: bool = False,
        energy: bool = False,
        start: float = 0.0,
    ) -> None:
        self._comm, self._block = comm, block
        self._gradients = Closure(widths, 0.0)
        self._means = ["u", "v", "w", *scalars]
        self._moments = moment_names(scalars)
        parts = [closure, closure and "theta" in scalars, energy]
        self._subgrid = [name for name, has in zip(SUBGRID, parts) if has]
        self._fluxes = [name for name, has in zip(FLUXES, [closure, closure, parts[1]]) if has]
        self._names = [*self._means, *(name for name, _, _ in self._moments), *self._subgrid, *self._fluxes]
        nz = block.shape_global[0]
        self.heights = (np.arange(nz) + 0.5) * widths[0]
        self._sums = np.zeros((len(self._names), nz))
        self.clock = WindowClock(comm, start, "profile")

    @staticmethod
    def kernels(dtype: DTypeLike) -> list[Specialisation]:
        """Return the kernels that `sample` calls. dtype: of the fields."""
        return kernels_of_sums("float64") + (kernels_of_sums(dtype) if np.dtype(dtype) != np.float64 else [])

    def begin_window(self) -> None:
        """Begin a new window, which extends from the last sample on."""
        self._sums[...] = 0.0
        self.clock.begin_window()

    def sample(self, step: int, flow: ProfiledFlow) -> None:
        """Add the present flow, weighted by the time since the last call or since `start`. Collective.

        The first call, and calls at or before `start`, only set the clock.
        """
        weight = self.clock.weigh(step, flow.time)
        if not weight:
            return
        for low in range(0, self._block.shape_global[0], PLANES):
            high = min(low + PLANES, self._block.shape_global[0])
            self._sums[:, low:high] += weight * self._plane_means(flow, low, high)

    def _plane_means(self, flow: ProfiledFlow, low: int, high: int) -> Array:
        """Return all means of the planes from low to high of the whole grid. Collective."""
        first, planes = self._block.offset_global[0], self._block.shape_local[0]
        here = slice(min(max(low - first, 0), planes), min(max(high - first, 0), planes))
        missing = max(first + here.start - low, 0) if here.start < here.stop else 0

        def mean(fields: list[NDArray[Any]]) -> Array:
            """Return the means of fields of the planes that are here, (fields, planes of the batch)."""
            parts = []
            for field in fields:
                nothing = np.empty((0, 0), field.dtype)
                own = [field[k] for k in range(here.stop - here.start)]
                parts += [nothing] * missing + own + [nothing] * (high - low - missing - len(own))
            _, ny, nx = self._block.shape_global
            sums = allreduce_sums(self._comm, parts, ny * nx) / (ny * nx)
            return sums.reshape(len(fields), high - low)

        fields = dict(zip("uvw", flow.velocity)) | dict(flow.scalars)
        own = {name: fields[name].owned[here] for name in self._means}
        means = mean([*own.values(), *(field.owned[here] for field in self._closure_fields(flow))])
        count = len(self._means)
        inside = slice(missing, missing + here.stop - here.start)
        deviations = {
            name: own[name].astype(np.float64) - means[n, inside, np.newaxis, np.newaxis]
            for n, name in enumerate(self._means)
        }
        products = [deviations[a] * deviations[b] for _, a, b in self._moments]
        moments = mean([*products, *self._subgrid_fluxes(flow, here)])
        split = len(self._moments)
        return np.concatenate([means[:count], moments[:split], means[count:], moments[split:]])

    def _closure_fields(self, flow: ProfiledFlow) -> Iterator[BlockArray]:
        for name, field in zip(SUBGRID, (flow.viscosity, flow.diffusivity, flow.energy)):
            if name in self._subgrid:
                assert field is not None
                yield field

    def _subgrid_fluxes(self, flow: ProfiledFlow, here: slice) -> list[Array]:
        """Return the subgrid fluxes at the cells of some planes. Local."""
        if not self._fluxes:
            return []
        assert flow.viscosity is not None
        if here.start == here.stop:
            return [np.empty((0, *self._block.shape_local[1:]))] * len(self._fluxes)
        on_surface = flow.on_surface and self._block.offset_global[0] + here.start == 0
        ghost = self._block.ghost
        ny, nx = self._block.shape_local[1:]
        around = (
            slice(here.start + ghost - 1, here.stop + ghost + 1),
            slice(ghost - 1, ghost + ny + 1),
            slice(ghost - 1, ghost + nx + 1),
        )

        def gradient(field: BlockArray) -> tuple[Array, Array, Array]:
            padded = field.ghosted[around].astype(np.float64)
            return gradient_reference(padded, self._gradients, on_surface)

        u, v, w = (gradient(field) for field in flow.velocity)
        nu = flow.viscosity.owned[here].astype(np.float64)
        fluxes = [-nu * (u[2] + w[0]), -nu * (v[2] + w[1])]
        if "subgrid_w_theta" in self._fluxes:
            assert flow.diffusivity is not None
            kappa = flow.diffusivity.owned[here].astype(np.float64)
            fluxes.append(-kappa * gradient(flow.scalars["theta"])[2])
        return fluxes

    def state(self) -> dict[str, DistributedArray]:
        """Return what a checkpoint holds: the sums and the clock, on rank 0."""
        return {"profile_sums": on_root(self._comm, "profile_sums", self._sums), **self.clock.state()}

    def restored(self) -> None:
        """Continue from what was read into the arrays of `state`. Collective."""
        self._comm.Bcast(self._sums)
        self.clock.restored()

    def averages(self) -> dict[str, Profile]:
        """Return the heights z and the averages of the present window, 0 until there is a sample. Local."""
        seconds = self.clock.seconds or 1.0
        words = {name: f"covariance of {a} and {b}" for name, a, b in self._moments}
        words |= {name: f"variance of {a}" for name, a, b in self._moments if a == b}
        words |= {name: f"mean of {name}" for name in (*self._means, *self._subgrid)}
        words |= {name: f"mean subgrid flux {name.removeprefix('subgrid_')}" for name in self._fluxes}
        result = {"z": Profile(self.heights, ("z",), description="height of the centres of cells")}
        for name, sums in zip(self._names, self._sums):
            result[name] = Profile(sums / seconds, ("z",), description=words[name])
        return result


def profile_windows_recorder(
    case: AnyCase,
    settings: ProfileSettings,
    comm: MPI.Comm,
    profiles: HeightProfiles,
    flow: Callable[[], ProfiledFlow],
) -> list[Recorder]:
    """Return the recorder of profiles in height, if the settings ask for it. flow: returns the present flow."""
    every, window = settings.interval("profiles_every"), settings.interval("profiles_window")
    if not every:
        return []

    writes = comm.rank == 0  # on behalf of all ranks, which have the same values

    def here(values: Array) -> Array:
        return values if writes else values[:0]

    def variable(name: str, each: Profile) -> Variable:
        shape, own = each.values.shape, here(each.values).shape
        words, dims = each.description, each.dims
        return Variable(name, np.float64, shape, (0,), own, each.unit, words, dims, once=name == "z")

    def sample(step: int) -> None:
        profiles.sample(step, flow())

    def averages() -> dict[str, Array]:
        return {name: here(each.values) for name, each in profiles.averages().items()}

    def begin(attributes: Mapping[str, Any], keep: int | None) -> Record:
        numbers = {name: Profile(np.zeros(1), ("point",), description=words) for name, words in OF_WINDOWS}
        variables = [variable(name, each) for name, each in (profiles.averages() | numbers).items()]
        writer = open_writer(
            settings.profiles,
            comm,
            variables,
            attributes,
            store=case.output.format,
            keep_steps=keep,
            setting="output.profiles",
        )
        return WindowRecord(settings.profiles, writer, profiles, window, sample, averages, writes)

    fingerprint = bp_sums.fingerprint
    return [Recorder("profiles", settings.profiles, every, begin, fingerprint=fingerprint, also=window)]


def profiles_reference(
    flows: Sequence[tuple[float, Mapping[str, Array]]],
    scalars: Sequence[str],
    closure: Closure | None = None,
    on_surface: bool = False,
) -> dict[str, Array]:
    """Return the averages of a window in plain NumPy: what `HeightProfiles` is held to.

    flows: (weight, fields) of each sample; fields by name, (nz, ny, nx), "padded u" and the like with one layer of
    ghosts where there is a closure.
    """
    total: dict[str, Array] = {}
    for weight, fields in flows:
        values = {name: fields[name].mean(axis=(1, 2)) for name in ("u", "v", "w", *scalars)}
        for name, a, b in moment_names(scalars):
            first, second = (fields[c] - fields[c].mean(axis=(1, 2), keepdims=True) for c in (a, b))
            values[name] = (first * second).mean(axis=(1, 2))
        if closure is not None:
            u, v, w, theta = (
                gradient_reference(fields[f"padded {name}"], closure, on_surface)
                for name in ("u", "v", "w", "theta")
            )
            nu, kappa = fields["eddy_viscosity"], fields["eddy_diffusivity"]
            values |= {name: fields[name].mean(axis=(1, 2)) for name in SUBGRID}
            values["subgrid_uw"] = (-nu * (u[2] + w[0])).mean(axis=(1, 2))
            values["subgrid_vw"] = (-nu * (v[2] + w[1])).mean(axis=(1, 2))
            values["subgrid_w_theta"] = (-kappa * theta[2]).mean(axis=(1, 2))
        for name, each in values.items():
            total[name] = total.get(name, 0.0) + weight * each
    seconds = sum(weight for weight, _ in flows)
    return {name: each / seconds for name, each in total.items()}
