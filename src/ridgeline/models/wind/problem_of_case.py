"""The `WindProblem` of a case: sides with their formulas, and the numbers of the forces."""

from __future__ import annotations

import numpy as np

from ridgeline.config.expressions import VARIABLES, parse
from ridgeline.models.wind.forcing import force_numbers, make_profiles
from ridgeline.models.wind.problem import (
    RECONSTRUCTIONS,
    SIDES,
    FlowSide,
    SideField,
    SideValue,
    WindProblem,
    normal_field,
)
from ridgeline.models.wind.settings import ENERGY, SideSection, WindCase


def side_value(text: str) -> SideValue:
    """Return a number, or a function of x, y, z and t."""
    formula = parse(text, VARIABLES)
    if not formula.variables:
        return float(formula.evaluate({}))
    return lambda x, y, z, t: formula.evaluate({"x": x, "y": y, "z": z, "t": t})


def flow_side(case: WindCase, section: SideSection, axis: int) -> FlowSide:
    """Return what the fields have at one side."""
    names = case.transported()
    if section.kind == "outflow":
        return FlowSide.open(3 + len(names))
    velocity = [side_value(text) for text in section.velocity]
    fields = []
    for c in range(3):
        normal = c == normal_field(axis)
        if section.kind == "inflow":
            fields.append(SideField(True, velocity[c]))
        elif section.kind == "wall":
            fields.append(SideField(True, 0.0 if normal else velocity[c]))
        else:
            fields.append(SideField(normal))
    passive = dict(zip(case.passive(), section.scalars))
    for name in names:
        if name == "theta" and section.kind != "surface":
            fixed = section.theta is not None
            fields.append(SideField(fixed, side_value(section.theta or section.theta_flux)))
        elif name in passive:
            fields.append(SideField(True, side_value(passive[name])))
        else:
            fields.append(SideField(name == ENERGY and section.kind == "inflow"))
    return FlowSide(tuple(fields), inflow=section.kind == "inflow")


def make_problem(case: WindCase) -> WindProblem:
    """Return the flow of a case, without what `physical_terms` adds."""
    sides = {
        name: flow_side(case, case.boundary.side(name), n // 2)
        for n, name in enumerate(SIDES)
        if case.boundary.side(name).kind != "periodic"
    }
    theta = (case.temperature.diffusivity,) if case.temperature.enabled else ()
    energy = (0.0,) if case.subgrid.kind == "one-equation" else ()
    heights = np.asarray((np.arange(case.grid.shape[0]) + 0.5) * case.grid.spacing()[0], np.float64)
    profiles = make_profiles(case.temperature, case.damping, case.driving, heights, case.grid.lengths[0])
    m = case.model
    return WindProblem(
        case.grid.shape,
        case.grid.spacing(),
        sides,
        case.transported(),
        m.viscosity,
        (*theta, *(each.diffusivity for each in case.scalar), *energy),
        tuple(float(each) for each in force_numbers(case.rotation, case.driving, case.temperature)),
        profiles.theta,
        m.advection == "godunov",
        RECONSTRUCTIONS[m.reconstruction],
        m.diffusion == "crank-nicolson",
    )
