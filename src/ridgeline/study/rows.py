"""From the reports of a study to rows: one for each point and curve, over the jobs of the point, with efficiencies.

Rows are plain, in SI units, with these keys beside those of axes and labels:

    ranks, threads, cores     of the job; crowded: more threads than cores on a node, so that times say little
    points                    of the grid, of all ranks
    others_share              of the processors of the busiest node that others used while the best job measured
    seconds                   of a step, the best of the point's jobs: disturbances only slow down (GESTS, Sec. 4.1)
    jobs, median, slowest, jitter    of the jobs' times; jitter: (most - least) / least
    points_per_second, flops, bytes, fraction, overall_efficiency     as the best job reported them
    joules                    of a step on all nodes, where the nodes tell
    simulated                 model time per second of wall time (NekBox, Fig. 7)
    phase NAME                seconds of a step's phases; iterations NAME: of the solves of NAME
    fastest_rank, mean_rank, slowest_rank        seconds of a step on the ranks of the best job
    limited_by                the limit that bounds the whole step: memory, a cache, or the peak of arithmetic
    region NAME seconds, flops, bytes, share, limited_by     of a step's regions: per second, share of their limit
    output_seconds, output_bytes, output_rate    of data sets and series, if the run wrote any; B/s
    checkpoint_rate           B/s of data files, with compression and forcing to the disk in the time
    efficiency, efficiency_before                by the points, to the fewest cores and to the next fewer (SS1, SS2)
    ws1, ws2                  the same by N^3 log2 N, in weak scaling of models that transform (WS1, WS2)
    parallel_efficiency       overall_efficiency over that of the fewest cores (NekBox, Sec. 4.1)
    predicted                 seconds of a step that a prediction gives, if there is one; predicted_least and
                              predicted_most: between which 80 % of steps are expected

Efficiencies are those of the papers:

- Parallel efficiency, of n times the cores at a time t for a work W: (W / (n t)) / (W0 / (n0 t0)). With W the points,
  weak scaling is t0 / t and strong scaling t0 n0 / (t n). Yeung et al. (GESTS), Sec. 4.1, take two references: the
  fewest cores (WS1, SS1) and the next fewer (WS2, SS2).
- The work of Fourier transforms is N^3 log2 N: Yeung et al., Sec. 4.2.
- Overall efficiency is counted bytes over time over the STREAM bandwidth: Hadri et al. (NekBox), Sec. 3.1. Its ratio
  to that of the fewest cores is the parallel efficiency of their Sec. 4.1, which corrects for iterations that grow.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeline.bench.benchmark import Scaling, ScalingFigures, find_benchmark
from ridgeline.config.load import load_case
from ridgeline.config.machine_file import MachineFile
from ridgeline.io.machine_file import machine_name, machine_name_here
from ridgeline.limits.prediction import Allocation, Prediction
from ridgeline.models import case_class
from ridgeline.models.prediction import predict_case, solves_of
from ridgeline.runtime.errors import ConfigError, RidgelineError
from ridgeline.runtime.units import in_words
from ridgeline.study.folder import JobStatus
from ridgeline.study.plan import GRID
from ridgeline.study.prediction import find_machine, machine_here, predict_benchmark

Row = dict[str, Any]
Predict = Callable[[JobStatus, Mapping[str, str]], Mapping[str, float]]


@dataclass(frozen=True)
class Timed:
    """The time of a step. work: in any unit; cores: or nodes, or ranks; seconds: of the step."""

    work: float
    cores: float
    seconds: float

    @property
    def rate(self) -> float:
        """Work of a core in a second."""
        return self.work / (self.cores * self.seconds)


def parallel_efficiency(this: Timed, reference: Timed) -> float:
    """Return the rate of a core over that of the reference's."""
    return this.rate / reference.rate


def transform_work(points: float) -> float:
    """Return N^3 log2 N, with N the cube root of all points."""
    return points * math.log2(points) / 3.0


def jitter(seconds: Sequence[float]) -> float | None:
    """Return by how much repeats differ, (most - least) / least; None for fewer than two.

    Rizvi and Hale, Sec. V, name the variance of runs as a possible cost of a managed language.
    """
    return None if len(seconds) < 2 else (max(seconds) - min(seconds)) / min(seconds)


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
    benchmark = find_benchmark(record["subject"])
    if not isinstance(benchmark.scaling, Scaling):
        raise ConfigError(
            f"the study cannot be read, because the benchmark {record['subject']} declares no size law in this "
            "version."
        )
    curves_of_report: list[ScalingFigures] = benchmark.find(benchmark.scaling.figures)(report)
    for figures in curves_of_report:
        yield common | {
            "labels": axes | {key: in_words(value) for key, value in figures.labels.items()},
            # machine.cores are those of one rank's affinity mask.
            "crowded": bool(report.get("oversubscribed")),
            "others_share": report.get("others_share"),
            "seconds": figures.seconds,
            "points": figures.points,
            "points_per_second": figures.points / figures.seconds,
            "flops": figures.flops,
            "bytes": figures.bytes,
            "fraction": figures.fraction,
            **{f"phase {name}": seconds for name, seconds in figures.phases.items()},
        }


