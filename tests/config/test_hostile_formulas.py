"""Hostile formulas are refused at every place where a formula may stand, with one sentence, and reach nothing."""

import pytest

from ridgeline.config.check import Origin
from ridgeline.config.load import check_document
from ridgeline.models import case_class
from ridgeline.runtime.errors import ConfigError

HOSTILE = (
    "x.__class__",
    "__import__('os').system('true')",
    "(lambda: 1)()",
    "9**9**9**9**9*q",
    "(" * 300 + "x" + ")" * 300,
    "-" * 1500 + "x",
    "x" + "+x" * 990,
    "open('x')",
    "'x'.join(x)",
    "nowhere.py:f",
)
NAVIER_STOKES = {
    "run": {"model": "navier_stokes", "steps": 1},
    "grid": {"elements": [2, 2, 2], "order": 4, "lengths": [1.0, 1.0, 1.0], "periodic": [False, True, True]},
    "model": {"viscosity": 0.1, "dt": 0.01},
}
SIDES = {f"z_{end}": {"kind": "wall"} for end in ("min", "max")}


def gray_scott(formula):
    initial = {"kind": "formula", "formula_u": formula}
    return {
        "run": {"model": "gray_scott", "steps": 1},
        "grid": {"shape": [4, 4, 4]},
        "initial": initial,
    }


def part(formula):
    document = gray_scott("1")
    return {**document, "output": {"part": [{"name": "a", "variables": [f"b = {formula}"]}]}}


def species(key):
    def document(formula):
        return {
            "run": {"model": "reaction_diffusion", "steps": 1},
            "grid": {"shape": [4, 4, 4]},
            "model": {"dt": 0.1, "species": [{"name": "A", key: formula}]},
        }

    return document


def species_at_side(formula):
    side = {"kind": "fixed", "values": {"A": formula}}
    return {**species("initial")("0"), "boundary": {"x_min": side, "x_max": side}}


def flow(formula):
    return {**NAVIER_STOKES, "initial": {"kind": "expression", "velocity": [formula, "0", "0"]}}


def inflow(formula):
    side = {"kind": "inflow", "value": [formula, "0", "0"]}
    return {**NAVIER_STOKES, "boundary": {**SIDES, "z_min": side}}


def scalar(**keys):
    def document(formula):
        table = {"diffusivity": 0.1}
        for key, kind in keys.items():
            table |= {key: {"z_min": {"kind": kind, "value": formula}} if kind else formula}
        return {**NAVIER_STOKES, "boundary": SIDES, "scalar": [table]}

    return document


PLACES = {
    "initial.formula_u": gray_scott,
    "output.part.0.variables": part,
    "model.species.0.rate": species("rate"),
    "model.species.0.initial": species("initial"),
    "model.species.0.diffusivity": species("diffusivity"),
    "boundary.x_min.values": species_at_side,
    "initial.velocity": flow,
    "boundary.z_min.value": inflow,
    "scalar.0.initial": scalar(initial=""),
    "scalar.0.source": scalar(source=""),
    "scalar.0.diffusivity_formula": scalar(diffusivity_formula=""),
    "scalar.0.boundary.z_min.value": scalar(boundary="fixed"),
}


@pytest.mark.parametrize("key", PLACES)
def test_hostile_formulas_are_refused(key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for formula in HOSTILE:
        with pytest.raises(ConfigError) as caught:
            check_document(PLACES[key](formula), case_class, lambda name: Origin(name, "here"))
        (line,) = [line for line in str(caught.value).splitlines() if line.startswith(f"here: {key} is ")]
        assert len(line) < 2100
    assert not list(tmp_path.iterdir())
