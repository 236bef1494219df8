"""An external potential: the reference, exact motion, conservation, Boltzmann's density, and errors."""

import math

import numpy as np
import pytest
from mpi4py import MPI
from pydantic import ValidationError
from scipy.special import ellipk

from ridgeline.models import case_class, create, estimate
from ridgeline.models.molecular_dynamics.external_potential import ExternalPotential
from ridgeline.models.molecular_dynamics.reference import ReferenceSolver
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import ParticleError

WAVES = "2*cos(2*pi*x/Lx)*sin(4*pi*y/Ly) + exp(cos(2*pi*z/Lz))"


def case_of(potential, cells=(3, 3, 3), precision="float64", **sections):
    model = {"external_potential": potential, **sections.pop("model", {})}
    document = {"grid": {"cells": cells}, "model": model, **sections}
    document["run"] = {"model": "molecular_dynamics", "steps": 10, "precision": precision}
    return case_class("molecular_dynamics").model_validate(document)


def started(case):
    model = create("molecular_dynamics")
    model.setup(case, Context(MPI.COMM_SELF))
    model.compile()
    model.initialize()
    return model


def output(model, name):
    return model.outputs([name])[name].local


@pytest.mark.parametrize("potential", [WAVES, f"({WAVES})*cos(30*t)"], ids=["steady", "unsteady"])
@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-8), ("float32", 1e-4)])
def test_engine_is_the_reference(potential, precision, tolerance):
    """Long enough for lists to be rebuilt, and for atoms to pass the sides of the box."""
    case = case_of(potential, (4, 4, 4), precision)
    model, reference = started(case), ReferenceSolver(case.melt, external=case.external)
    for _ in range(25):
        model.step(1)
        reference.step()
    assert output(model, "image").any()
    np.testing.assert_allclose(output(model, "velocity"), reference.velocities, atol=tolerance)
    np.testing.assert_allclose(output(model, "force"), reference.forces, atol=100 * tolerance)
    row, expected = model.series(), reference.thermo()
    assert list(row)[:4] == ["Temp", "E_pair", "E_external", "KinEng"]
    assert row["E_external"] == pytest.approx(expected.external_energy, abs=tolerance)
    assert row["TotEng"] == pytest.approx(expected.total_energy, abs=10 * tolerance)
    assert row["TotEng"] == pytest.approx(row["E_pair"] + row["E_external"] + row["KinEng"], rel=1e-14)


def test_energy_is_conserved_and_momentum_is_not():
    """To what the pair potential loses where it is cut off: a wrong force would change it as much as E_external."""
    model = started(case_of(WAVES, model={"dt": 0.002}, neighbour={"every": 5}))
    rows = []
    for _ in range(200):
        model.step(1)
        rows.append(model.diagnostics())
    assert np.ptp([row["TotEng"] for row in rows]) < 0.2 * np.ptp([row["E_external"] for row in rows])
    assert max(abs(rows[-1][f"momentum_{axis}"]) for axis in "xyz") > 1.0


def sliding(potential, dt):
    """A perfect crystal at rest in a potential that moves all its planes in x alike: no pair force acts."""
    return started(case_of(potential, model={"dt": dt}, initial={"temperature": 0.0}, neighbour={"every": 1}))


def test_a_crystal_in_traps_has_the_exact_period():
    """x = c - A cos w' t with Verlet's frequency, sin(w' dt / 2) = w dt / 2, to rounding; planes are Lx/6 apart."""
    w, dt = 1.5, 0.05
    model = sliding(f"0.5*{w * w}*((x + 0.3) % (Lx/6) - 0.4)**2", dt)
    start, length = output(model, "position")[:, 0], model._engine.melt.lengths[0]
    discrete = 2 / dt * math.asin(w * dt / 2)
    steps = round(2 * math.pi / discrete / dt)
    assert steps * dt == pytest.approx(2 * math.pi / w, rel=0.01)
    for n in range(1, steps + 1):
        model.step(1)
        moved = output(model, "position")[:, 0] + length * output(model, "image")[:, 0] - start
        np.testing.assert_allclose(moved, 0.1 * (1 - math.cos(discrete * n * dt)), atol=1e-9)


