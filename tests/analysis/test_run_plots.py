"""Pictures of run reports: violins, the strip of the ranks, outputs; what a report lacks is said in a sentence."""

import json

import numpy as np
import pytest
from PIL import Image

from ridgeline.analysis.picture_options import PictureOptions
from ridgeline.analysis.plot_command import draw, draw_file
from ridgeline.analysis.run_plots import plot_run
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.simulation.outputs import Write, WriteLog
from ridgeline.simulation.step_times import StepDistribution

NAMES = ("compute", "exchange", "other", "total")


def make_report(n_ranks=3, n_steps=50, n_writes=5, per_row=1, exchange=0.1):
    """Return the report of a run whose last rank computes longer than the others."""
    rng = np.random.default_rng(1)
    times, steady = StepDistribution(NAMES), []
    for rank in range(n_ranks):
        compute = rng.lognormal(0.0, 0.1, n_steps) * (1.5 if rank == n_ranks - 1 else 1.0)
        rows = np.stack([compute, exchange * compute, 0.01 + 0 * compute, 1.1 * compute + 0.01], axis=1)
        times.add(np.arange(n_steps) + 2, np.ones(n_steps, np.int64), rows.T)
        steady.append(rows.sum(axis=0))
    columns = {name: column.tolist() for name, column in zip(NAMES, np.array(steady).T)}
    ranks = {
        "ranks_per_row": per_row,
        "rank": [per_row * rank for rank in range(n_ranks)],
        "first_steps": 1,
        "steady_steps": n_steps,
        "first": {name: [2.0] * n_ranks for name in NAMES},
        "steady": columns,
    }
    if per_row > 1:
        ranks["most"] = {"steady": {name: [2 * each for each in column] for name, column in columns.items()}}
    log = WriteLog()
    for step in range(n_writes):
        log.record(Write(10 * step, 1000, 1.0 + step))
    return {
        "model": "gray_scott",
        "run": {"shape": [8, 9, 10], "precision": "float64", "ranks": n_ranks, "threads": 1, "device": "cpu",
                "first_step": 0, "last_step": n_steps + 1},
        "phases": {},
        "step_times": times.to_dict(),
        "ranks": ranks,
        "writes": {"data set": log.to_dict()} if n_writes else {},
    }  # fmt: skip


def panels_of(figure):
    return {axes.get_label(): axes for axes in figure.axes}


def test_violins_bars_strip_and_outputs_are_drawn():
    panels = panels_of(plot_run(make_report(), "r.json"))
    assert {"steps", "ranks", "strip", "writes"} <= panels.keys()
    assert [label.get_text() for label in panels["steps"].get_xticklabels()] == list(NAMES)
    worst = make_report()["step_times"]["total"]["worst"]
    assert (
        panels["steps"].get_title(loc="left") == f"50 steps, all ranks; worst: step {worst['step']}, rank 0"
    )
    assert [tick.get_text() for tick in panels["strip"].get_xticklabels()] == ["0", "1", "2"]
    tops = panels["ranks"].patches[2].get_data().values  # of the third phase, on top of the others
    assert tops[2] / tops[0] == pytest.approx(1.5, rel=0.2)
    strip = panels["strip"].collections[0].get_array()
    assert strip.shape == (4, 3)
    assert strip[0].argmax() == 2


def test_one_rank_has_no_strip_and_a_run_without_outputs_no_rates():
    panels = panels_of(plot_run(make_report(n_ranks=1, n_writes=0), "r.json"))
    assert "strip" not in panels
    assert "writes" not in panels


def test_a_phase_without_time_is_left_out():
    panels = panels_of(plot_run(make_report(exchange=0.0), "r.json"))
    assert "exchange" not in [label.get_text() for label in panels["steps"].get_xticklabels()]


