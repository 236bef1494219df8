"""The whole model on several ranks: equal to the NumPy reference, and bit for bit to one rank."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks import sweep_choice, sweep_plan
from ridgeline.models import create
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.models.gray_scott.reference import advance
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.parallel import autotuner
from ridgeline.parallel.partition import factorizations
from ridgeline.runtime.context import Context

QUICK_RANKS = (3,)

STEPS = 50


def make_case(shape, boundary="periodic", process_grid="auto", noise=0.1, precision="float64", sweep=1):
    return GrayScottCase.model_validate(
        {
            "run": {"model": "gray_scott", "steps": STEPS, "seed": 11, "precision": precision},
            "grid": {"shape": list(shape), "boundary": boundary, "process_grid": process_grid},
            "model": {"noise": noise, "steps_per_sweep": sweep},
            "initial": {"half_width": 4},
        }
    )


def simulate(comm, case, steps=STEPS, threads=1):
    """Return the global U and V after `steps`, on every rank."""
    model = create("gray_scott")
    model.setup(case, Context(comm, "cpu", threads))
    model.compile()
    model.initialize()
    done = 0
    while done < steps:
        done += model.step(steps - done)
    return whole_fields(comm, model)


def expected(case, steps=STEPS):
    shape = case.grid.shape
    u, v = np.ones(shape, case.run.precision), np.zeros(shape, case.run.precision)
    box = tuple(slice(n // 2 - 4, n // 2 + 4) for n in shape)
    u[box], v[box] = 0.25, 0.33
    m = case.model
    c = coefficients(m.Du, m.Dv, m.F, m.k, m.noise, m.dt, u.dtype)
    return advance(u, v, c, steps, case.grid.boundary, case.run.seed)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("boundary", ["periodic", "fixed"])
def test_equal_to_the_reference_after_50_steps(comm, boundary, noise):
    case = make_case((37, 20, 51), boundary, noise=noise)
    for found, wanted in zip(simulate(comm, case), expected(case)):
        assert np.abs(found - wanted).max() <= 1e-13 * np.abs(wanted).max()


@pytest.mark.parametrize("boundary", ["periodic", "fixed"])
@pytest.mark.parametrize("sweep", [1, 2])
def test_every_process_grid_gives_the_bits_of_one_rank(comm, boundary, sweep):
    shape = (13, 17, 19)
    alone = simulate(MPI.COMM_SELF, make_case(shape, boundary), steps=9)
    for grid in factorizations(comm.size):
        case = make_case(shape, boundary, process_grid=grid, sweep=sweep)
        for found, wanted in zip(simulate(comm, case, steps=9), alone):
            assert found.tobytes() == wanted.tobytes(), grid


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_both_precisions_and_two_threads_give_the_bits_of_one_rank(comm, precision):
    case = make_case((10, 18, 33), precision=precision, sweep="auto")
    alone = simulate(MPI.COMM_SELF, case, steps=7)
    for found, wanted in zip(simulate(comm, case, steps=7), alone):
        assert found.tobytes() == wanted.tobytes()
    tolerance = 1e-13 if precision == "float64" else 2e-6
    for found, wanted in zip(alone, expected(case, steps=7)):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_diagnostics_do_not_depend_on_ranks(comm):
    results = []
    for ranks in (MPI.COMM_SELF, comm):
        model = create("gray_scott")
        model.setup(make_case((9, 11, 14)), Context(ranks))
        model.compile()
        model.initialize()
        for _ in range(3):
            model.step(1)
        results.append(model.diagnostics())
    alone, together = results
    assert together.keys() == alone.keys()
    for name, value in alone.items():
        assert together[name] == value, name


def test_nonfinite_cell_is_found_by_its_global_index(comm):
    model = create("gray_scott")
    model.setup(make_case((9, 8, 16)), Context(comm))
    model.compile()
    model.initialize()
    assert model.locate_nonfinite() is None
    v = model.state()["V"]
    cell = (5, 3, 14)
    local = [c - o for c, o in zip(cell, v.offset_global)]
    if all(0 <= c < n for c, n in zip(local, v.local.shape)):
        v.local[tuple(local)] = np.nan
    assert model.locate_nonfinite() == "V at z=5, y=3, x=14"


def test_total_is_conserved_without_reaction(comm):
    case = make_case((16, 12, 20), noise=0.0).model_copy(deep=True)
    case = GrayScottCase.model_validate(
        case.model_dump() | {"model": {"F": 0, "k": 0, "noise": 0, "Du": 0.2, "Dv": 0.2, "dt": 1.0}}
    )
    before, after = simulate(comm, case, steps=0), simulate(comm, case, steps=40)
    total = sum(field.sum() for field in before)
    assert abs(sum(field.sum() for field in after) - total) <= 1e-13 * total


@pytest.mark.parametrize("boundary", ["periodic", "fixed"])
def test_what_ranks_time_together_changes_no_bit_and_is_the_same_on_all(
    comm, boundary, tmp_path, monkeypatch
):
    shape = (4 * comm.size + 1, 10, 19)
    alone = simulate(MPI.COMM_SELF, make_case(shape, boundary, sweep="rule"), steps=7)
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", comm.bcast(str(tmp_path)))
    for name, value in (("CELLS_TIMED", 0), ("CELL_STEPS_TIMED", 1)):
        monkeypatch.setattr(sweep_plan, name, value)
    monkeypatch.setattr(sweep_choice, "CELLS_PER_CALL", 1)
    monkeypatch.setattr(autotuner, "SECONDS", 0.0)
    monkeypatch.setattr(sweep_choice, "busiest_share", lambda comm, since: 0.0)
    case = make_case(shape, boundary, process_grid=(comm.size, 1, 1), sweep="auto")
    for source in ("as timed now", "as timed in an earlier run"):
        model = create("gray_scott")
        model.setup(case, Context(comm, "cpu", 1))
        facts = model.describe()
        assert facts["sweep_chosen"] == source
        assert len({repr(each["trials"]) for each in comm.allgather(facts)}) == 1
    for found, wanted in zip(simulate(comm, case, steps=7), alone):
        assert found.tobytes() == wanted.tobytes()


def run_until(comm, case, times, sweep_most=100, resumed=None):
    """Return model, step and time after meeting all times, from the start or from (step, time, U and V)."""
    model = create("gray_scott")
    model.setup(case, Context(comm, "cpu", 1))
    model.compile()
    model.initialize()
    step, time = 0, 0.0
    if resumed is not None:
        step, time, fields = resumed
        for array, whole in zip(model.state().values(), fields):
            place = tuple(slice(o, o + n) for o, n in zip(array.offset_global, array.local.shape))
            array.local[...] = whole[place]
        model.restored(step, time)
    for until in times:
        while time < until:
            step += model.step(sweep_most, until)
            time = model.time(step)
        assert time == until
    return model, step


def whole_fields(comm, model):
    fields = []
    for array in model.state().values():
        whole = np.empty(array.shape_global, array.local.dtype)
        for offset, local in comm.allgather((array.offset_global, array.local.copy())):
            whole[tuple(slice(o, o + n) for o, n in zip(offset, local.shape))] = local
        fields.append(whole)
    return fields


@pytest.mark.parametrize("sweep", [1, 3])
def test_times_are_met_with_the_same_bits_in_any_sweeps_on_any_ranks_and_after_a_resume(comm, sweep):
    case = make_case((14, 12, 18), sweep=sweep)
    times = (3.3, 21.7, 30.0)
    model, last = run_until(comm, case, times)
    fields = whole_fields(comm, model)
    alone, steps = run_until(MPI.COMM_SELF, make_case((14, 12, 18)), times)
    assert steps == last
    for name, field in zip("UV", fields):
        assert (field == alone.state()[name].local).all()
    # Resumed between two shortened steps, four before the time of 21.7.
    stopped, step = run_until(MPI.COMM_SELF, make_case((14, 12, 18)), times[:1])
    while step < last - 13:
        step += stopped.step(1, times[1])
    saved = [np.array(array.local) for array in stopped.state().values()]
    time = stopped.time(step)
    assert 21.7 - 8 < time < 21.7
    resumed, end = run_until(comm, case, times[1:], resumed=(step, time, saved))
    assert end == last
    for field, other in zip(fields, whole_fields(comm, resumed)):
        assert (field == other).all()


def test_the_rate_of_change_is_that_of_the_last_step(comm):
    case = make_case((14, 12, 18), noise=0.0)
    before, after = simulate(comm, case, 9), simulate(comm, case, 10)
    model, _ = run_until(comm, case, (10.0,), sweep_most=1)
    changed = sum(np.square(new - old).sum() for new, old in zip(after, before))
    expected_rate = np.sqrt(changed / sum(np.square(new).sum() for new in after))
    assert model.rate_of_change() == pytest.approx(expected_rate, rel=1e-12)