def test_a_crystal_that_swings_as_a_pendulum_has_its_period_and_keeps_its_energy():
    """V = -A cos q (x - x0): T = 4 K(sin^2(q x0 / 2)) / (q sqrt A). Both errors are of second order in dt."""
    amplitude, x0 = 3.0, 0.2
    errors, spread = [], []
    for dt in (0.01, 0.005):
        model = sliding(f"-{amplitude}*cos(12*pi*(x - {x0})/Lx)", dt)
        length = model._engine.melt.lengths[0]
        q = 12 * math.pi / length
        half = 2 * ellipk(math.sin(q * x0 / 2) ** 2) / (q * math.sqrt(amplitude))
        velocities, energies = [0.0], [model.series()["TotEng"]]
        while len(velocities) < 3 or velocities[-1] > 0:
            model.step(1)
            velocities.append(float(output(model, "velocity")[0, 0]))
            energies.append(model.series()["TotEng"])
        fast, slow = velocities[-2:]
        found = dt * (len(velocities) - 2 + fast / (fast - slow))  # when it stands still at the other end
        errors.append(abs(found - half))
        spread.append(np.ptp(energies))
    assert errors[1] < 2e-4 * half
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)
    assert spread[0] / spread[1] == pytest.approx(4.0, rel=0.1)


@pytest.mark.full
def test_density_is_boltzmann_s():
    """A thin gas near Boyle's temperature, with a thermostat: n ~ exp(-V/T), to five standard errors of counts."""
    temperature, depth = 3.4, 3.0
    model = started(
        case_of(
            f"{depth}*cos(8*pi*x/Lx)",
            (5, 5, 5),
            model={"density": 0.02, "dt": 0.01},
            neighbour={"every": 5, "skin": 0.6},
            thermostat={"kind": "langevin", "temperature": temperature, "damping": 1.0},
            initial={"temperature": temperature},
        )
    )
    wave, counts = model._engine.melt.lengths[0] / 4, np.zeros(8)
    for n in range(1600):
        model.step(1)
        if n >= 400 and n % 60 == 0:
            counts += np.histogram(output(model, "position")[:, 0] % wave, 8, (0, wave))[0]
    fine = np.exp(-depth / temperature * np.cos(2 * np.pi * (np.arange(800) + 0.5) / 800)).reshape(8, 100)
    expected = fine.sum(1) / fine.sum() * counts.sum()
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    assert counts.max() > 4 * counts.min()


@pytest.mark.parametrize(
    ("potential", "words"),
    [
        (
            "cos(X)",
            r'In "cos\(X\)", X is unknown \(did you mean x\?\); the known names are x, y, z, t, Lx, Ly, Lz',
        ),
        ("1/x", r'Of "1/x", the formula is not: it is inf at x = 0, y = 0, z = 0 and t = 0'),
        (
            "sqrt(x)",
            r'Of "sqrt\(x\)", its derivative by x is not: it is inf at x = 0, y = 0, z = 0 and t = 0',
        ),
        ("*".join(["x"] * 190), r"the derivative by x has more than 4000 terms"),
        ("x.real", r"'x.real' is not arithmetic"),
    ],
)
def test_potentials_that_cannot_be_used_are_refused(potential, words):
    with pytest.raises(ValidationError, match=words):
        case_of(potential)


def test_check_says_where_the_potential_jumps_between_periodic_sides():
    def doubts(text):
        return [words for _, words in case_of(text).doubts()]

    assert doubts(WAVES) == []
    assert doubts("0.5*(x - Lx/2)**2") == [
        f"its slope in x jumps by up to {case_of('x').melt.lengths[0]:.3g} between the sides x = 0 and x = Lx, "
        "through which atoms pass"
    ]
    assert [words[:19] for words in doubts("y**2 + cos(2*pi*z/Lz)")] == ["the potential jumps"]
    (remark, *_) = estimate(case_of("cos(2*pi*x/Lx)*t"), 1).remarks
    assert remark.endswith("energy and momentum are not conserved")


def test_a_force_that_is_not_finite_names_atom_place_and_time():
    model = started(case_of("x/(0.012 - t)", model={"dt": 0.006}))
    model.step(1)
    message = (
        r"'x/\(0.012 - t\)' gives the force \[.*inf, .*\] on atom \d+ in step 2, at x = .* and t = 0.012, but"
    )
    with pytest.raises(ParticleError, match=message):
        model.step(1)


def test_forces_are_taken_inside_the_box():
    """At images of a place the energies and forces are the same, also where the potential jumps."""
    potential = ExternalPotential.of("x**2 + sin(y*Lz)")
    lengths = np.array([3.0, 4.0, 5.0])
    places = np.array([[0.5, 1.0, 2.0]])
    energy, force = potential.at(places, lengths, 0.0)
    assert energy[0] == 0.25 + math.sin(5.0)
    np.testing.assert_allclose(force, [[-1.0, -5 * math.cos(5.0), 0.0]])
    for turn in (-1, 2):
        again = potential.at(places + turn * lengths, lengths, 0.0)
        np.testing.assert_allclose(again[1], force, rtol=1e-13)
