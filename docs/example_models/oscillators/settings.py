"""Settings of particles in a harmonic potential."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from ridgeline.api import AnyCase, Checked, Number, Problem, sections, setting

Name = Literal["position", "velocity"]


class RunSection(sections.RunSection):
    """What runs, how long and on what."""

    model: Literal["oscillators"] = setting(..., "Model to run. `ridgeline explain` lists the models.")
    precision: Literal["float64"] = setting("float64", "Floating-point type of the particles.")
    device: Literal["cpu"] = setting("cpu", "Device on which the model runs.")


class OutputSection(sections.OutputSection):
    """The data set."""

    path: str = setting("oscillators.bp", "Data set of the particles.", rule="a path", min_length=1)
    variables: tuple[Name, ...] = setting(
        ("position", "velocity"), "Fields to write.", rule='some of "position" and "velocity"', min_length=1
    )


class ModelSection(Checked):
    """x_tt = -frequency^2 x in a box with edges of length 1 around the origin, velocity Verlet."""

    frequency: Number = setting(1.0, "Angular frequency.", unit="1/time", gt=0)
    dt: Number = setting(0.05, "Time step, which is at most 1/frequency.", unit="time", gt=0)

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        if self.dt * self.frequency > 1:
            yield Problem("dt", "at most 1/frequency, half of the stability limit")


class OscillatorsCase(AnyCase):
    """Settings of one run: grid.shape is the lattice on which the particles start, at rest."""

    PHYSICS: ClassVar[tuple[str, ...]] = (*AnyCase.PHYSICS, "model")

    run: RunSection
    grid: sections.GridSection
    model: ModelSection = Field(default_factory=ModelSection)
    output: OutputSection = Field(default_factory=OutputSection)

    def step_length(self) -> float:
        """Return the time step, with which outputs at model times are planned."""
        return self.model.dt


CASE = OscillatorsCase
