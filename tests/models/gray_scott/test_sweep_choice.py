"""How sweeps are cut: as set, by rule, or as timed; kept for later runs; the same bits in any case."""

import json
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks import sweep_choice, sweep_plan
from ridgeline.blocks.sweep import Tiling
from ridgeline.blocks.sweep_choice import TimedSweeps, mean_steps
from ridgeline.models import create
from ridgeline.models.gray_scott import estimate
from ridgeline.models.gray_scott import model as gray_scott
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.parallel import autotuner
from ridgeline.parallel.autotuner import TuningResult, choices_file
from ridgeline.runtime.context import Context

SHAPE = [13, 22, 51]
NOW, EARLIER = "as timed now", "as timed in an earlier run"


@pytest.fixture(autouse=True)
def every_run_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs time their ways, each once or twice, and keep what they find in an empty folder."""
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sweep_plan, "CELLS_TIMED", 0)
    monkeypatch.setattr(sweep_plan, "CELL_STEPS_TIMED", 1)
    monkeypatch.setattr(sweep_choice, "CELLS_PER_CALL", 1)
    monkeypatch.setattr(autotuner, "SECONDS", 0.0)
    monkeypatch.setattr(sweep_choice, "busiest_share", lambda comm, since: 0.0)


def case(shape=SHAPE, steps=7, precision="float64", noise=0.1, sweep="auto", **sections) -> GrayScottCase:
    return GrayScottCase.model_validate(
        {
            "run": {"model": "gray_scott", "steps": steps, "precision": precision, "seed": 5},
            "grid": {"shape": shape},
            "model": {"noise": noise, "steps_per_sweep": sweep},
            "initial": {"half_width": 4},
            **sections,
        }
    )


def made(case: GrayScottCase, threads: int = 1):
    model = create("gray_scott")
    model.setup(case, Context(MPI.COMM_SELF, "cpu", threads))
    return model


def bits(case: GrayScottCase, threads: int = 1) -> list[bytes]:
    """Return U and V after the run's steps."""
    model = made(case, threads)
    model.compile()
    model.initialize()
    done = 0
    while done < case.run.steps:
        done += model.step(case.run.steps - done)
    return [array.local.tobytes() for array in model.state().values()]


def never(*_):
    raise AssertionError("nothing is to be timed")


@pytest.mark.parametrize(
    ("asked", "words"),
    [(2, "(as set)"), ("rule", "(by rule)"), (1, "1 step per sweep"), (3, "3 steps per sweep")],
)
def test_what_is_set_is_not_timed(monkeypatch: pytest.MonkeyPatch, asked, words: str) -> None:
    monkeypatch.setattr(sweep_choice, "choose", never)
    facts = made(case(sweep=asked)).describe()
    assert words in facts["method"]
    assert "trials" not in facts
    assert not choices_file().exists()


