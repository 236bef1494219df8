"""Settings of the heat model."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from ridgeline.api import AnyCase, Checked, Integer, Number, Problem, sections, setting


class RunSection(sections.RunSection):
    """What runs, how long, in which precision and on what."""

    model: Literal["heat"] = setting(..., "Model to run. `ridgeline explain` lists the models.")
    device: Literal["cpu"] = setting(
        "cpu", "Device on which the kernels run. This model has no kernels for GPUs."
    )


class OutputSection(sections.OutputSection):
    """The data set."""

    path: str = setting("heat.bp", "Data set to which the fields are written.", rule="a path", min_length=1)
    variables: tuple[Literal["T"], ...] = setting(("T",), "Fields to write.", rule='["T"]', min_length=1)


class ModelSection(Checked):
    """T_t = D lap(T), forward Euler, 7-point stencil."""

    D: Number = setting(1.0, "Diffusivity.", unit="cells^2/time", gt=0)
    dt: Number = setting(0.1, "Time step, which is at most 1/(6 D).", unit="time", gt=0)

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        if self.dt * self.D * 6 > 1:
            yield Problem("dt", "at most 1/(6 D), the stability limit of forward Euler")


class InitialSection(Checked):
    """The state of step 0: one cosine, which decays and keeps its shape."""

    amplitude: Number = setting(1.0, "Amplitude of the cosine.", unit="temperature")
    waves: tuple[Integer, Integer, Integer] = setting(
        (0, 0, 1), "Number of waves in z, y and x.", rule="three integers"
    )


class HeatCase(AnyCase):
    """Settings of one run of the heat model."""

    PHYSICS: ClassVar[tuple[str, ...]] = (*AnyCase.PHYSICS, "grid.boundary", "model", "initial")

    run: RunSection
    grid: sections.BlockGridSection
    model: ModelSection = Field(default_factory=ModelSection)
    initial: InitialSection = Field(default_factory=InitialSection)
    output: OutputSection = Field(default_factory=OutputSection)

    def step_length(self) -> float:
        """Return the time step, with which outputs at model times are planned."""
        return self.model.dt


CASE = HeatCase
