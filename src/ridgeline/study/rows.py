"""From the reports of a study to rows: one for each point and curve, over the jobs of the point, with efficiencies.

Rows are plain, in SI units, with these keys beside those of axes and labels:

    ranks, threads, cores     of the job; crowded: more threads than cores on a node, so that times say little
    points                    of the grid, of all ranks
    seconds                   of a step, the best of the point's jobs: disturbances only slow down (GESTS, Sec. 4.1)
    jobs, median, slowest, jitter    of the jobs' times; jitter: (most - least) / least
    points_per_second, flops, bytes, fraction, overall_efficiency     as the best job reported them
    joules                    of a step on all nodes, where the nodes tell
    simulated                 model time per second of wall time (NekBox, Fig. 7)
    phase NAME                seconds of a step's phases; iterations NAME: of the solves of NAME
    output_seconds, output_bytes, output_rate    of data sets and series, if the run wrote any; B/s
    checkpoint_rate           B/s of data files, with compression and forcing to the disk in the time
    efficiency, efficiency_before                by the points, to the fewest cores and to the next fewer (SS1, SS2)
    ws1, ws2                  the same by N^3 log2 N, in weak scaling of models that transform (WS1, WS2)
    parallel_efficiency       overall_efficiency over that of the fewest cores (NekBox, Sec. 4.1)
    predicted                 seconds of a step that a prediction gives, if there is one; predicted_least and
                              predicted_most: between which 80 % of steps are expected
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ridgeline.bench.registry import find_benchmark
from ridgeline.bench.scaling import Scaling, ScalingFigures
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import in_words
from ridgeline.study.efficiency import Timed, jitter, parallel_efficiency, transform_work
from ridgeline.study.folder import JobStatus
from ridgeline.study.plan import GRID

Row = dict[str, Any]
Predict = Callable[[JobStatus, Mapping[str, str]], Mapping[str, float]]


def rows_of(found: Sequence[JobStatus], predict: Predict = lambda job, labels: {}) -> list[Row]:
    """Return the rows of all jobs that are done, in the order in which the study was planned.

    predict: returns what a prediction adds to the row of a job with some labels (`Predictor.of`).
    Raises ConfigError for a report of a benchmark that is not known here, KeyError or TypeError for a damaged one.
    """
    times: dict[tuple[str, str], list[Row]] = {}
    done = [job for job in found if job.state == "done"]
    for job in sorted(done, key=lambda job: int(job.record["order"])):
        for row in rows_of_job(job):
            row |= predict(job, row["labels"])
            times.setdefault((job.record["point"], str(row["labels"])), []).append(row)
    rows = [_over_jobs(jobs) for jobs in times.values()]
    for curve in curves(rows):
        _add_efficiencies(curve)
    return rows


def rows_of_job(job: JobStatus) -> Iterator[Row]:
    """Yield the rows of one report."""
    record, report = job.record, job.report
    common = {
        "ranks": record["ranks"],
        "threads": record["threads"],
        "cores": record["ranks"] * record["threads"],
        "size": record["size"],
        "logarithmic": record["logarithmic"] and record["scaling"] == "weak",
    }
    axes = {key: in_words(value) for key, value in record["axes"].items()}
    if "run" in report:
        crowded = report["run"]["ranks_on_node"] * record["threads"] > report["run"]["cores"]
        yield common | {"labels": axes, "crowded": crowded} | _of_run(report)
        return
    crowded = bool(report.get("oversubscribed"))  # machine.cores are those of one rank's affinity mask
    for figures in _figures_of_benchmark(record["subject"], report):
        labels = axes | {key: in_words(value) for key, value in figures.labels.items()}
        yield common | {"labels": labels, "crowded": crowded} | _of_figures(figures)


def _figures_of_benchmark(name: str, report: Mapping[str, Any]) -> list[ScalingFigures]:
    benchmark = find_benchmark(name)
    if not isinstance(benchmark.scaling, Scaling):
        raise ConfigError(
            f"the benchmark {name} declares no size law in this version; its study cannot be read"
        )
    figures: list[ScalingFigures] = benchmark.find(benchmark.scaling.figures)(report)
    return figures


def _of_figures(figures: ScalingFigures) -> Row:
    return {
        "seconds": figures.seconds,
        "points": figures.points,
        "points_per_second": figures.points / figures.seconds,
        "flops": figures.flops,
        "bytes": figures.bytes,
        "fraction": figures.fraction,
        **{f"phase {name}": seconds for name, seconds in figures.phases.items()},
    }


def _of_run(report: Mapping[str, Any]) -> Row:
    """Return what the report of a run says of a step."""
    run, seconds = report["run"], report["seconds_per_step"]
    phases = {key: value for key, value in report["step"].get("mean", {}).items() if key != "total"}
    solves = report.get("solves", {})
    row = {
        "seconds": seconds,
        "points": report["work"]["points"],
        "points_per_second": report["points_per_second"],
        "flops": report["flops_per_second"],
        "bytes": report["least_bytes_per_second"],
        "fraction": report.get("share_of_limit", report["fraction_of_stream"]),
        "joules": report.get("energy", {}).get("joules_per_step"),
        "overall_efficiency": report.get("overall_efficiency"),
        "simulated": run["time"] / run["last_step"] / seconds,
        **{f"phase {name}": value for name, value in phases.items()},
        **{f"iterations {name}": solve["iterations_per_solve"] for name, solve in solves.items()},
    }
    written = sum(one["bytes"] or 0 for one in report.get("written", ()) if one["kind"] != "checkpoints")
    spent = report["phases"].get("output", {}).get("max", 0.0)
    if written and spent:
        row |= {"output_bytes": written, "output_seconds": spent, "output_rate": written / spent}
    row["checkpoint_rate"] = report.get("checkpoint", {}).get("written_bytes_per_second")
    return row


def _over_jobs(rows: Sequence[Row]) -> Row:
    """Return the row of the best job, with what the others add."""
    best = min(rows, key=lambda row: row["seconds"])
    seconds = [row["seconds"] for row in rows]
    return best | {
        "jobs": len(rows),
        "median": statistics.median(seconds),
        "slowest": max(seconds),
        "jitter": jitter(seconds),
        "crowded": any(row["crowded"] for row in rows),
    }


def curves(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the rows that differ in cores and size alone, each list by cores.

    Process grids P_r x P_c are one curve for each P_r, as in Tables 3 and 5 of Yeung et al.; others are all of one.
    """
    found: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(curve_labels(row).items()), []).append(row)
    return [sorted(curve, key=lambda row: row["cores"]) for curve in found.values()]


