"""Cases of reaction-diffusion for several test folders, and runs of them."""

import numpy as np
from mpi4py import MPI

from ridgeline.models import create
from ridgeline.models.reaction_diffusion.reference import ReferenceSolver
from ridgeline.models.reaction_diffusion.settings import ReactionDiffusionCase
from ridgeline.runtime.context import Context

BRUSSELATOR = (
    {"name": "X", "diffusivity": 0.1, "rate": "a - (b + 1)*X + X**2*Y", "initial": "a + 0.1*random"},
    {"name": "Y", "diffusivity": 0.8, "rate": "b*X - X**2*Y", "initial": "b/a + 0.1*random"},
)
GRAY_SCOTT = (
    {"name": "U", "diffusivity": 0.2, "rate": "F*(1 - U) - U*V**2", "initial": "1 - 0.5*(abs(x - 5) < 3)"},
    {"name": "V", "diffusivity": 0.1, "rate": "U*V**2 - (F + k)*V", "initial": "0.25*(abs(x - 5) < 3)"},
)
# Every way to spread, a species that does not, time, place, functions and two noisy species.
EVERYTHING = (
    {"name": "A", "diffusivity": 0.1, "rate": "-A*B/(1 + C) + 0.1*sin(x + t)", "initial": "1 + 0.3*random"},
    {
        "name": "B",
        "diffusivity": [0.1, 0.05, 0.02],
        "rate": "A - B if A > B else z*0.01",
        "initial": "0.5",
        "noise": 0.2,
    },
    {
        "name": "C",
        "diffusivity": "0.05*(1 + x*y/100)",
        "rate": "minimum(A, B)**3 - C % 0.7",
        "initial": "x*y*0.01",
    },
    {"name": "W", "rate": "a*(A - W)", "initial": "random", "noise": 0.1},
)


def make_case(species=BRUSSELATOR, shape=(6, 10, 21), **sections):
    """Return a case; sections: of settings, which are added to or replace those given here."""
    document = {
        "run": {"model": "reaction_diffusion", "steps": 100, "seed": 11},
        "grid": {"shape": list(shape)},
        "model": {"dt": 0.05, "parameters": {"a": 1.0, "b": 3.0, "F": 0.02, "k": 0.05}},
        "boundary": {},
    }
    for name, values in sections.items():
        document[name] = document.get(name, {}) | values
    document["model"]["species"] = [dict(each) for each in species]
    return ReactionDiffusionCase.model_validate(document)


def start(case, comm=MPI.COMM_SELF, threads=1):
    """Return the model of a case at its initial state."""
    model = create("reaction_diffusion")
    model.setup(case, Context(comm, "cpu", threads))
    model.compile()
    model.initialize()
    return model


def advance(model, steps):
    """Advance a model by some steps."""
    done = 0
    while done < steps:
        done += model.step(steps - done)


def owned(model):
    """Return copies of this rank's fields."""
    return [np.array(array.local) for array in model.state().values()]


def compare_with_reference(case, steps):
    """Return the fields of the model and of the reference after some steps, on one rank."""
    model = start(case)
    reference = ReferenceSolver(case, owned(model))
    advance(model, steps)
    reference.advance(steps)
    return owned(model), reference.fields
