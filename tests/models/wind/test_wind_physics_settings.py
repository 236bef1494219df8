"""Settings of the physics: what they derive, and the rules that they name."""

import math
from types import SimpleNamespace

import pytest

from ridgeline.models.wind.settings_initial import InitialSection
from ridgeline.models.wind.settings_physics import (
    DampingSection,
    DrivingSection,
    ProfileSettings,
    RotationSection,
    SubgridSection,
    SurfaceSection,
    TemperatureSection,
    TurbineSection,
    physics_problems,
)

AIR = TemperatureSection(enabled=True)


def broken(has_surface=True, scalars=0, periodic=(False, True, True), **sections):
    """The keys of the rules between sections that a case of 10 cells of 10 m in z breaks."""
    case = {
        "subgrid": SubgridSection(),
        "surface": SurfaceSection(),
        "temperature": TemperatureSection(),
        "rotation": RotationSection(),
        "driving": DrivingSection(),
        "damping": DampingSection(),
        "turbine": (),
        "initial": InitialSection(),
        **sections,
    }
    found = physics_problems(
        SimpleNamespace(**case), (100.0, 200.0, 300.0), (10, 20, 30), periodic, has_surface, scalars
    )
    return [problem.key for problem in found]


RULES = {
    "surface.heat": {"surface": SurfaceSection(heat="flux", heat_flux=0.1)},
    "rotation.parameter": {"driving": DrivingSection(kind="geostrophic", geostrophic_wind=(8.0, 0.0))},
    "driving.height": {"driving": DrivingSection(kind="hub-height", target=(8.0, 0.0), height=97.0)},
    "damping.depth": {"damping": DampingSection(depth=101.0, time=5.0)},
    "initial.kind": {"initial": InitialSection(kind="bubble")},
    "initial.scalars": {"initial": InitialSection(scalars=("1",))},
    "surface.roughness": {"surface": SurfaceSection(roughness=5.0)},
    "surface.roughness_heat": {
        "surface": SurfaceSection(heat="temperature", temperature=290.0, roughness_heat=6.0),
        "temperature": AIR,
    },
    "turbine.0.position": {
        "turbine": (TurbineSection(position=(50.0, 50.0, 50.0), diameter=120.0, thrust_coefficient=0.5),)
    },
}


@pytest.mark.parametrize("key", RULES)
def test_rules_between_sections(key):
    assert broken(**RULES[key]) == [key]


def test_a_case_without_faults():
    assert broken() == []
    assert broken(has_surface=False, surface=SurfaceSection(heat="flux", roughness=50.0)) == []
    assert broken(periodic=(True,) * 3, damping=DampingSection(depth=10.0, time=1.0)) == ["damping.depth"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SurfaceSection(heat="temperature"), "temperature must be a number > 0 with surface.heat"),
        (lambda: SurfaceSection(stable=(5.0, 2.0)), "at least half that of momentum"),
        (lambda: TemperatureSection(heights=(0.0, 0.0), values=(1.0, 2.0)), "ascending"),
        (lambda: TemperatureSection(heights=(0.0, 1.0), values=(1.0,)), "a list of 2 numbers"),
        (lambda: RotationSection(latitude=45.0, parameter=1e-4), "left out with rotation.latitude"),
        (lambda: DrivingSection(kind="hub-height"), "height must be a number > 0"),
        (lambda: DampingSection(depth=10.0), "time must be a number > 0"),
        (lambda: InitialSection(kind="log"), "friction_velocity must be"),
    ],
)
def test_rules_inside_a_section(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_derived_values():
    assert RotationSection(parameter=1e-4).coriolis() == (1e-4, 0.0)
    north = RotationSection(latitude=73.0)
    assert north.coriolis() == (pytest.approx(1.39e-4, rel=5e-3), 0.0)
    full = RotationSection(latitude=-30.0, components="full").coriolis()
    assert full == pytest.approx((-7.2921159e-5, 2 * 7.2921159e-5 * math.cos(math.pi / 6)))
    turbine = TurbineSection(position=(0.0, 0.0, 0.0), diameter=1.0, thrust_coefficient=0.75)
    assert turbine.local_coefficient() == pytest.approx(4 / 3)  # a = 1/4
    assert not ProfileSettings().interval("profiles_every")
