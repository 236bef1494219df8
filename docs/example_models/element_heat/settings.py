"""Settings of the heat model on spectral elements."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ridgeline.api import AnyCase, Checked, Integer, Number, sections, setting

Positive = Annotated[Number, Field(gt=0)]
Waves = Annotated[Integer, Field(ge=1)]


class RunSection(sections.RunSection):
    """What runs, how long and on what. The operators of elements are in double precision."""

    model: Literal["element_heat"] = setting(..., "Model to run. `ridgeline explain` lists the models.")
    device: Literal["cpu"] = setting("cpu", "Device on which the kernels run.")
    precision: Literal["float64"] = setting("float64", "Floating-point type of the fields.")


class GridSection(sections.GridSection):
    """A box of elements, [E_z, E_y, E_x] = shape, and what holds at its sides."""

    order: Integer = setting(7, "Polynomial order p. An element has (p + 1)^3 points.", ge=1, le=31)
    lengths: tuple[Positive, Positive, Positive] = setting(
        (1.0, 1.0, 1.0), "Lengths of the box, [L_z, L_y, L_x].", unit="length", rule="three numbers > 0"
    )
    boundary: Literal["periodic", "fixed"] = setting("fixed", 'What holds at the sides; "fixed" is T = 0.')


class OutputSection(sections.OutputSection):
    """The data set."""

    path: str = setting("heat.bp", "Data set to which the fields are written.", rule="a path", min_length=1)
    variables: tuple[Literal["T"], ...] = setting(("T",), "Fields to write.", rule='["T"]', min_length=1)


class ModelSection(Checked):
    """T_t = D lap(T), by the implicit midpoint rule."""

    D: Number = setting(1.0, "Diffusivity.", unit="length^2/time", gt=0)
    dt: Number = setting(0.01, "Time step.", unit="time", gt=0)
    tolerance: Number = setting(1e-10, "Error of T that a solve may leave.", unit="temperature", gt=0)


class InitialSection(Checked):
    """The state of step 0: a product of three sines, which decays and keeps its shape."""

    amplitude: Number = setting(1.0, "Amplitude of the product.", unit="temperature")
    waves: tuple[Waves, Waves, Waves] = setting(
        (1, 1, 1), "Number of waves in z, y and x.", rule="three integers >= 1"
    )


class ElementHeatCase(AnyCase):
    """Settings of one run of the heat model on spectral elements."""

    PHYSICS: ClassVar[tuple[str, ...]] = (*AnyCase.PHYSICS, "grid", "model", "initial")

    run: RunSection
    grid: GridSection
    model: ModelSection = Field(default_factory=ModelSection)
    initial: InitialSection = Field(default_factory=InitialSection)
    output: OutputSection = Field(default_factory=OutputSection)

    def step_length(self) -> float:
        """Return the time step, with which outputs at model times are planned."""
        return self.model.dt


CASE = ElementHeatCase
