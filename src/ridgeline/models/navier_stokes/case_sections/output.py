"""Settings of the outputs of a Navier-Stokes run: fields, series, statistics, probes, forces on sides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.fields import ON, Checked, Integer, Number, PathText, Problem, Triple, setting
from ridgeline.config.intervals import Scheduled, recurring, time_interval, wall_interval
from ridgeline.config.parts import PartSection

Direction = Literal["x", "y", "z"]
FIELDS = (
    "velocity_x",
    "velocity_y",
    "velocity_z",
    "pressure",
    "vorticity_x",
    "vorticity_y",
    "vorticity_z",
    "vorticity_magnitude",
    "q_criterion",
    "streamfunction",
    "streamfunction_x",
    "streamfunction_y",
)
SHEAR = ("wall_shear_x", "wall_shear_y", "wall_shear_z")  # of parts on a side, like the following
NORMAL = ("normal_x", "normal_y", "normal_z")
VARIABLES_RULE = f"a list of {', '.join(FIELDS)} and scalar_0, scalar_1, ..., each at most once"
PLACE_RULE = "three numbers as [x, y, z]"
PLACES = ({"probe.N": ON}, {"file": ON})  # of probes, one of which is needed
MOST_PROBES = 100_000  # because they are columns of a CSV file


class ProbeSection(Checked):
    """A place where the flow is recorded, or places along a line, one section each."""

    place: tuple[Number, Number, Number] = setting(
        ...,
        "Position [x, y, z] of a probe, or of the first probe of a line.",
        unit="length",
        rule=PLACE_RULE,
        needs=recurring("output.probes.every"),
    )
    to: tuple[Number, Number, Number] | None = setting(
        None,
        "Position of the last probe of a line. If it is not set, there is one probe.",
        unit="length",
        rule=PLACE_RULE,
        needs=recurring("output.probes.every"),
    )
    points: Integer = setting(
        1,
        'Number of evenly spaced probes on the line, including "place" and "to".',
        unit="probes",
        ge=1,
        le=MOST_PROBES,
        needs=recurring("output.probes.every"),
    )

    def problems(self) -> Iterator[Problem]:
        if (self.to is None) != (self.points == 1):
            yield Problem("points", 'an integer >= 2 if "to" is set, and 1 otherwise')


class ProbesSection(Scheduled):
    """Velocity, pressure and scalars at the [[probe]] and the places of a file, as CSV."""

    path: PathText = setting(
        "probes.csv",
        "CSV file to write.",
        rule="a path",
        min_length=1,
        needs=recurring(),
    )
    every: Integer = setting(
        1,
        "Number of steps between rows, beginning with step 0; 0 writes none.",
        unit="steps",
        ge=0,
        needs=PLACES,
    )
    every_time: Number | None = time_interval("rows", PLACES)
    every_wall: Number | None = wall_interval("rows", PLACES)
    file: PathText = setting(
        "",
        "CSV file with the positions of further probes, one line x,y,z for each. They come after those of [[probe]].",
        rule="a path",
        needs=recurring(),
    )


class ForcesSection(Scheduled):
    """Force and torque of the flow on sides of the domain, as CSV: density is 1."""

    path: PathText = setting(
        "forces.csv",
        "CSV file to write.",
        rule="a path",
        min_length=1,
        needs=recurring(),
    )
    every: Integer = setting(
        1,
        "Number of steps between rows, beginning with step 0; 0 writes none.",
        unit="steps",
        ge=0,
        needs={"sides": ON},
    )
    every_time: Number | None = time_interval("rows", {"sides": ON})
    every_wall: Number | None = wall_interval("rows", {"sides": ON})
    sides: tuple[str, ...] = setting(
        (),
        "Sides on which the force is recorded. If the list is empty, nothing is written.",
        rule="a list of sides that are not periodic",
        needs=recurring(),
    )
    about: tuple[Number, Number, Number] = setting(
        (0.0, 0.0, 0.0),
        "Point [x, y, z] about which torques are computed.",
        unit="length",
        rule=PLACE_RULE,
        needs=recurring(),
    )
    reference_velocity: Number | None = setting(
        None,
        "Velocity U of the force coefficients F/(U^2 A/2), which are written if reference_area is set too.",
        unit="length/time",
        rule="a number > 0",
        gt=0,
        needs=recurring(),
    )
    reference_area: Number | None = setting(
        None,
        "Area A of the force coefficients.",
        unit="length^2",
        rule="a number > 0",
        gt=0,
        needs=recurring(),
    )

    def problems(self) -> Iterator[Problem]:
        if len(set(self.sides)) < len(self.sides):
            yield Problem("sides", "a list that contains each side at most once")
        if (self.reference_velocity is None) != (self.reference_area is None):
            yield Problem(
                "reference_area",
                "set if reference_velocity is set, and left out if reference_velocity is left out",
            )


def side_names(n_scalars: int) -> tuple[str, ...]:
    """Return the names of fields that only parts on sides have."""
    return (*SHEAR, *NORMAL, *(f"scalar_{i}_flux" for i in range(n_scalars)))


def side_defaults(n_scalars: int) -> tuple[str, ...]:
    """Return the variables of a part on a side that lists none."""
    return (*SHEAR, "pressure", *(f"scalar_{i}_flux" for i in range(n_scalars)))


class InterpolatedPartSection(PartSection):
    """A part of the fields, interpolated to points of a uniform grid in the box around the domain, or on a side."""

    side: str = setting(
        "",
        "Side of the domain on which the part lies, at the points of the elements there. Its variables may also be "
        'wall_shear_x, ..., normal_x, ... and scalar_0_flux, ...; "mean" may be one axis, along which the points of '
        "the side lie on lines, or all three.",
        rule="a side that is not periodic",
    )
    points: Triple | None = setting(
        None,
        "Number of points [nz, ny, nx] of the uniform grid from which the part selects. If it is not set, they are "
        "those of output.uniform or else, in a box, as many as the elements have.",
        unit="points",
        rule="three integers >= 1 as [nz, ny, nx]",
    )

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if not self.side:
            return
        for key in ("plane", "line", "box"):
            if getattr(self, key):
                yield Problem(key, "left out, because the part has a side")
        for key, given in (("stride", self.stride != (1, 1, 1)), ("points", self.points is not None)):
            if given:
                yield Problem(key, "left out, because the part has a side")
        if len(self.mean) == 2:
            yield Problem("mean", 'one axis, or all of "x", "y" and "z", on a side')


class OutputSection(sections.FieldsOutputSection):
    """Fields, time series and statistics. Paths are relative to the directory in which the run is started."""

    path: PathText = setting(
        "navier_stokes.bp",
        "Data set to which the fields are written.",
        rule="a path",
        min_length=1,
    )
    variables: tuple[str, ...] = setting(
        FIELDS[:4], "Fields to write.", rule=VARIABLES_RULE, min_length=1, max_length=200
    )
    uniform: Triple | None = setting(
        None,
        "Number of points [nz, ny, nx] of a uniform grid in the box around the domain, to which the fields of "
        "output.path are interpolated; they are NaN outside the domain. If it is not set, the fields are written at "
        "the points of the elements, with their coordinates.",
        unit="points",
        rule="three integers >= 1 as [nz, ny, nx]",
    )
    series_every: Integer = setting(
        10,
        "Number of steps between rows of the time series, beginning with step 0; 0 writes none.",
        unit="steps",
        ge=0,
    )
    nek5000: PathText = setting(
        "",
        'Prefix of the Nek5000 field files, which are "prefix0.f00001", ... and "prefix.nek5000".',
        rule="a path",
        needs=recurring("nek5000_every"),
    )
    nek5000_every: Integer = setting(
        0,
        "Number of steps between Nek5000 field files, beginning with step 0; 0 writes none.",
        unit="steps",
        ge=0,
    )
    nek5000_every_time: Number | None = time_interval("Nek5000 field files")
    nek5000_every_wall: Number | None = wall_interval("Nek5000 field files")
    nek5000_geometry: Literal["first", "every"] = setting(
        "first",
        'Which Nek5000 field files contain the coordinates of the points: only the "first", as Nek5000 writes them, '
        'or "every" one, for readers such as pymech that open a file without the previous ones.',
        needs=recurring("nek5000_every"),
    )
    nek5000_precision: Literal["float32", "float64"] = setting(
        "float32",
        "Floating-point type of the Nek5000 field files.",
        needs=recurring("nek5000_every"),
    )
    statistics: PathText = setting(
        "statistics.bp",
        "Data set to which the means and moments are written.",
        rule="a path",
        min_length=1,
        needs=recurring("statistics_every"),
    )
    statistics_every: Integer = setting(
        0,
        "Number of steps between samples of the statistics, beginning with step 0; 0 takes none.",
        unit="steps",
        ge=0,
    )
    statistics_every_time: Number | None = time_interval("samples of the statistics")
    statistics_every_wall: Number | None = wall_interval("samples of the statistics")
    statistics_window: Integer = setting(
        0,
        "Number of steps between the ends of windows, each of which is written as it ends, with averages over it "
        "alone. With 0 there is one window unless statistics_window_time is set, which is written when the run ends.",
        unit="steps",
        ge=0,
        needs=recurring("statistics_every"),
    )
    statistics_window_time: Number | None = time_interval(
        "the ends of windows of the statistics", recurring("statistics_every")
    )
    statistics_start: Number = setting(
        0.0,
        "Model time of the first sample.",
        unit="time",
        ge=0,
        needs=recurring("statistics_every"),
    )
    homogeneous: tuple[Direction, ...] = setting(
        (),
        "Directions over which the statistics are averaged in addition to time.",
        rule='a list of "x", "y" and "z", each at most once',
        needs=recurring("statistics_every"),
    )
    statistics_of: Literal["moments", "budgets"] = setting(
        "moments",
        'Contents of the statistics: "moments" (means and second moments) or "budgets" (also third moments and the '
        "terms of the budget of the Reynolds stresses, 25 more numbers for each point).",
        needs=recurring("statistics_every"),
    )
    part: tuple[InterpolatedPartSection, ...] = Field(default=())
    probes: ProbesSection = Field(default_factory=ProbesSection)
    forces: ForcesSection = Field(default_factory=ForcesSection)

    def problems(self) -> Iterator[Problem]:
        known = all(name in FIELDS or re.fullmatch(r"scalar_(0|[1-9]\d*)", name) for name in self.variables)
        if not known or len(set(self.variables)) < len(self.variables):
            yield Problem("variables", VARIABLES_RULE)
        if self.interval("nek5000_every") and not self.nek5000:
            yield Problem(
                "nek5000", "a prefix if an interval of Nek5000 files, such as output.nek5000_every, is set"
            )
        if len(set(self.homogeneous)) < len(self.homogeneous):
            yield Problem("homogeneous", 'a list of "x", "y" and "z", each at most once')

    def written(self) -> dict[str, str]:
        paths = super().written()
        if self.interval("nek5000_every") and self.nek5000:
            paths["output.nek5000"] = self.nek5000
        if self.interval("statistics_every"):
            paths["output.statistics"] = self.statistics
        if self.forces.sides and self.forces.interval():
            paths["output.forces.path"] = self.forces.path
        return paths
