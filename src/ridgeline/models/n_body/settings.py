"""Settings of the N-body model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.case import AnyCase
from ridgeline.config.fields import ON, Checked, Integer, Number, PathText, Problem, Truth, setting
from ridgeline.config.intervals import recurring, time_interval, wall_interval
from ridgeline.config.size_law import Cube
from ridgeline.models.n_body.cosmology import Cosmology
from ridgeline.models.n_body.force_law import Filter
from ridgeline.models.n_body.power_spectra import Spectrum, bbks, from_table, power_law
from ridgeline.models.n_body.problem import Gravity, Stepping

Variable = Literal["position", "velocity"]
SIGMA8 = 0.8  # unless the settings have another one
MOST_CELLS_ALONG = 2**15  # every rank keeps a table of all lines of modes
MOST_PARTICLES_ALONG = 2**17
LEAST_CELL, MOST_CELL = 0.001, 40.0  # Mpc/h: of a dwarf galaxy, and of boxes beyond the horizon


class RunSection(sections.RunSection):
    """The model, the length of the run, its precision and its device."""

    model: Literal["n_body"] = setting(..., "Model to run. `ridgeline explain` lists the models.")
    precision: Literal["float64", "float32"] = setting(
        "float64",
        "Floating-point type of the mesh's forces and transforms. Positions, momenta and the forces between near "
        "particles are always float64.",
    )
    seed: Integer = setting(
        0,
        "Seed of the random phases. The same seed gives the same waves on any number of ranks and on finer lattices.",
        ge=0,
        needs={"initial.kind": "random"},
    )
    device: Literal["cpu"] = setting(
        "cpu", "Device on which the kernels run. This model has no kernels for GPUs."
    )


class GridSection(sections.PencilGridSection):
    """The periodic cube, the mesh of the long-range forces, the number of particles, and the decomposition."""

    length: Number = setting(..., "Length of the edges of the comoving box.", unit="Mpc/h", gt=0)
    particles: Integer | None = setting(
        None,
        "Number of particles along each edge of the initial cubic lattice. If it is not set, there is one particle "
        "for each cell, as in HACC.",
        unit="particles",
        rule=f"an even number >= 4 and <= {MOST_PARTICLES_ALONG}",
        ge=4,
        le=MOST_PARTICLES_ALONG,
    )

    @property
    def lattice(self) -> int:
        """Number of particles along each edge."""
        return self.shape[0] if self.particles is None else self.particles

    def shrunk(self, share: float) -> Self:
        """Return a grid reduced to about this share, particles included, so that a cell has equally many."""
        grid = super().shrunk(share)
        if self.particles is None:
            return grid
        fewer = max(4, self.particles * grid.shape[0] // self.shape[0] // 2 * 2)
        return grid.model_copy(update={"particles": fewer})

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if len(set(self.shape)) > 1 or any(n % 2 or not 4 <= n <= MOST_CELLS_ALONG for n in self.shape):
            yield Problem("shape", f"three equal even numbers >= 4 and <= {MOST_CELLS_ALONG}")
        if self.lattice % 2:
            yield Problem("particles", f"an even number >= 4 and <= {MOST_PARTICLES_ALONG}")


class CosmologySection(Checked):
    """A flat universe of matter and a cosmological constant, and the waves that grow in it."""

    omega_m: Number = setting(
        0.31,
        "Matter density today as a fraction of the critical density; 1 is an Einstein-de Sitter universe.",
        gt=0,
        le=1,
    )
    omega_b: Number = setting(
        0.0,
        "Baryon density today as a fraction of the critical density. Baryons lower the peak of the BBKS spectrum.",
        ge=0,
        lt=1,
        needs={"spectrum": "bbks"},
    )
    hubble: Number = setting(
        0.68,
        "Expansion rate H0 today.",
        unit="100 km/s/Mpc",
        gt=0,
        le=10,
        needs={"spectrum": "bbks"},
    )
    spectrum: Literal["bbks", "power-law", "table"] = setting(
        "bbks",
        'Linear power spectrum today: "bbks" (cold dark matter, Bardeen et al. 1986), "power-law" (k^index) or '
        '"table" (read from a file).',
        needs={"initial.kind": "random"},
    )
    index: Number = setting(
        0.97,
        "Exponent n of the primordial spectrum k^n. With a power law, it must be between -3 and 1.",
        ge=-3,
        le=2,
        needs={"spectrum": ("bbks", "power-law")},
    )
    sigma8: Number | None = setting(
        None,
        "Root mean square of the linear density contrast today in spheres of 8 Mpc/h. If it is not set, it is 0.8, "
        "or follows from the table.",
        rule="a number > 0",
        gt=0,
        le=100,
        needs={"initial.kind": "random"},
    )
    table: PathText = setting(
        "",
        "Text file of the spectrum, with the columns k in h/Mpc and P in (Mpc/h)^3.",
        rule="a path",
        needs={"spectrum": "table"},
    )

    def problems(self) -> Iterator[Problem]:
        if self.omega_b >= self.omega_m:
            yield Problem("omega_b", f"a number below cosmology.omega_m = {self.omega_m:g}")
        if self.spectrum == "power-law" and not -3 < self.index < 1:
            yield Problem("index", 'a number > -3 and < 1 with cosmology.spectrum = "power-law"')
        if self.spectrum == "bbks" and self.index < -1:
            yield Problem("index", 'a number >= -1 with cosmology.spectrum = "bbks"')
        if self.spectrum == "table" and not self.table:
            yield Problem("table", 'a path with cosmology.spectrum = "table"')


class ModelSection(Checked):
    """dp/da = -grad(phi~) / (a^2 E), dx/da = p / (a^3 E), lap(phi~) = 1.5 Omega_m delta.

    The mesh has HACC's filtered Green's function; near particles attract each other by direct sums; steps are
    kick-drift-kick.
    """

    steps_to_today: Integer = setting(
        100,
        "Number of steps from the initial redshift to today (a = 1). run.steps may end the run earlier or later.",
        ge=1,
    )
    spacing: Literal["linear", "logarithmic"] = setting(
        "linear",
        'Variable in which the steps have equal length: the scale factor a ("linear"), as in HACC, or its logarithm '
        '("logarithmic").',
    )
    short_range: Truth = setting(
        True,
        "Whether near particles attract each other directly (P3M). If false, all forces are computed on the mesh "
        "(PM).",
    )
    substeps: Integer = setting(
        4,
        "Number of substeps of the short-range force in each step.",
        unit="substeps",
        ge=1,
        le=1000,
        needs={"short_range": ON},
    )
    matching_radius: Number = setting(
        3.2,
        "Distance up to which particles attract each other directly. From 3.2 cells on, the mean force agrees with "
        "Newton's law within 0.5 %; `ridgeline check` prints the error.",
        unit="cells",
        ge=2.5,
        le=5,
        needs={"short_range": ON},
    )
    softening: Number = setting(
        0.1,
        "Plummer softening length of the force between near particles.",
        unit="cells",
        ge=0.001,
        le=1,
        needs={"short_range": ON},
    )
    filter_width: Number = setting(
        0.8, "Width sigma of the mesh's filter exp(-k^2 sigma^2/4).", unit="cells", ge=0, le=2
    )
    filter_power: Integer = setting(3, "Exponent n_s of the filter's factor (2/k) sin(k/2).", ge=0, le=10)
    transpose: sections.TransposeSection = Field(default_factory=sections.TransposeSection)
    fft: sections.FftSection = Field(default_factory=sections.FftSection)


class InitialSection(Checked):
    """The initial state: a lattice of particles, displaced by growing waves."""

    kind: Literal["random", "pancake"] = setting(
        "random",
        'Initial waves: "random" (waves of the power spectrum with random phases) or "pancake" (one plane wave along '
        "x, which collapses at initial.collapse, after Zel'dovich).",
    )
    redshift: Number = setting(49.0, "Redshift of step 0.", gt=0, le=1e4)
    order: Literal[1, 2] = setting(
        2,
        "Order of Lagrangian perturbation theory: 1 (Zel'dovich) or 2 (2LPT).",
        needs={"kind": "random"},
    )
    collapse: Number = setting(
        1.0,
        "Redshift at which the pancake collapses.",
        ge=0,
        le=1e4,
        needs={"kind": "pancake"},
    )

    def problems(self) -> Iterator[Problem]:
        if self.kind == "pancake" and self.collapse >= self.redshift:
            yield Problem("collapse", f"a number below initial.redshift = {self.redshift:g}")


class AnalysisSection(Checked):
    """Analysis for output.spectra besides the power spectrum: halos, and the density of a slab from z = 0 on."""

    halos: Truth = setting(
        True,
        "Whether halos are found by the friends-of-friends algorithm and their mass function is written.",
        needs=recurring("output.spectra_every"),
    )
    linking_length: Number = setting(
        0.2,
        "Distance below which two particles are linked, as a fraction of the mean separation of particles.",
        gt=0,
        le=1,
        needs={"halos": ON},
    )
    least_halo: Integer = setting(
        20,
        "Number of particles in the smallest halo that counts.",
        unit="particles",
        ge=2,
        le=10**6,
        needs={"halos": ON},
    )
    slab: Number | None = setting(
        None,
        "Thickness of the slab whose density is projected. If it is not set, it is one eighth of the box.",
        unit="Mpc/h",
        rule="a number > 0",
        gt=0,
        needs=recurring("output.spectra_every"),
    )
    pixels: Integer = setting(
        256,
        "Number of pixels along each edge of the picture of the slab.",
        unit="pixels",
        ge=4,
        le=8192,
        needs=recurring("output.spectra_every"),
    )


class OutputSection(sections.OutputSection):
    """Particles, time series and spectra. Paths are relative to the directory in which the run is started."""

    path: PathText = setting(
        "n_body.bp", "Data set to which the fields are written.", rule="a path", min_length=1
    )
    variables: tuple[Variable, ...] = setting(
        ("position", "velocity"),
        "Fields of the particles to write, as arrays [particles, 3] in the order of the particles' identities.",
        rule='a list of "position" and "velocity", each at most once',
        min_length=1,
    )

    spectra: PathText = setting(
        "structure.bp",
        "Data set to which power spectra, mass functions of halos and slices of the density are written.",
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
    spectra_every_time: Number | None = time_interval("outputs of spectra")
    spectra_every_wall: Number | None = wall_interval("outputs of spectra")

    def written(self) -> dict[str, str]:
        return super().written() | (
            {"output.spectra": self.spectra} if self.interval("spectra_every") else {}
        )

    def problems(self) -> Iterator[Problem]:
        if len(set(self.variables)) < len(self.variables):
            yield Problem("variables", "a list that contains each name at most once")


class NBodyCase(AnyCase):
    """Settings of one run of the N-body model."""

    PHYSICS: ClassVar[tuple[str, ...]] = (
        "run.model",
        "run.precision",
        "run.seed",
        "grid.shape",
        "grid.length",
        "grid.particles",
        "cosmology",
        "model",
        "initial",
        "analysis",
    )
    NOT_PHYSICS: ClassVar[tuple[str, ...]] = ("model.fft", "model.transpose", "cosmology.table")

    SIZE_LAW = Cube("grid.shape", "grid.length", "grid.particles")

    run: RunSection
    grid: GridSection
    cosmology: CosmologySection = Field(default_factory=CosmologySection)
    model: ModelSection = Field(default_factory=ModelSection)
    initial: InitialSection = Field(default_factory=InitialSection)
    analysis: AnalysisSection = Field(default_factory=AnalysisSection)
    output: OutputSection = Field(default_factory=OutputSection)

    def begin_time(self) -> float:
        """Return the scale factor of step 0, which is the model time here."""
        return self.begin

    def step_length(self) -> float:
        """Return the length of the first step in the scale factor."""
        return self.time_after(1) - self.begin

    def time_after(self, steps: float) -> float:
        return self.schedule.scale_factor(steps)

    def steps_until(self, time: float) -> float:
        return self.schedule.steps_at(time)

    def assumption(self) -> str:
        return ", the first of growing ones," if self.model.spacing == "logarithmic" else ""

    @property
    def gravity(self) -> Gravity:
        """The particles, the box and the force as plain values."""
        model = self.model
        return Gravity(
            self.grid.shape,
            self.grid.length,
            self.grid.lattice**3,
            self.cosmology.omega_m,
            Filter(model.filter_width, model.filter_power),
            model.matching_radius if model.short_range else None,
            model.softening,
        )

    @property
    def begin(self) -> float:
        """Scale factor of step 0."""
        return 1.0 / (1.0 + self.initial.redshift)

    @property
    def substeps(self) -> int:
        """Substeps of a step: 1 without the short-range force."""
        return self.model.substeps if self.model.short_range else 1

    @property
    def universe(self) -> Cosmology:
        """The expansion of the universe."""
        return Cosmology(self.cosmology.omega_m, self.cosmology.hubble)

    @property
    def schedule(self) -> Stepping:
        """The schedule of kicks and drifts."""
        model = self.model
        return Stepping(self.universe, self.begin, model.steps_to_today, self.substeps, model.spacing)

    def check_files(self) -> None:
        """Raise ConfigError for an invalid table of the power spectrum."""
        if self.initial.kind == "random":
            self.linear_spectrum()

    def linear_spectrum(self) -> Spectrum:
        """Return the linear power spectrum of today. Raises ConfigError for an invalid table."""
        chosen = self.cosmology
        if chosen.spectrum == "table":
            return from_table(Path(chosen.table), chosen.sigma8)
        sigma8 = SIGMA8 if chosen.sigma8 is None else chosen.sigma8
        if chosen.spectrum == "power-law":
            return power_law(chosen.index, sigma8)
        return bbks(self.universe, chosen.index, sigma8, chosen.omega_b)

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield a length whose cells no simulation of cosmic structure has, such as one in kpc/h."""
        if self.initial.kind != "random":
            return
        length, n = self.grid.length, self.grid.shape[0]
        if not LEAST_CELL <= length / n <= MOST_CELL:
            mass = self.universe.particle_mass(length**3, self.grid.lattice**3)
            yield (
                "grid.length",
                f"{n} cells along {length:g} Mpc/h are {length / n:.3g} Mpc/h wide each, and a particle has "
                f"{mass:.2g} solar masses / h. The unit of the length is Mpc/h, not kpc/h.",
            )

    def problems(self) -> Iterator[Problem]:
        fewest = int(2 * self.model.matching_radius) + 1
        if self.model.short_range and self.grid.shape[0] < fewest:
            yield Problem(
                "grid.shape",
                f"at least {fewest} cells in each direction, because the matching radius, "
                f"{self.model.matching_radius:g} cells, can be at most half of the box",
            )
        table = self.cosmology.table
        if self.cosmology.spectrum == "table" and table and not Path(table).is_file():
            yield Problem("cosmology.table", "the path of a file that exists")


CASE = NBodyCase
