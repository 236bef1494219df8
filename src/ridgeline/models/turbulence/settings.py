"""Settings of the turbulence model."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.case import AnyCase, Plain
from ridgeline.config.expressions import Expression, parse
from ridgeline.config.fields import ON, Checked, Integer, Number, PathText, Problem, Truth, setting, toml
from ridgeline.config.formula_samples import places_in_box, undefined_at
from ridgeline.config.intervals import recurring, time_interval, wall_interval
from ridgeline.config.part_selection import UniformGrid
from ridgeline.config.parts import PartSection
from ridgeline.config.size_law import GlobalGrid
from ridgeline.models.turbulence.forcing_settings import ForcingSection
from ridgeline.models.turbulence.particle_settings import ParticlesSection
from ridgeline.models.turbulence.problem import Damping, Waves

Positive = Annotated[Number, Field(gt=0)]
Vector = tuple[Number, Number, Number]
# Points in a direction, as in the largest run known. Every rank keeps a table of all lines of modes.
MOST_POINTS_ALONG = 2**15
BATCH = {"cpu": 4, "cuda": 1}  # variables of an all-to-all for model.transpose_variables = "auto"
MOST_SHELLS = (
    10**6
)  # of spectra, which every rank holds; a shell is as wide as the smallest wavenumber of the box

FIELDS = (
    *(f"{vector}_{axis}" for vector in ("velocity", "vorticity") for axis in "xyz"),
    *("vorticity_magnitude", "dissipation", "pressure"),
    *("streamfunction", "streamfunction_x", "streamfunction_y"),
)
VARIABLES_RULE = f"a list of {', '.join(FIELDS)} and scalar_0, scalar_1, ..., each at most once"


class RunSection(sections.RunSection):
    """What runs, how long, in which precision and on what."""

    model: Literal["turbulence"] = setting(..., "Model to run. `ridgeline explain` lists the models.")
    seed: sections.Seed = sections.seed_setting(
        "Seed of the random modes, phase shifts, forcing and positions of particles. The same seed gives the same "
        "numbers on any number of ranks.",
        (
            {"model.dealias": "phase-shift"},
            {"initial.kind": "spectrum"},
            {"scalar.N.variance": ON},
            {"forcing.kind": "eswaran-pope"},
            {"particles.count": ON, "particles.placement": ("uniform", "pairs", "tetrads")},
        ),
    )
    device: Literal["cpu", "cuda"] = setting(
        "cpu", "Device on which the kernels run. Fluid particles require CPUs."
    )


class GridSection(sections.PencilGridSection):
    """The periodic box, its grid, and how ranks share them."""

    lengths: tuple[Positive, Positive, Positive] = setting(
        (2 * math.pi, 2 * math.pi, 2 * math.pi),
        "Lengths of the edges of the box, [Lz, Ly, Lx]. With 2 pi the wavenumbers are integers.",
        unit="length",
        rule="three numbers > 0 as [Lz, Ly, Lx]",
    )

    def problems(self) -> Iterator[Problem]:
        if any(n % 2 or not 4 <= n <= MOST_POINTS_ALONG for n in self.shape):
            rule = f"three even numbers >= 4 and <= {MOST_POINTS_ALONG}"
            yield Problem(
                "shape", rule + ", because this model has no two-dimensional flows" * (1 in self.shape)
            )
        yield from super().problems()
        # The largest |k| of the grid over the smallest wavenumber of the box is max L sqrt(sum (N / 2 L)^2).
        shells = max(self.lengths) * math.hypot(*(n / (2 * l) for n, l in zip(self.shape, self.lengths)))
        if shells > MOST_SHELLS:
            yield Problem(
                "lengths",
                f"lengths that differ less from each other, because spectra would have {shells:.3g} shells as wide "
                f"as the smallest wavenumber, and may have at most {MOST_SHELLS}",
            )


class ModelSection(Checked):
    """u_t + (u . grad) u = - grad p + nu lap(u) - 2 Omega x u + N theta e_z + f, div u = 0, by Rogallo's method.

    Exact integrating factor for viscosity, hyperviscosity, drag, rotation and stratification; five nonlinear terms;
    modified pressure (GESTS paper, Sec. 3.1).
    """

    viscosity: Number = setting(
        ...,
        "Kinematic viscosity nu.",
        unit="length^2/time",
        rule="a number > 0, or 0 with model.inviscid = true or model.hyperviscosity > 0",
        ge=0,
    )
    inviscid: Truth = setting(
        False, "Whether model.viscosity is 0 on purpose, which solves the Euler equations, for tests."
    )
    hyperviscosity: Number = setting(
        0.0,
        "Hyperviscosity nu_h, with which a mode of the velocity also decays at the rate nu_h k^(2p), and one of a "
        "scalar at nu_h k^(2p)/Sc. It is integrated exactly and limits no time step.",
        unit="length^(2p)/time",
        ge=0,
    )
    hyperviscosity_order: Integer = setting(
        2,
        "Order p of the hyperviscosity, whose rate is nu_h k^(2p).",
        ge=2,
        le=16,
        needs={"hyperviscosity": ON},
    )
    drag: Number = setting(
        0.0,
        "Coefficient alpha of a linear drag -alpha u, integrated exactly. It takes energy from the largest scales, "
        "where an inverse cascade piles it up.",
        unit="1/time",
        ge=0,
    )
    drag_radius: Number | None = setting(
        None,
        "Largest wavenumber on which the drag acts, the mean flow included. If it is not set, the drag acts on all.",
        unit="1/length",
        rule="a number > 0",
        gt=0,
        needs={"drag": ON},
    )
    scheme: Literal["rk2", "rk4"] = setting(
        "rk2", "Runge-Kutta scheme of order 2 (as in the GESTS paper) or 4."
    )
    dealias: Literal["phase-shift", "two-thirds", "none"] = setting(
        "phase-shift",
        'Dealiasing: "phase-shift" retains |k| < sqrt(2) N/3 and shifts the grid from substep to substep, '
        '"two-thirds" retains |k_i| < N/3 and removes aliasing completely, and "none" retains |k_i| < N/2 and '
        "removes no aliasing.",
    )
    dt: Number | None = setting(
        None,
        "Time step, unless model.courant chooses it.",
        unit="time",
        rule="a number > 0, or model.courant instead",
        gt=0,
    )
    courant: Number | None = setting(
        None,
        "Courant number dt max(|u|/dx + |v|/dy + |w|/dz) that determines each time step instead of model.dt.",
        rule="a number > 0 and < 1, or model.dt instead",
        gt=0,
        lt=1,
    )
    rotation: Vector = setting(
        (0.0, 0.0, 0.0),
        "Angular velocity of the frame, [Omega_x, Omega_y, Omega_z].",
        unit="1/time",
        rule="three numbers as [Omega_x, Omega_y, Omega_z]",
    )
    brunt_vaisala: Number = setting(
        0.0,
        "Brunt-Vaisala frequency N of a stable stratification along z. The first [[scalar]] theta is then the "
        "buoyancy divided by N and acts on the flow: N theta is added to the equation of u_z, and -N u_z to that of "
        "theta.",
        unit="1/time",
        ge=0,
    )
    transpose_variables: Literal["auto"] | Annotated[Integer, Field(ge=1, le=4)] = setting(
        "auto",
        'Number Q of variables that one all-to-all exchanges. "auto" is 4 on CPUs, and 1 on GPUs, which uses the '
        "least memory and overlaps most. The results do not depend on it.",
        unit="variables",
        rule='"auto" or an integer >= 1 and <= 4',
    )
    transpose: sections.DeviceTransposeSection = Field(default_factory=sections.DeviceTransposeSection)
    fft: sections.DeviceFftSection = Field(default_factory=sections.DeviceFftSection)

    def problems(self) -> Iterator[Problem]:
        if self.viscosity == 0 and not self.inviscid and not self.hyperviscosity:
            yield Problem(
                "viscosity", "a number > 0, or 0 with model.inviscid = true or model.hyperviscosity > 0"
            )
        if self.viscosity > 0 and self.inviscid:
            yield Problem("viscosity", "0 with model.inviscid = true")
        if self.hyperviscosity > 0 and self.inviscid:
            yield Problem("hyperviscosity", "0 with model.inviscid = true")
        if (self.dt is None) == (self.courant is None):
            yield Problem("courant", "set if model.dt is left out, and left out if model.dt is set")


class InitialSection(Checked):
    """The velocity of step 0. Scalars start as their own sections say."""

    kind: Literal["taylor_green", "taylor_green_2d", "abc", "spectrum", "file"] = setting(
        "taylor_green",
        'Initial flow: "taylor_green", V (sin x cos y cos z, -cos x sin y cos z, 0); "taylor_green_2d", the same '
        'without z; "abc", the Beltrami flow (A sin z + C cos y, B sin x + A cos z, C sin y + B cos x); "spectrum", '
        'random solenoidal modes with a given E(k); "file", read from initial.path. In these formulas x stands for '
        "2 pi m x/L_x, and y and z likewise.",
    )
    velocity: Number = setting(
        1.0,
        "Velocity V of the Taylor-Green vortices.",
        unit="length/time",
        needs={"kind": ("taylor_green", "taylor_green_2d")},
    )
    waves: Integer = setting(
        1,
        "Number m of waves along each edge of the box in Taylor-Green and ABC flows.",
        unit="waves",
        ge=1,
        needs={"kind": ("taylor_green", "taylor_green_2d", "abc")},
    )
    A: Number = setting(
        1.0,
        "Coefficient A of the ABC flow.",
        unit="length/time",
        needs={"kind": "abc"},
    )
    B: Number = setting(
        1.0,
        "Coefficient B of the ABC flow.",
        unit="length/time",
        needs={"kind": "abc"},
    )
    C: Number = setting(
        1.0,
        "Coefficient C of the ABC flow.",
        unit="length/time",
        needs={"kind": "abc"},
    )
    spectrum: Literal["power-law", "von-karman-pao", "comte-bellot-corrsin"] = setting(
        "power-law",
        'Shape of the spectrum E(k): "power-law", (k/k_p)^low_slope below k_p and (k/k_p)^slope above; '
        '"von-karman-pao", (k L)^4 (1 + (k L)^2)^(-17/6) exp(-2.25 (k eta)^(4/3)), where L puts the maximum without '
        'the exponential near k_p; "comte-bellot-corrsin", measured in grid turbulence (1971) at t U/M = station. It '
        "is scaled to initial.energy.",
        needs=({"kind": "spectrum"}, {"scalar.N.variance": ON}),
    )
    energy: Number = setting(
        1.5,
        "Kinetic energy <u.u>/2 to which the spectrum is scaled.",
        unit="length^2/time^2",
        gt=0,
        needs={"kind": "spectrum"},
    )
    peak_wavenumber: Number = setting(
        4.0,
        "Wavenumber k_p at which E(k) is largest.",
        unit="1/length",
        gt=0,
        needs={"spectrum": ("power-law", "von-karman-pao")},
    )
    low_slope: Number = setting(
        4.0,
        "Slope of the power law below k_p.",
        gt=0,
        needs={"spectrum": "power-law"},
    )
    slope: Number = setting(
        -5 / 3,
        "Slope of the power law above k_p.",
        lt=0,
        needs={"spectrum": "power-law"},
    )
    kolmogorov_length: Number | None = setting(
        None,
        "Kolmogorov length eta of the von Karman-Pao spectrum. If it is not set, it is 1.5 divided by the largest "
        "wavenumber of the grid.",
        unit="length",
        rule="a number > 0",
        gt=0,
        needs={"spectrum": "von-karman-pao"},
    )
    station: Literal[42, 98, 171] = setting(
        42,
        "Distance t U/M from the grid at which Comte-Bellot and Corrsin measured.",
        needs={"spectrum": "comte-bellot-corrsin"},
    )
    length_cm: Number = setting(
        8.732,
        "Length in that experiment that corresponds to one unit of length here. With 8.732, a box of 2 pi "
        "corresponds to 10.8 M.",
        unit="cm/length",
        gt=0,
        needs={"spectrum": "comte-bellot-corrsin"},
    )
    path: PathText = setting(
        "",
        "BP data set or checkpoint to read.",
        rule="a path",
        needs={"kind": "file"},
    )
    step: Integer | None = setting(
        None,
        "Step to read. If it is not set, the last step is read.",
        unit="steps",
        rule="an integer >= 0",
        ge=0,
        needs={"kind": "file"},
    )

    def problems(self) -> Iterator[Problem]:
        if self.kind == "file" and not self.path:
            yield Problem("path", 'a path with initial.kind = "file"')


PEAK = 6.0  # max(|u| + |v| + |w|) of random modes, over the root mean square of a component


class ScalarSection(Checked):
    """A scalar, one section each: theta_t + u . grad theta = - G . u + (nu/Sc) lap(theta).

    It is passive, but for the first one with model.brunt_vaisala, whose G is [0, 0, N].
    """

    schmidt: Number = setting(..., "Schmidt number Sc = nu/diffusivity.", gt=0)
    mean_gradient: Vector = setting(
        (0.0, 0.0, 0.0),
        "Uniform mean gradient G = [Gx, Gy, Gz]. theta is the fluctuation about it.",
        unit="scalar/length",
        rule="three numbers as [Gx, Gy, Gz]",
    )
    variance: Number = setting(
        0.0,
        "Variance <theta^2> at step 0, in random modes with the shape of initial.spectrum. With 0 the scalar starts "
        "from theta = 0.",
        unit="scalar^2",
        ge=0,
    )


class OutputSection(sections.FieldsOutputSection):
    """Fields, time series and spectra. Paths are relative to the directory in which the run is started."""

    path: PathText = setting(
        "turbulence.bp", "Data set to which the fields are written.", rule="a path", min_length=1
    )
    variables: tuple[str, ...] = setting(
        FIELDS[:3], "Fields to write.", rule=VARIABLES_RULE, min_length=1, max_length=200
    )
    viewer: Literal["none", "pvd"] = sections.viewer_setting(
        {"output.part.N": ON}, *recurring("particles.every")
    )
    series_every: Integer = setting(
        10,
        "Number of steps between rows of the time series, beginning with step 0; 0 writes none.",
        unit="steps",
        ge=0,
    )
    spectra: PathText = setting(
        "spectra.bp",
        "Data set to which spectra and probability densities are written.",
        rule="a path",
        min_length=1,
        needs=recurring("spectra_every"),
    )
    spectra_every: Integer = setting(
        0,
        "Number of steps between outputs of spectra, beginning with step 0; 0 writes none.",
        unit="steps",
        ge=0,
    )
    spectra_every_time: Number | None = time_interval("spectra")
    spectra_every_wall: Number | None = wall_interval("spectra")
    average_from: Integer | None = setting(
        None,
        "First step of the time averages of spectra and structure functions, which are formed from the outputs that "
        "are written. If it is not set, there are no averages.",
        unit="steps",
        rule="an integer >= 0",
        ge=0,
        needs=recurring("spectra_every"),
    )

    def problems(self) -> Iterator[Problem]:
        known = all(name in FIELDS or re.fullmatch(r"scalar_(0|[1-9]\d*)", name) for name in self.variables)
        if not known or len(set(self.variables)) < len(self.variables):
            yield Problem("variables", VARIABLES_RULE)

    def written(self) -> dict[str, str]:
        return super().written() | (
            {"output.spectra": self.spectra} if self.interval("spectra_every") else {}
        )


class TurbulenceCase(AnyCase):
    """Settings of one run of the turbulence model."""

    # A resumed run may have another time step or scheme, but neither another flow nor other modes, with which its
    # outputs could not continue. initial.kind = "file" starts a new run from a checkpoint of another grid.
    PHYSICS: ClassVar[tuple[str, ...]] = (
        "run.model",
        "run.precision",
        "run.seed",
        "grid.shape",
        "grid.lengths",
        "model.dealias",
        "model.viscosity",
        "model.inviscid",
        "model.rotation",
        "model.brunt_vaisala",
        "model.hyperviscosity",
        "model.hyperviscosity_order",
        "model.drag",
        "model.drag_radius",
        "initial",
        "forcing",
        "scalar",
        "particles",
    )
    START: ClassVar[tuple[str, ...]] = (
        "initial",
        "scalar.*.variance",
        "particles.count",
        "particles.placement",
        "particles.separation",
        "particles.seed",
    )
    NOT_PHYSICS: ClassVar[tuple[str, ...]] = (
        "initial.path",
        "particles.every",
        "particles.every_time",
        "particles.every_wall",
        "particles.path",
        "particles.sample",
    )
    LATER: ClassVar[Mapping[str, Plain]] = {
        "model.rotation": [0.0, 0.0, 0.0],
        "model.brunt_vaisala": 0.0,
        "model.hyperviscosity": 0.0,
        "model.hyperviscosity_order": 2,
        "model.drag": 0.0,
        "model.drag_radius": "none",
        "forcing.inner_radius": 0.0,
        "forcing.formula": "none",
    }
    SIZE_LAW = GlobalGrid(
        "grid.shape", "grid.lengths", GridSection.MULTIPLE, logarithmic=True, count="particles.count"
    )

    run: RunSection
    grid: GridSection
    model: ModelSection
    initial: InitialSection = Field(default_factory=InitialSection)
    forcing: ForcingSection = Field(default_factory=ForcingSection)
    scalar: tuple[ScalarSection, ...] = Field(default=())
    particles: ParticlesSection = Field(default_factory=ParticlesSection)
    output: OutputSection = Field(default_factory=OutputSection)

    def written(self) -> dict[str, str]:
        particles = self.particles
        more = {"particles.path": particles.path} if particles.count and particles.interval() else {}
        return super().written() | more

    def identity(self) -> dict[str, Plain]:
        # Without particles their settings are left out, as in checkpoints from before there were particles.
        return {
            k: v
            for k, v in super().identity().items()
            if self.particles.count or not k.startswith("particles.")
        }

    def output_names(self) -> tuple[str, ...]:
        return (*FIELDS, *(f"scalar_{i}" for i in range(len(self.scalar))))

    def part_grid(self, part: PartSection) -> UniformGrid:
        z, y, x = (length / n for length, n in zip(self.grid.lengths, self.grid.shape))
        return UniformGrid(self.grid.shape, spacing=(z, y, x))

    def step_length(self) -> float:
        """Return model.dt, or that of model.courant at the speed of step 0: NaN for a flow from a file."""
        model, initial = self.model, self.initial
        if model.courant is None:
            return model.dt or math.nan
        speeds = {
            "taylor_green": initial.velocity,
            "taylor_green_2d": initial.velocity,
            "abc": 2.0 * (abs(initial.A) + abs(initial.B) + abs(initial.C)),
            "spectrum": PEAK * math.sqrt(2.0 * initial.energy / 3.0),
        }
        speed = abs(speeds.get(initial.kind, math.nan))
        width = min(length / n for length, n in zip(self.grid.lengths, self.grid.shape))
        return model.courant * width / speed if speed else math.nan

    def assumption(self) -> str:
        return "" if self.model.courant is None else ", assumed from model.courant and the speed of step 0,"

    @property
    def batch(self) -> int:
        """Q, the variables that one all-to-all moves."""
        number = self.model.transpose_variables
        return number if number != "auto" else BATCH[self.run.device]

    def problems(self) -> Iterator[Problem]:
        yield from self._problems_of_waves()
        yield from self._problems_of_formula()
        if self.run.device != "cpu" and self.particles.count:
            rule = '"cpu" with particles.count > 0, because there are no GPU kernels for particles yet'
            yield Problem("run.device", rule)
        spectra = self.output.interval("spectra_every")
        if self.output.average_from is not None and spectra and not (spectra.steps or spectra.time):
            yield Problem("output.average_from", "spectra at an interval of steps or model time")
        if "scalars" in self.particles.sample and not self.scalar:
            yield Problem("particles.sample", "a list without scalars, because the case has no [[scalar]]")
        most = len(self.scalar) - 1
        absent = [n for n in self.output.variables if n not in FIELDS and int(n.split("_")[1]) > most]
        if absent:
            have = f"the case has {most + 1} [[scalar]]" if most >= 0 else "the case has no [[scalar]]"
            yield Problem("output.variables", f"a list without scalars that do not exist ({have})")
        if self.model.inviscid and self.scalar:
            yield Problem(
                "model.inviscid",
                "false with [[scalar]], because the diffusivity of a scalar is viscosity/schmidt",
            )
        if self.initial.kind == "file":
            # A new run moves away whatever is at these paths, which would include the file that it starts from.
            moved = self.written()
            if not self.checkpoint.is_used:
                del moved["checkpoint.path"]
            start = Path(os.path.realpath(self.initial.path))
            for key, path in moved.items():
                if start.is_relative_to(os.path.realpath(path)):
                    rule = "a path that does not contain initial.path, because a new run moves existing outputs away"
                    yield Problem(key, rule)

    def check_files(self) -> None:
        """Raise ConfigError if there is nothing at initial.path that a flow can start from."""
        from ridgeline.models.turbulence.start_file import is_checkpoint

        if self.initial.kind == "file":
            is_checkpoint(Path(self.initial.path))

    @property
    def waves(self) -> Waves:
        """Rotation and stratification."""
        return Waves(self.model.rotation, self.model.brunt_vaisala)

    @property
    def damping(self) -> Damping:
        """Hyperviscosity and drag."""
        model = self.model
        radius = math.inf if model.drag_radius is None else model.drag_radius
        return Damping(model.hyperviscosity, model.hyperviscosity_order, model.drag, radius)

    def force(self) -> tuple[Expression, ...]:
        """Return the formulas of the force, none unless forcing.kind is "formula"."""
        forcing = self.forcing
        return tuple(map(parse, forcing.formula)) if forcing.kind == "formula" and forcing.formula else ()

    def _problems_of_formula(self) -> Iterator[Problem]:
        """Yield a problem for the first component of the force that is not finite at some point at time 0."""
        places = places_in_box(self.grid.lengths, self.grid.shape)
        for formula in self.force():
            if found := undefined_at(formula, places):
                rule = f"formulas that are finite at every point. In {toml(formula.text)}, {found}"
                yield Problem("forcing.formula", rule)
                return

    def _problems_of_waves(self) -> Iterator[Problem]:
        """Yield the rules of rotation and stratification that these values break."""
        stratified, rotating = self.waves.stratified, any(self.model.rotation)
        if stratified and not self.scalar:
            rule = "0 without [[scalar]], because the first scalar is the buoyancy divided by model.brunt_vaisala"
            yield Problem("model.brunt_vaisala", rule)
        elif stratified:
            if any(self.scalar[0].mean_gradient):
                rule = "[0, 0, 0] with model.brunt_vaisala, which is the mean gradient of the first scalar"
                yield Problem("scalar.0.mean_gradient", rule)
            if rotating and self.scalar[0].schmidt != 1:
                rule = (
                    "1 with both model.rotation and model.brunt_vaisala, because the integrating factor requires "
                    "velocity and scalar to decay equally"
                )
                yield Problem("scalar.0.schmidt", rule)
            if rotating and self.forcing.kind == "linear":
                rule = 'a kind other than "linear" with both model.rotation and model.brunt_vaisala'
                yield Problem("forcing.kind", rule)
            if rotating and self.model.drag:
                rule = (
                    "0 with both model.rotation and model.brunt_vaisala, because the integrating factor requires "
                    "velocity and scalar to decay equally"
                )
                yield Problem("model.drag", rule)
        if (stratified or rotating) and "acceleration" in self.particles.sample:
            rule = (
                "a list without acceleration with model.rotation or model.brunt_vaisala, because their terms would "
                "be missing from it"
            )
            yield Problem("particles.sample", rule)


CASE = TurbulenceCase