def _of_run(report: Mapping[str, Any]) -> Row:
    """Return what the report of a run says about a step."""
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
        "limited_by": report.get("limit"),
        # A run measures its limits only, and keeps what each of these measurements shared with others.
        "others_share": max(report.get("limits", {}).get("others_share", {}).values(), default=None),
        **_ranks_of(report),
        **_regions_of(report),
    }
    written = sum(one["bytes"] or 0 for one in report.get("written", ()) if one["kind"] != "checkpoints")
    spent = report["phases"].get("output", {}).get("max", 0.0)
    if written and spent:
        row |= {"output_bytes": written, "output_seconds": spent, "output_rate": written / spent}
    row["checkpoint_rate"] = report.get("checkpoint", {}).get("written_bytes_per_second")
    return row


def _ranks_of(report: Mapping[str, Any]) -> Row:
    """Return how the seconds of a steady step are spread over the ranks."""
    ranks = report.get("ranks", {})
    seconds, steps = ranks.get("steady", {}).get("total"), ranks.get("steady_steps")
    if not seconds or not steps:
        return {}
    each = [total / steps for total in seconds]
    return {
        "fastest_rank": min(each),
        "mean_rank": statistics.fmean(each),
        "slowest_rank": max(each),
    }


def _regions_of(report: Mapping[str, Any]) -> Row:
    """Return seconds of a step, rates and limits of the model's regions."""
    steps = report.get("ranks", {}).get("steady_steps") or report["steps"] if report.get("regions") else 1
    row: Row = {}
    for name, region in report.get("regions", {}).items():
        row |= {
            f"region {name} seconds": region["seconds"] / steps,
            f"region {name} flops": region["flops_per_second"],
            f"region {name} bytes": region["bytes_per_second"],
            f"region {name} share": region.get("share_of_limit"),
            f"region {name} limited_by": region.get("limit") or None,
        }
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
    """Return what distinguishes the curve of a row from others."""
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
            row[f"efficiency{suffix}"] = parallel_efficiency(_timed(row), _timed(reference))
        if row["logarithmic"]:
            for number, reference in enumerate(references.values(), 1):
                row[f"ws{number}"] = parallel_efficiency(
                    *(
                        Timed(transform_work(one["points"]), one["cores"], one["seconds"])
                        for one in (row, reference)
                    )
                )
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


def _timed(row: Row, work: Callable[[float], float] = float) -> Timed:
    """Return the time of a row for its points, or for the work that they are."""
    return Timed(work(row["points"]), row["cores"], row["seconds"])


class Predictor:
    """Predicts the points of a study, from the same settings and the iterations that its solves took.

    folder: of the study; machine: name or file of a machine for all points. Without one, points that were measured on
    the machine at hand are predicted, if that has a machine file. Raises ConfigError for an unknown machine.
    reasons: what predictions lack, or why there are none, in sentences.
    """

    def __init__(self, folder: Path, machine: str | None = None) -> None:
        self.folder = folder
        self.named: MachineFile | None = None if machine is None else find_machine(machine)
        self.reasons: dict[str, None] = {}
        self._here: MachineFile | None = None
        if machine is None:
            try:
                self._here = machine_here()
            except RidgelineError as why:
                self.reasons[f"no prediction: {why}"] = None

    def of(self, job: JobStatus, labels: Mapping[str, str]) -> dict[str, float]:
        """Return the keys of a row that a prediction adds: seconds of a step, and their interval; {} without one."""
        host = str(job.report.get("machine", {}).get("host", ""))
        machine = self.named or (self._here if machine_name(host) == machine_name_here() else None)
        if machine is None:
            return {}
        try:
            found = self._predict(job, labels, machine)
        except RidgelineError as why:
            self.reasons[f"no prediction: {why}"] = None
            return {}
        if found is None:
            return {}
        if found.seconds is None:
            lacking = ", ".join(f"{figure} (for {part})" for part, figure in found.lacks.items())
            self.reasons[f"no prediction, because the machine file lacks {lacking}"] = None
            return {}
        for note in found.all_notes[len(found.notes) :]:
            self.reasons[note] = None
        if found.bounds:
            self.reasons[f"predictions are lower bounds: {'; '.join(found.bounds)}"] = None
        row = {"predicted": found.seconds}
        if found.interval is not None:
            row["predicted_least"], row["predicted_most"] = found.interval
        return row

    def _predict(self, job: JobStatus, labels: Mapping[str, str], machine: MachineFile) -> Prediction | None:
        ranks, report = int(job.record["ranks"]), job.report
        if "run" in report:
            per_node = int(report["run"]["ranks_on_node"])
            place = Allocation.of(machine, -(-ranks // per_node), per_node)
            path = min(self.folder.glob("case.*"))
            settings = [
                value for flag, value in itertools.pairwise(job.record["arguments"]) if flag == "--set"
            ]
            case = load_case(path, case_class, settings).case
            solves = report.get("solves", {})
            known = [name for name in solves_of(case.run.model) if name in solves]
            counts = {name: max(1.0, solves[name]["iterations_per_solve"]) for name in known}
            return predict_case(case, place, counts)
        if job.record["subject"] != "hpcg-iteration" or labels.get("implementation") != "optimised":
            return None
        nodes = int(report["nodes"])
        box = next(row["box"] for row in report["rows"] if row["implementation"] == "optimised")
        sizes = [f"{name}={size}" for name, size in zip(("nx", "ny", "nz"), box.split(" x "))]
        return predict_benchmark("hpcg", sizes, Allocation.of(machine, nodes, -(-ranks // nodes)))
