"""What `ridgeline predict` does once its case is loaded: predictions as tables, JSON and pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from ridgeline.bench.result import Column, Plot, Result, make_table
from ridgeline.config.case import AnyCase
from ridgeline.io.output_files import check_writable, to_json, write_text
from ridgeline.limits.prediction import Prediction
from ridgeline.models import estimate
from ridgeline.models.earlier_runs import earlier_ratios
from ridgeline.models.prediction import predict_case, solves_of
from ridgeline.runtime.console import plain_console
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import LastWrites
from ridgeline.runtime.units import number
from ridgeline.study.prediction import HERE, Predict, find_machine, predict_benchmark, sweep


def breakdown(prediction: Prediction) -> Result:
    """Return one prediction: a row for each part, and the whole below."""
    rows: list[dict[str, Any]] = [
        {
            "part": part.name,
            "seconds": part.seconds,
            "share": part.seconds / prediction.seconds if part.seconds and prediction.seconds else None,
        }
        for part in prediction.parts
    ]
    whole = "step, at least" if prediction.is_bound else "step"
    rows.append({"part": whole, "seconds": prediction.least_seconds, "share": None})
    columns = (Column("part", "part"), Column("seconds", "s", form=".4g"), Column("share", "%", 0.01, ".1f"))
    result = _result(
        [prediction], columns, rows, Plot("part", ("seconds",), kind="bars", y_label="s per step")
    )
    result.notes[:0] = facts(prediction)
    return result


def scaling(predictions: Sequence[Prediction]) -> Result:
    """Return the predictions of a sweep over nodes: a row for each, with a column for each part."""
    names = list(dict.fromkeys(part.name for each in predictions for part in each.parts))
    rows = []
    for each in predictions:
        low, high = each.interval or (None, None)
        rows.append(
            {
                "nodes": each.place.nodes,
                "ranks": each.place.ranks,
                "seconds": each.seconds,
                "low": low,
                "high": high,
                "node_hours": each.node_hours,
                "least_seconds": each.least_seconds,
                "least_node_hours": each.least_node_hours,
                "memory": each.memory_per_rank,
            }
            | {part.name: part.seconds for part in each.parts}
        )
    # A lower bound is shown as such, and not drawn where it lacks a part.
    is_bound = any(each.is_bound for each in predictions)
    lacks = any(each.seconds is None for each in predictions)
    costs_more = is_bound or any(each.node_hours is None for each in predictions)
    columns = (
        Column("nodes", "nodes"),
        Column("ranks", "ranks"),
        Column("least_seconds", "s per step, at least", form=".4g")
        if is_bound
        else Column("seconds", "s per step", form=".4g"),
        Column("low", "from", form=".4g"),
        Column("high", "to", form=".4g"),
        *(Column(name, name, form=".3g") for name in names),
        Column("memory", "GiB per rank", 2.0**30, ".3g"),
        Column("least_node_hours", "node hours, at least", form=".4g")
        if costs_more
        else Column("node_hours", "node hours", form=".4g"),
    )
    total = ("least_seconds",) if is_bound else ("seconds", "low", "high")
    shown = (*(() if lacks else total), *names)
    return _result(predictions, columns, rows, Plot("nodes", shown, x_label="nodes", y_label="s per step"))


def _result(
    predictions: Sequence[Prediction], columns: Sequence[Column], rows: list[dict[str, Any]], plot: Plot
) -> Result:
    first, last = predictions[0], predictions[-1]
    machine = first.place.machine.machine.name
    notes = [f"this is a lower bound: {why}" for why in last.bounds] + list(last.all_notes)
    lacks = dict.fromkeys(lack for each in predictions for lack in each.lacks.items())
    notes += [f"{name} is not predicted, because the file of {machine} has no {key}" for name, key in lacks]
    return Result(
        benchmark=f"prediction for {machine}",
        pattern=f"{first.case}: predicted without running it",
        formula="s = sum of the parts of one step of the slowest rank",
        statistic="intervals contain 80 % of steps, if the machine file states how nodes and network vary",
        ranks=last.place.ranks,
        nodes=last.place.nodes,
        columns=columns,
        rows=rows,
        verified=False,
        notes=notes,
        plot=plot,
    )


def facts(prediction: Prediction) -> list[str]:
    """Return what a prediction says beside its parts, in short sentences."""
    words = []
    if prediction.process_grid:
        words.append(f"process grid {' x '.join(map(str, prediction.process_grid))}")
    if prediction.interval is not None:
        low, high = prediction.interval
        words.append(f"80 % of steps take {low:.4g} to {high:.4g} s")
    elif not prediction.is_bound:
        words.append("no interval, because the machine file does not say how nodes or network vary")
    if prediction.memory_per_rank is not None:
        there = prediction.memory_of_rank
        of = f" of {number(there, 'B')}" if there else " (the machine file does not say how much there is)"
        words.append(f"memory: {number(prediction.memory_per_rank, 'B')} per rank{of}")
        if there and prediction.memory_per_rank > there:
            words.append("the case does not fit into memory, so use more nodes")
    if prediction.output_bytes:
        seconds = prediction.output_seconds
        takes = "for an unknown time" if seconds is None else f"in {seconds:.4g} s"
        words.append(f"outputs: {number(prediction.output_bytes, 'B')} are written {takes}")
    if prediction.flops and prediction.seconds:
        words.append(f"{number(prediction.flops / prediction.seconds, 'FLOP/s')} on all nodes")
    least = "at least " if prediction.is_bound or prediction.node_hours is None else ""
    steps = f"{prediction.steps} steps" if prediction.steps > 1 else "one iteration"
    words.append(f"{least}{prediction.least_node_hours:.4g} node hours for {steps}")
    return words


def of_case(case: AnyCase, iterations: Sequence[str]) -> Predict:
    """Return what predicts a case on an allocation.

    iterations: of the model's linear solves, as "pressure=20". Raises ConfigError for an unknown solve.
    """
    solves, counts = solves_of(case.run.model), dict[str, float]()
    if iterations and not solves:
        raise ConfigError(
            f"--iterations {iterations[0]}: the model {case.run.model} solves no linear systems. Leave the option "
            "out."
        )
    for word in iterations:
        name, _, value = word.partition("=")
        try:
            counts[name] = float(value)
        except ValueError:
            counts[name] = math.nan
        if name not in solves or not 0 < counts[name] < math.inf:
            known = " or ".join(f"{solve}=NUMBER" for solve in solves)
            raise ConfigError(f"--iterations {word}: write {known}, with a number above 0.")
    return lambda place: predict_case(case, place, counts)


def of_benchmark(name: str, settings: Sequence[str]) -> Predict:
    """Return what predicts a benchmark on an allocation."""
    return lambda place: predict_benchmark(name, settings, place)


def numbers(words: str) -> tuple[int, ...]:
    """Return the numbers of nodes of "1,2,4". Raises ConfigError."""
    try:
        return tuple(int(word) for word in words.split(","))
    except ValueError:
        raise ConfigError(f"--sweep {words}: write numbers of nodes, such as 1,2,4,8.") from None


def answer(
    predict: Predict,
    machine: str,
    nodes: int,
    ranks_per_node: int | None,
    sweep_nodes: str | None,
    json: str | None,
    plot: str | None,
    case: AnyCase | None = None,
) -> None:
    """Print the prediction, and write JSON and picture. Raises ConfigError, DecompositionError, OutputError.

    case: what is predicted, unless it is a benchmark; for the machine at hand, earlier runs of it are compared.
    """
    check_writable(json, "--json")
    if plot is not None:
        from ridgeline.analysis.plot import check_picture

        check_picture(plot, "--plot")
    counts = numbers(sweep_nodes) if sweep_nodes is not None else (nodes,)
    found, refused = sweep(predict, find_machine(machine), counts, ranks_per_node)
    result = breakdown(found[0]) if sweep_nodes is None else scaling(found)
    earlier = None
    if case is not None and machine == HERE:
        earlier = earlier_ratios(case, estimate(case, found[0].place.ranks).work.points, "predicted")
    said = [] if earlier is None else [earlier.words("what was predicted for them")]
    result = replace(result, notes=[*result.notes, *said, *refused])
    writes = LastWrites()
    if json is not None:
        with writes.trying():
            write_text(
                json,
                to_json(
                    {
                        "predictions": [each.to_dict() for each in found],
                        "refused": refused,
                        "earlier_runs": None if earlier is None else asdict(earlier),
                    }
                ),
                "--json",
            )
    if json != "-":
        plain_console().print(make_table(result))
    if plot is not None:
        from ridgeline.analysis.bench_plots import save_plot

        with writes.trying():
            save_plot(result.to_dict(), plot)
    writes.raise_failures()
