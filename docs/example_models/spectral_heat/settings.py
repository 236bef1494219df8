"""Settings of heat conduction in Fourier space."""

from typing import ClassVar, Literal

from pydantic import Field

from ridgeline.api import AnyCase, Checked, Integer, Number, sections, setting


class RunSection(sections.RunSection):
    """What runs, how long, in which precision and on what."""

    model: Literal["spectral_heat"] = setting(..., "Model to run. `ridgeline explain` lists the models.")
    device: Literal["cpu"] = setting("cpu", "Device on which the model runs.")


class OutputSection(sections.OutputSection):
    """The data set."""

    path: str = setting("spectral_heat.bp", "Data set of the fields.", rule="a path", min_length=1)
    variables: tuple[Literal["T"], ...] = setting(("T",), "Fields to write.", rule='["T"]', min_length=1)


class ModelSection(Checked):
    """T_t = D lap(T) in a periodic box with edges of length 2 pi."""

    D: Number = setting(1.0, "Diffusivity.", unit="length^2/time", gt=0)
    dt: Number = setting(0.01, "Time step; every length of it gives the exact solution.", unit="time", gt=0)


class InitialSection(Checked):
    """The state of step 0: a product of sines."""

    amplitude: Number = setting(1.0, "Amplitude of the product.", unit="temperature")
    waves: tuple[Integer, Integer, Integer] = setting(
        (1, 1, 1), "Number of waves in z, y and x, each below half of the points.", rule="three integers"
    )


class SpectralHeatCase(AnyCase):
    """Settings of one run."""

    PHYSICS: ClassVar[tuple[str, ...]] = (*AnyCase.PHYSICS, "model", "initial")

    run: RunSection
    grid: sections.GridSection
    model: ModelSection = Field(default_factory=ModelSection)
    initial: InitialSection = Field(default_factory=InitialSection)
    output: OutputSection = Field(default_factory=OutputSection)

    def step_length(self) -> float:
        """Return the time step, with which outputs at model times are planned."""
        return self.model.dt


CASE = SpectralHeatCase
