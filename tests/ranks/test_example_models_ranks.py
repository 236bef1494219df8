"""The model of docs/particle-models.md on several ranks: each particle is on the rank that owns its place."""

from pathlib import Path

import ridgeline
from ridgeline import models
from ridgeline.runtime.context import Context

RANKS = (2, 3)
QUICK_RANKS = ()
MODELS = Path(__file__).resolve().parents[2] / "docs" / "example_models"


def test_every_particle_moves_to_the_owner_of_its_place(comm, monkeypatch):
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(MODELS)])
    case = ridgeline.Case(
        "oscillators", steps=40, grid={"shape": (3, 5, 7)}, parameters={"frequency": 2.0, "dt": 0.05}
    )
    model = models.create("oscillators")
    model.setup(case.settings, Context(comm))
    model.compile()
    model.initialize()
    for _ in range(40):
        model.step(1)
        _, elsewhere = model._boxes.owners(model._particles.position, comm.rank)
        assert elsewhere == 0
    assert comm.allreduce(model._migration.moved) >= 70, "two of three layers at least cross the origin"