@pytest.mark.parametrize("bound", ["CELLS_TIMED", "CELL_STEPS_TIMED"])
def test_short_runs_and_small_blocks_take_the_rule(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    cells = SHAPE[0] * SHAPE[1] * SHAPE[2]
    monkeypatch.setattr(sweep_plan, bound, cells if bound == "CELLS_TIMED" else 7 * cells + 1)
    monkeypatch.setattr(sweep_choice, "choose", never)
    assert made(case()).describe()["sweep_chosen"] == "by rule, because the run is short"
    monkeypatch.setattr(sweep_plan, bound, cells - 1 if bound == "CELLS_TIMED" else 7 * cells)
    with pytest.raises(AssertionError):
        made(case())


def test_the_first_run_times_and_the_next_one_knows() -> None:
    first = made(case()).describe()
    assert first["sweep_chosen"] == NOW
    assert NOW in first["method"]
    trial = first["trials"]["one step"]
    assert trial["taken"] in trial["seconds"]
    assert {name[:6] for name in trial["seconds"]} == {"1 step", "2 step", "3 step"}
    assert all(parts["total"] > 0 for parts in trial["seconds"].values())
    second = made(case()).describe()
    assert second["sweep_chosen"] == EARLIER
    assert second["trials"]["one step"] == {**trial, "earlier_run": True}
    assert list(second["trials"]["one step"]["seconds"]) == list(trial["seconds"])
    json.dumps(second)
    (kept,) = json.loads(choices_file().read_text()).values()
    assert kept == {"taken": trial["taken"], "seconds": trial["seconds"]}


@pytest.mark.parametrize(
    "other",
    [{"shape": [13, 22, 52]}, {"precision": "float32"}, {"noise": 0.0}, {"output": {"every": 1}}],
    ids=str,
)
def test_other_runs_time_for_themselves(other) -> None:
    made(case())
    assert made(case(**other)).describe()["sweep_chosen"] == NOW
    assert made(case(model={"noise": 0.1, "F": 0.03})).describe()["sweep_chosen"] == EARLIER


def test_another_machine_version_or_number_of_threads_times_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made(case())
    assert made(case(), threads=2).describe()["sweep_chosen"] == NOW
    monkeypatch.setattr(autotuner, "VERSION", "another")
    assert made(case()).describe()["sweep_chosen"] == NOW
    monkeypatch.setattr(autotuner, "cpu_name", lambda: "another CPU")
    assert made(case()).describe()["sweep_chosen"] == NOW
    assert len(json.loads(choices_file().read_text())) == 4


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"a": 3}', "stale"])
def test_a_damaged_or_stale_file_is_timed_anew(content: str) -> None:
    made(case())
    if content == "stale":  # the way that was taken is not one of today's
        kept = json.loads(choices_file().read_text())
        content = json.dumps({key: {**value, "taken": "5 steps"} for key, value in kept.items()})
    choices_file().write_text(content)
    assert made(case()).describe()["sweep_chosen"] == NOW
    assert made(case()).describe()["sweep_chosen"] == EARLIER


def test_what_was_timed_beside_others_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_choice, "busiest_share", lambda comm, since: 0.2)
    monkeypatch.setattr("ridgeline.parallel.autotuner.CLEARLY_FASTER", 1e9)  # the last way wins
    for _ in range(2):
        facts = made(case()).describe()
        assert (
            facts["sweep_chosen"] == "by rule, because other processes used 20% of a node during the trials"
        )
        assert facts["trials"]["one step"]["taken"] == next(iter(facts["trials"]["one step"]["seconds"]))
    assert not choices_file().exists()
    monkeypatch.setattr(sweep_choice, "busiest_share", lambda comm, since: 0.0)
    trial = made(case()).describe()["trials"]["one step"]
    assert trial["taken"] == list(trial["seconds"])[-1]


