"""How many steps a call of the model makes: several where no other rank waits, and the same bits for any number."""

import numba
import pytest
from mpi4py import MPI

from ridgeline.models import case_class, create
from ridgeline.runtime.context import Context

STEPS = 200


@pytest.fixture(autouse=True)
def threads_of_the_process():
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


def made(name: str, threads: int, settings: dict):
    document = {"run": {"model": name, "steps": STEPS}, "grid": {"shape": [6, 7, 9]}, "model": settings}
    model = create(name)
    model.setup(case_class(name).model_validate(document), Context(MPI.COMM_SELF, "cpu", threads))
    model.compile()
    model.initialize()
    return model


def calls(model, most: int) -> tuple[list[int], list[bytes]]:
    """Return the steps of each call until the last step, and the fields then."""
    steps: list[int] = []
    while sum(steps) < STEPS:
        steps.append(model.step(min(most, STEPS - sum(steps))))
    return steps, [array.local.tobytes() for array in model.state().values()]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sweep", [1, 2])
def test_calls_of_many_steps_have_the_bits_of_single_ones(threads: int, sweep: int) -> None:
    settings = {"noise": 0.1, "steps_per_sweep": sweep}
    numba.set_num_threads(threads)
    single, expected = calls(made("gray_scott", threads, settings), 1)
    model = made("gray_scott", threads, settings)
    steps, fields = calls(model, STEPS)
    assert single == [1] * STEPS
    assert steps[0] == sweep  # it warms caches, and its time is reported by itself
    assert len(steps) < STEPS // sweep // 2
    assert fields == expected
    assert model.time(STEPS) == STEPS * 1.0


def test_formulas_of_time_make_one_sweep_a_call() -> None:
    species = [{"name": "A", "diffusivity": 0.1, "rate": "-A", "initial": "x"}]
    steps, _ = calls(made("reaction_diffusion", 1, {"dt": 0.01, "species": species}), STEPS)
    assert len(steps) < STEPS // 2
    species[0]["rate"] = "-A*t"
    settings = {"dt": 0.01, "species": species, "steps_per_sweep": 1}
    steps, _ = calls(made("reaction_diffusion", 1, settings), STEPS)
    assert steps == [1] * STEPS


def test_threads_that_do_not_run_at_once_make_one_sweep_a_call() -> None:
    numba.set_num_threads(2)
    model = made("gray_scott", 2, {"noise": 0.0, "steps_per_sweep": 1})
    model.step(1)
    numba.set_num_threads(1)
    assert model.step(STEPS) == 1