def curve_labels(row: Row) -> dict[str, str]:
    """Return what tells the curve of a row apart from others."""
    labels = dict(row["labels"])
    grid = labels.pop(GRID, "").split("x")
    return labels | ({"P_r": grid[0]} if len(grid) == 2 else {})


def _add_efficiencies(curve: list[Row]) -> None:
    """Add efficiencies to the rows of one curve: to the fewest cores, and to the next fewer."""
    best = best_of(curve)
    for row in curve:
        fewer = [other for other in best if other["cores"] < row["cores"]]
        references = {"": best[0]} | ({"_before": fewer[-1]} if fewer else {})
        for suffix, reference in references.items():
            row[f"efficiency{suffix}"] = parallel_efficiency(_by_points(row), _by_points(reference))
        if row["logarithmic"]:
            for number, reference in enumerate(references.values(), 1):
                row[f"ws{number}"] = parallel_efficiency(_by_transforms(row), _by_transforms(reference))
        first = best[0].get("overall_efficiency")
        if first and row.get("overall_efficiency"):
            row["parallel_efficiency"] = row["overall_efficiency"] / first


def best_of(curve: Sequence[Row]) -> list[Row]:
    """Return the fastest row of each number of cores."""
    cores = sorted({row["cores"] for row in curve})
    return [
        min((row for row in curve if row["cores"] == n), key=lambda row: row["seconds"] / row["points"])
        for n in cores
    ]


def _by_points(row: Row) -> Timed:
    return Timed(row["points"], row["cores"], row["seconds"])


def _by_transforms(row: Row) -> Timed:
    return Timed(transform_work(row["points"]), row["cores"], row["seconds"])