@pytest.mark.parametrize("every", [1, 20])
def test_a_phase_that_seldom_takes_time_is_named_and_does_not_stretch_the_axis(every):
    """A phase of 1e-9 s, or of 0.1 s in one step of 20, such as the lists of neighbours."""
    report = make_report(n_ranks=1)
    seconds = np.where(np.arange(50) % 20 == 10, 0.1 if every > 1 else 1e-9, 1e-9)
    times = StepDistribution(("lists", "total"))
    times.add(np.arange(50) + 2, np.ones(50, np.int64), np.stack([seconds, 1.0 + seconds]))
    report["step_times"]["lists"] = times.to_dict()["lists"]
    for kind in ("first", "steady"):
        report["ranks"][kind] = {"lists": [float(seconds.sum())], **report["ranks"][kind]}
    panels = panels_of(plot_run(report, "r.json"))
    assert "lists" not in [label.get_text() for label in panels["steps"].get_xticklabels()]
    assert panels["steps"].get_xlabel() == "below 0.1% of the time in most steps: lists"
    assert panels["steps"].get_ylim()[0] > 1e-4
    assert "lists" in panels["ranks"].get_legend_handles_labels()[1], "its share of the mean step is drawn"


def test_the_title_has_the_grid_in_words_and_no_plural_of_one():
    report = make_report(n_ranks=1)
    report["run"] |= {"grid": "of duct.msh, elements of order 5"}
    title = plot_run(report, "r.json").get_suptitle()
    assert (
        title
        == "gray_scott of duct.msh, elements of order 5, float64, 1 rank x 1 thread on cpu, steps 1 to 51"
    )


@pytest.mark.parametrize(("n_ranks", "n_steps", "per_row"), [(512, 2, 20), (2, 1, 1), (40, 3, 1)])
def test_many_ranks_and_single_steps_are_drawn(tmp_path, n_ranks, n_steps, per_row):
    (tmp_path / "g.bp.run.json").write_text(json.dumps(make_report(n_ranks, n_steps, per_row=per_row)))
    assert draw(str(tmp_path / "g.bp.run.json")) == [tmp_path / "g.bp.run.png"]
    with Image.open(tmp_path / "g.bp.run.png") as image:
        assert image.size[0] == 1800


def spoilt(**more):
    report = {**make_report(n_writes=0), **more}
    return {key: value for key, value in report.items() if value is not None}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            spoilt(step_times=None),
            "has no times of single steps and ranks, because an older version wrote it",
        ),
        (spoilt(step_times={}), "has no step after the first call"),
        (spoilt(ranks=None), "damaged, or of another version: 'ranks' is missing"),
        (spoilt(ranks=[]), "damaged, or of another version"),
        (spoilt(step_times={"total": 3}), "damaged, or of another version"),
        (spoilt(step_times={"total": {"max": 1.0}}), "is missing"),
        (spoilt(ranks={**make_report()["ranks"], "steady_steps": 0}), "damaged, or of another version"),
        (spoilt(ranks={**make_report()["ranks"], "rank": []}), "damaged, or of another version"),
        (spoilt(writes={"data set": {"rows": []}}), "damaged, or of another version"),
        ({"model": 3}, "not a report with a table"),
    ],
)
def test_a_report_that_cannot_be_drawn_is_named(tmp_path, content, words):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    with pytest.raises(OutputError) as caught:
        draw(str(path))
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert not path.with_suffix(".png").exists()


def test_a_report_that_is_not_there_or_cut_off_is_named(tmp_path):
    with pytest.raises(OutputError, match=r"cannot read the report .*gone.json: No such file"):
        draw(str(tmp_path / "gone.json"))
    (tmp_path / "half.json").write_text(json.dumps(make_report())[:-30])
    with pytest.raises(OutputError, match=r"half.json is not JSON, or (is )?cut off"):
        draw(str(tmp_path / "half.json"))


def test_wishes_that_are_not_of_a_report_are_refused(tmp_path):
    path = tmp_path / "b.json"
    path.write_text(json.dumps({"benchmark": "latency", "columns": {}, "rows": []}))
    with pytest.raises(ConfigError, match=r"a table without a picture\. `ridgeline report"):
        draw(str(path))
    path.write_text(json.dumps(make_report()))
    for name, wish in (("pdf", True), ("movie", "m.gif"), ("variable", ("U",))):
        with pytest.raises(ConfigError, match=f"--{name} does not apply .* This is a report"):
            draw_file(str(path), PictureOptions(**{name: wish}))
