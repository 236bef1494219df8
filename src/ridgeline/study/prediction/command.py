"""What `ridgeline predict` does, once its case is loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ridgeline.bench.result import make_table
from ridgeline.config.case import AnyCase
from ridgeline.io.previous import check_file, to_json, write_text
from ridgeline.models.prediction import predict_case, solves_of
from ridgeline.runtime.console import plain_console
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import LastWrites
from ridgeline.study.prediction.machines import find_machine
from ridgeline.study.prediction.predict import Predict, predict_benchmark, sweep
from ridgeline.study.prediction.tables import breakdown, scaling


def of_case(case: AnyCase, iterations: Sequence[str]) -> Predict:
    """Return what predicts a case on an allocation.

    iterations: of the model's linear solves, as "pressure=20". Raises ConfigError for what is none of them.
    """
    solves, counts = solves_of(case.run.model), dict[str, float]()
    if iterations and not solves:
        raise ConfigError(
            f"--iterations {iterations[0]}: {case.run.model} solves no linear systems; leave it out"
        )
    for word in iterations:
        name, _, value = word.partition("=")
        try:
            counts[name] = float(value)
        except ValueError:
            counts[name] = math.nan
        if name not in solves or not 0 < counts[name] < math.inf:
            known = " or ".join(f"{solve}=NUMBER" for solve in solves)
            raise ConfigError(f"--iterations {word}: need {known}, above 0")
    return lambda place: predict_case(case, place, counts)


def of_benchmark(name: str, settings: Sequence[str]) -> Predict:
    """Return what predicts a benchmark on an allocation."""
    return lambda place: predict_benchmark(name, settings, place)


def numbers(words: str) -> tuple[int, ...]:
    """Return the numbers of nodes of "1,2,4". Raises ConfigError."""
    try:
        return tuple(int(word) for word in words.split(","))
    except ValueError:
        raise ConfigError(f"--sweep {words}: need numbers of nodes, as 1,2,4,8") from None


def answer(
    predict: Predict,
    machine: str,
    nodes: int,
    ranks_per_node: int | None,
    sweep_nodes: str | None,
    json: str | None,
    plot: str | None,
) -> None:
    """Print the prediction, and write JSON and picture. Raises ConfigError, DecompositionError, OutputError."""
    check_file(json, "--json")
    if plot is not None:
        from ridgeline.analysis.plot import check_picture

        check_picture(plot, "--plot")
    counts = numbers(sweep_nodes) if sweep_nodes is not None else (nodes,)
    found, refused = sweep(predict, find_machine(machine), counts, ranks_per_node)
    result = breakdown(found[0]) if sweep_nodes is None else scaling(found)
    result = replace(result, notes=[*result.notes, *refused])
    writes = LastWrites()
    if json is not None:
        with writes.trying():
            write_text(
                json,
                to_json({"predictions": [each.to_dict() for each in found], "refused": refused}),
                "--json",
            )
    if json != "-":
        plain_console().print(make_table(result))
    if plot is not None:
        from ridgeline.analysis.bench_plots import save_plot

        with writes.trying():
            save_plot(result.to_dict(), plot)
    writes.raise_failures()