def ways(case: GrayScottCase, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ways that a run would time, by name."""
    found: list[str] = []

    def look(candidates, *_):
        found.extend(candidates)
        return TuningResult(found[0], {})

    with monkeypatch.context() as patch:
        patch.setattr(sweep_choice, "choose", look)
        made(case)
    return found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("boundary", ["periodic", pytest.param("fixed", marks=pytest.mark.full)])
def test_every_way_gives_the_bits_of_the_rule(
    monkeypatch: pytest.MonkeyPatch, boundary: str, precision: str, threads: int
) -> None:
    grid = {"grid": {"shape": SHAPE, "boundary": boundary}}
    wanted = bits(case(precision=precision, sweep="rule", **grid))
    run = case(precision=precision, **grid)
    monkeypatch.setattr(sweep_choice, "usual_tiling", lambda *_: lambda steps: Tiling(4, False))
    names = ways(run, monkeypatch)
    assert len(names) == 9
    for name in names:
        monkeypatch.setattr(sweep_choice, "choose", lambda *_, name=name: TuningResult(name, {}))
        model = made(run)
        assert name.replace(", ", " in ", 1) in model.describe()["method"]
        assert bits(run, threads) == wanted, name


def test_timing_leaves_the_run_as_it_was() -> None:
    timed = bits(case())
    assert timed == bits(case(sweep="rule"))
    context = Context(MPI.COMM_SELF)
    model = create("gray_scott")
    model.setup(case(sweep="auto", noise=0.2), context)
    assert context.regions.seconds("compute") == 0.0


def test_an_engine_can_be_cut_anew() -> None:
    run = case(steps=9, sweep=3)
    model = made(run)
    model.compile()
    model.initialize()
    usual = model._engine.allocated()
    for rows in (4, 48, 12):
        model._engine.cut(Tiling(rows, rows == 48))
        assert model.step(3) == 3
    assert model._engine.allocated() > usual
    assert [array.local.tobytes() for array in model.state().values()] == bits(run)


def test_planes_that_fewer_planes_compute_twice_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    run = case([40, 8, 64], output={"every": 0})
    lengths = {steps: mean_steps(run, steps) for steps in (1, 2, 3)}
    monkeypatch.setattr(sweep_choice, "cache_sizes", dict)
    monkeypatch.setattr(sweep_choice, "PLANES", 4)
    sweeps = TimedSweeps((40, 8, 64), (1, 1, 1), (True,) * 3, np.dtype("f8"), 2, lengths, "", never)
    trials = sweep_choice._SweepTrials(sweeps, Context(MPI.COMM_SELF))
    for name, work in trials.work.items():
        steps = int(name[0])
        assert work == pytest.approx(mean_steps(run, steps) * (1 + (steps - 1) / 4) / (1 + (steps - 1) / 40))


@pytest.mark.parametrize(
    ("shape", "first"), [(SHAPE, "1 step"), ([4, 4, 600], "2 steps"), ([4, 1, 600], "1 step")]
)
def test_the_way_of_the_rule_comes_first(monkeypatch: pytest.MonkeyPatch, shape, first: str) -> None:
    run = case(shape)
    name = ways(run, monkeypatch)[0]
    assert name.startswith(f"{first} per sweep, ")
    assert f"in {name.partition(', ')[2]}," in made(case(shape, sweep="rule")).describe()["method"]


def test_large_blocks_are_timed_with_fewer_planes(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    engine = gray_scott.CpuEngine

    def look(block, *rest):
        shapes.append(block.shape_local)
        return engine(block, *rest)

    monkeypatch.setattr(gray_scott, "CpuEngine", look)
    monkeypatch.setattr(sweep_choice, "PLANES", 4)
    plane = 4 * 8 * 8 * 64 * 8 // 8  # bytes of four float64 fields
    monkeypatch.setattr(sweep_choice, "cache_sizes", lambda: {1: plane // 8, 3: plane})
    made(case([40, 8, 64]))
    assert shapes == [(4, 8, 64)] * 3 + [(40, 8, 64)], "and then the run's own"
    shapes.clear()
    monkeypatch.setattr(sweep_choice, "cache_sizes", lambda: {1: plane, 3: 10 * plane})
    made(case([41, 8, 64]))
    assert shapes == [(30, 8, 64)] * 3 + [(41, 8, 64)]


def test_outputs_cut_sweeps_short() -> None:
    def mean(steps: int, run_steps: int = 1000, **sections) -> float:
        run = {"model": "gray_scott", "steps": run_steps, "check_every": 0}
        return mean_steps(case(**{"run": run, "output": {"every": 0}, **sections}), steps)

    assert mean(1) == 1.0
    assert mean(3, 1_000_000) == pytest.approx(1000 / 334)
    assert mean(3, output={"every": 10}) == 2.5
    assert mean(2, output={"every": 1}) == 1.0
    series = {"every": 0, "series": "a.csv", "series_every": 5}
    assert mean(2, output=series, checkpoint={"every": 2}) == pytest.approx(10 / 6)
    assert mean(3, 2) == 2.0


def test_memory_is_estimated_for_the_widest_ghosts() -> None:
    by_rule, timed = (estimate.estimate(case(sweep=sweep), 1) for sweep in ("rule", "auto"))
    widest = estimate.estimate(case(sweep=3), 1)
    assert by_rule.memory_per_rank < timed.memory_per_rank == widest.memory_per_rank
    assert timed.work == by_rule.work
