"""The model of docs/element-models.md: the same on ranks that do not share the elements equally."""

from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline import models
from ridgeline.models.contract import Context

RANKS = (2, 3)
QUICK_RANKS = ()
MODELS = Path(__file__).resolve().parents[2] / "docs" / "example_models"


@pytest.mark.parametrize("boundary", ["fixed", "periodic"])
def test_ranks_agree_with_one_rank_and_continue_its_state(
    comm: MPI.Comm, monkeypatch: pytest.MonkeyPatch, boundary: str
) -> None:
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(MODELS)])
    case = models.case_class("element_heat").model_validate(
        {
            "run": {"model": "element_heat", "steps": 1},
            "grid": {"shape": (1, 1, 5), "order": 7, "lengths": (1.0, 1.0, 3.0), "boundary": boundary},
            "model": {"D": 0.1, "tolerance": 1e-12},
        }
    )
    whole, alone = (models.create("element_heat") for _ in range(2))
    resumed = models.create("element_heat")
    for model, ranks in ((whole, comm), (alone, MPI.COMM_SELF), (resumed, comm)):
        model.setup(case, Context(ranks))
        model.compile()
        model.initialize()

    def part(model) -> np.ndarray:
        """Return the temperature of this rank's elements."""
        first, count = resumed.state()["T"].offset_global[0], len(resumed.state()["T"].local)
        array = model.state()["T"]
        return array.local[first - array.offset_global[0] :][:count]

    for step in range(4):
        if step == 2:
            resumed.state()["T"].local[...] = part(alone)
            resumed.restored(2, alone.time(2))
        for model in (whole, alone, resumed) if step >= 2 else (whole, alone):
            model.step(1)
    assert abs(part(alone)).max() > 0.05
    np.testing.assert_allclose(part(whole), part(alone), rtol=0, atol=1e-11)
    np.testing.assert_allclose(part(resumed), part(alone), rtol=0, atol=1e-11)
