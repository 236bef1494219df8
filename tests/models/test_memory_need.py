"""Too little memory is told before a run takes any, with what would fit; estimates are not below what is taken."""

import math
import tracemalloc

import pytest
from mpi4py import MPI

from ridgeline.models import case_class, create, estimate, memory_check
from ridgeline.models.memory_check import MemoryCapacity, memory_needed, refuse_what_does_not_fit, shortage
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import number
from ridgeline.simulation import limits

GIB = 2**30
GIANTS = {
    "gray_scott": {"grid": {"shape": [1100, 1100, 1100]}},
    "turbulence": {"grid": {"shape": [1100, 1100, 1100]}, "model": {"viscosity": 0.01, "dt": 0.001}},
    "navier_stokes": {
        "grid": {"elements": [400, 400, 400], "order": 15, "periodic": [True, True, True]},
        "model": {"viscosity": 0.01, "dt": 0.001},
    },
    "reaction_diffusion": {
        "grid": {"shape": [1100, 1100, 1100]},
        "model": {"dt": 0.1, "species": [{"name": name, "diffusivity": 1.0} for name in "AB"]},
    },
    "molecular_dynamics": {"grid": {"cells": [600, 600, 600]}},
    "n_body": {"grid": {"shape": [700, 700, 700], "length": 700.0}},
}


def case_of(name, **sections):
    document = {"run": {"model": name, "steps": 2}, **GIANTS[name]}
    for section, values in sections.items():
        document[section] = {**document.get(section, {}), **values}
    return case_class(name).model_validate(document)


@pytest.mark.parametrize("model", GIANTS)
def test_a_giant_is_refused_at_once_and_what_is_proposed_fits(model):
    case = case_of(model)
    tracemalloc.start()
    try:
        plan = estimate(case, 2)
        room = MemoryCapacity("node7", 2, 16 * GIB, 2**63 - 1)
        text = shortage(case, plan, 2, room)
        assert tracemalloc.get_traced_memory()[1] < 100e6, "the estimate itself takes memory"
    finally:
        tracemalloc.stop()
    assert text is not None
    assert f"on node7 (2 ranks of {number(memory_needed(plan), 'B')}), but 17.18 GB are free" in text
    grid = case.grid.shrunk(0.0001)
    key = f"grid.{grid.EXTENT} = "
    proposed = [int(n) for n in text.partition(key)[2].partition("[")[2].partition("]")[0].split(",")]
    smaller = case_of(model, grid={grid.EXTENT: proposed})
    assert shortage(smaller, estimate(smaller, 2), 2, room) is None
    bigger = case_of(model, grid={grid.EXTENT: [int(n * 1.3) // 2 * 2 for n in proposed]})
    assert shortage(bigger, estimate(bigger, 2), 2, room) is not None
    nodes = int(text.partition(" such nodes")[0].split()[-1])
    assert memory_needed(estimate(case, 2 * nodes)) <= room.per_rank


def test_ranks_of_a_node_share_its_memory_and_each_has_its_own_limit():
    case = case_of("gray_scott", grid={"shape": [64, 64, 64]})
    need = memory_needed(estimate(case, 4))
    assert (
        shortage(case, estimate(case, 4), 4, MemoryCapacity("n", 4, math.ceil(4 * need), 2**63 - 1)) is None
    )
    text = shortage(case, estimate(case, 4), 4, MemoryCapacity("n", 4, int(4 * need) - 4, 2**63 - 1))
    assert text is not None
    text = shortage(case, estimate(case, 4), 4, MemoryCapacity("n", 4, 64 * GIB, int(need) - 1))
    assert text is not None
    assert "ulimit" in text


def test_a_plane_is_shrunk_as_a_plane():
    case = case_of("gray_scott", grid={"shape": [1, 400, 400]})
    assert case.grid.shrunk(0.25).shape == (1, 200, 200)


def test_a_run_is_refused_unless_told_otherwise(monkeypatch):
    monkeypatch.setattr(memory_check, "node_memory_available", lambda: 10**6)
    with pytest.raises(ConfigError, match=r"needs .* but 1 MB are free there\. .*run\.check_memory = false"):
        refuse_what_does_not_fit(case_of("gray_scott"), MPI.COMM_SELF)
    refuse_what_does_not_fit(case_of("gray_scott", run={"check_memory": False}), MPI.COMM_SELF)


@pytest.mark.parametrize(
    "error", [MemoryError("nothing left"), RuntimeError("STREAM computed a wrong result")]
)
def test_limits_that_cannot_be_measured_do_not_fail_a_run(monkeypatch, caplog, error):
    def fail(*_, **options):
        raise error

    monkeypatch.setattr(limits, "measure_stream", fail)
    found = limits.measure_limits(Context(MPI.COMM_SELF))
    assert found["best"] == 0.0
    assert "memory bandwidth could not be measured" in caplog.text


SMALL = {
    "gray_scott": ({"shape": [40, 40, 40]}, {"shape": [80, 80, 80]}),
    "turbulence": ({"shape": [48, 48, 48]}, {"shape": [80, 80, 80]}),
    "navier_stokes": ({"elements": [3, 3, 3], "order": 7}, {"elements": [6, 6, 6], "order": 7}),
}
FURTHER = {
    "gray_scott": [{}, {"run": {"precision": "float32"}, "model": {"steps_per_sweep": 2}}],
    "turbulence": [
        {"output": {"spectra_every": 1}},
        {"model": {"dealias": "none", "scheme": "rk4"}, "output": {"variables": ["velocity_x", "pressure"]}},
    ],
    "navier_stokes": [
        {"output": {"statistics_every": 1}},
        {"grid": {"mapping": "wavy"}, "model": {"pressure": {"solver": "cg"}}},
    ],
}


def taken(case):
    """Return the peak of what Python and NumPy allocate for a case, from set-up to its outputs."""
    tracemalloc.start()
    try:
        model = create(case.run.model)
        model.setup(case, Context(MPI.COMM_SELF))
        model.compile()
        model.initialize()
        model.step(1)
        model.series()
        if getattr(case.output, "spectra_every", 0):
            model.profiles()
        outputs = model.outputs(case.output.variables)
        copy = next(iter(outputs.values())).local.copy()
        del outputs, copy
        model.state()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("model", SMALL)
def test_the_estimate_is_not_below_what_is_taken(model, which):
    small, big = (case_of(model, **FURTHER[model][which]) for _ in range(2))
    cases = []
    for base, grid in zip((small, big), SMALL[model]):
        document = base.model_dump()
        cases.append(type(base).model_validate({**document, "grid": {**document["grid"], **grid}}))
    taken(cases[0])  # imports and compiles, which has a price that does not grow
    less, more = (taken(case) for case in cases)
    needed = [memory_needed(estimate(case, 1)) for case in cases]
    assert more - less <= 1.06 * (needed[1] - needed[0])  # surfaces, which are much of so small blocks
    assert needed[1] - needed[0] < 1.6 * (more - less)
