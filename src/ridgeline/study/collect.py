"""The result of a study (CSV, JSON, tables, notes, machines), and that of two studies compared point by point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ridgeline.bench.result import Column, Result
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.node_load import MOST_OTHERS
from ridgeline.runtime.units import counted
from ridgeline.study.folder import JobStatus, StudyFolder
from ridgeline.study.rows import Predictor, Row, rows_of

# What every study shows if it is known; the columns of labels come before these, those of solves after them.
COLUMNS = (
    Column("ranks", "ranks"),
    Column("threads", "threads"),
    Column("size", "size"),
    Column("seconds", "ms/step", 1e-3, ".4g"),
    Column("jobs", "jobs"),
    Column("median", "median ms", 1e-3, ".4g"),
    Column("jitter", "jitter", form=".3f"),
    Column("predicted", "predicted ms", 1e-3, ".4g"),
    Column("predicted_least", "80 % from ms", 1e-3, ".4g"),
    Column("predicted_most", "80 % to ms", 1e-3, ".4g"),
    Column("points_per_second", "M points/s", 1e6, ".4g"),
    Column("flops", "GFLOP/s", 1e9, ".4g"),
    Column("bytes", "GB/s", 1e9, ".4g"),
    Column("speedup", "speed-up", form=".3f"),
    Column("efficiency", "efficiency", form=".3f"),
    Column("efficiency_before", "to fewer", form=".3f"),
    Column("ws1", "N^3 log N", form=".3f"),
    Column("ws2", "N^3 log N to fewer", form=".3f"),
    Column("parallel_efficiency", "parallel", form=".3f"),
    Column("overall_efficiency", "overall", form=".3f"),
    Column("fraction", "of limit", form=".3f"),
    Column("limited_by", "limited by"),
    Column("fastest_rank", "fastest rank ms", 1e-3, ".4g"),
    Column("slowest_rank", "slowest rank ms", 1e-3, ".4g"),
    Column("joules", "J/step", form=".4g"),
    Column("simulated", "time/s", form=".4g"),
    Column("output_seconds", "output in s", form=".3f"),
    Column("output_rate", "output MB/s", 1e6, ".4g"),
    Column("checkpoint_rate", "checkpoints MB/s", 1e6, ".4g"),
)
MARKS = "crowded"  # key of rows whose threads share cores; drawn hollow


@dataclass(frozen=True)
class Collected:
    """A study as it stands. jobs: all that are known; result: the rows; machines: hosts, CPUs and commits."""

    name: str
    jobs: tuple[JobStatus, ...]
    rows: tuple[Row, ...]
    result: Result
    machines: tuple[str, ...]

    def named(self, *states: str) -> list[JobStatus]:
        """Return the jobs in these states."""
        return [job for job in self.jobs if job.state in states]


def collect(folder: StudyFolder, machine: str | None = None) -> Collected:
    """Return what has finished in the folder of a study.

    machine: for which all points are predicted; by default the machine at hand, if it has a machine file.
    Raises OutputError for a report that cannot be read, ConfigError for an unknown machine.
    """
    jobs = tuple(folder.statuses())
    predictor = Predictor(folder.path, machine)
    try:
        rows = rows_of(jobs, predictor.of)
    except (KeyError, TypeError, AttributeError) as problem:
        raise OutputError(
            f"{folder.path}: a report is damaged, or another version of Ridgeline wrote it ({problem!r}). Delete the "
            "folder of its job, and run the study again."
        ) from None
    for row in rows:
        alike = [one for one in rows if (one["cores"], one["points"]) == (row["cores"], row["points"])]
        if len(alike) > 1:
            row["speedup"] = alike[0]["seconds"] / row["seconds"]
    machines = dict.fromkeys(machine_of(job.report) for job in jobs if job.state == "done")
    result = to_result(folder.path.name, jobs, rows)
    result.notes += predictor.reasons
    return Collected(folder.path.name, jobs, tuple(rows), result, tuple(machines))


def to_result(name: str, jobs: Sequence[JobStatus], rows: Sequence[Row]) -> Result:
    """Return the rows as a result, with the columns that hold anything; labels come first."""
    labels = list(dict.fromkeys(key for row in rows for key in row["labels"]))
    solves = list(dict.fromkeys(key for row in rows for key in row if key.startswith("iterations ")))
    flat = [{**row["labels"], **{k: v for k, v in row.items() if k != "labels"}} for row in rows]
    columns = [Column(key, key.replace("_", " ")) for key in labels]
    columns += [one for one in COLUMNS if any(row.get(one.key) is not None for row in flat)]
    if all(row["threads"] == 1 for row in rows):
        columns = [one for one in columns if one.key != "threads"]
    if len({row["cores"] for row in rows}) == 1:
        columns = [one for one in columns if one.key not in ("efficiency", "ws1", "parallel_efficiency")]
    columns += [Column(key, f"{key.split(' ', 1)[1]} iterations", form=".2f") for key in solves]
    record = jobs[0].record if jobs else {}
    scaling = str(record.get("scaling", "strong"))
    # What the study shows: how the subject scales, or what settings change on one number of ranks.
    varied = [key.replace("_", " ") for key in labels if len({row["labels"].get(key) for row in rows}) > 1]
    alone = len({job.record.get("ranks") for job in jobs}) == 1
    kind = f"by {' and '.join(varied)}" if varied and alone else f"{scaling} scaling"
    return Result(
        benchmark=f"study {name}",
        pattern=f"{record.get('subject', 'nothing')}, {kind}",
        formula="\n".join(definitions(scaling, {column.key for column in columns})),
        statistic="each point is the fastest of its jobs",
        ranks=max((row["ranks"] for row in rows), default=0),
        columns=columns,
        rows=flat,
        settings={"subject": record.get("subject"), "scaling": scaling},
        notes=list(notes(jobs, rows)),
    )


def definitions(scaling: str, keys: set[str]) -> Iterator[str]:
    """Yield how the columns that are there follow from the measurements."""
    kept = "t0 / t for equal points per core" if scaling == "weak" else "t0 n0 / (t n)"
    known = {
        "jitter": "jitter: (longest - shortest) / shortest time of the jobs",
        "speedup": "speed-up: time of the first row with the same points and cores over the time of this row",
        "predicted": "predicted: from the machine file (`ridgeline predict`), with the measured iterations of solves",
        "bytes": "GFLOP/s, GB/s: operations and least memory traffic per second, counted in closed form",
        "predicted_least": "80 % from, to: the interval that is predicted to contain 80 % of the steps",
        "efficiency": f"efficiency: points per second and core relative to the fewest cores, {kept}",
        "efficiency_before": "to fewer: efficiency relative to the next fewer cores",
        "ws1": "N^3 log N: efficiency for the work N^3 log2 N, as Yeung et al. (GESTS)",
        "ws2": "N^3 log N to fewer: the same relative to the next fewer cores",
        "parallel_efficiency": "parallel: overall efficiency relative to the fewest cores, as Hadri et al. (NekBox)",
        "overall_efficiency": "overall: counted bytes per second relative to STREAM, as Hadri et al.",
        "limited_by": "limited by: the limit that bounds the whole step, as the roofline of the report says",
        "fastest_rank": "fastest, slowest rank: seconds of a step on these ranks of the best job",
        "fraction": "of limit: share of the limit of memory traffic or arithmetic that the same job measured",
        "simulated": "time/s: model time per second of wall time",
    }
    yield from (text for key, text in known.items() if key in keys)


def notes(jobs: Sequence[JobStatus], rows: Sequence[Row]) -> Iterator[str]:
    """Yield what a reader must know: points on crowded or busy nodes, and jobs that are not done."""
    crowded = sorted({row["ranks"] for row in rows if row[MARKS]})
    if crowded:
        numbers = ", ".join(map(str, crowded))
        yield f"there are more threads than cores on {numbers} ranks, so these points are drawn hollow"
    shares = [row["others_share"] for row in rows if (row.get("others_share") or 0.0) > MOST_OTHERS]
    if shares:
        yield (
            f"Other processes used up to {max(shares):.0%} of the busiest node during the fastest jobs of "
            f"{len(shares)} of {counted(len(rows), 'point')}. The machine may be faster than these values."
        )
    for state in ("failed", "damaged", "missing"):
        names = [job for job in jobs if job.state == state]
        if names:
            yield f"{state}: " + "; ".join(f"{job.name} ({job.why})" for job in names)


def machine_of(report: Mapping[str, Any]) -> str:
    """Return host, CPU, cores and commit of a report, in a line."""
    machine = report.get("machine", {})
    commit = str(report.get("provenance", {}).get("git_commit") or "")
    text = f"{machine.get('host', 'unknown')}: {machine.get('cpu', 'unknown')}, {machine.get('cores', '?')} cores"
    return f"{text}, commit {commit}" if commit else text


def names_of(first: Collected, second: Collected) -> tuple[str, str]:
    """Return the names of two studies, with A and B in front if they are equal."""
    if first.name != second.name:
        return first.name, second.name
    return f"A {first.name}", f"B {second.name}"


def joined(first: Collected, second: Collected) -> list[Row]:
    """Return the rows of both, with the label `study`. Raises ConfigError if nothing can be compared."""
    subjects = [study.result.settings["subject"] for study in (first, second)]
    if subjects[0] != subjects[1]:
        raise ConfigError(
            f"{first.name} is a study of {subjects[0]}, but {second.name} is a study of {subjects[1]}. "
            "Compare two studies of the same model or benchmark."
        )
    return [
        {**row, "labels": {"study": name, **row["labels"]}}
        for name, study in zip(names_of(first, second), (first, second))
        for row in study.rows
    ]


def compare(first: Collected, second: Collected) -> Result:
    """Return a row for each point that both studies have. Raises ConfigError if there is none."""
    names = names_of(first, second)
    named = list(zip(names, (first, second)))
    joined(first, second)
    others = {_key(row): row for row in second.rows}
    pairs = [(row, others[_key(row)]) for row in first.rows if _key(row) in others]
    if not pairs:
        raise ConfigError(
            f"{names[0]} and {names[1]} have no point in common (same axes, ranks, threads and number of points). "
            "Run one with the study file of the other."
        )
    labels = list(dict.fromkeys(key for row, _ in pairs for key in row["labels"]))
    columns = [Column(key, key.replace("_", " ")) for key in labels]
    columns += [
        Column("ranks", "ranks"),
        Column("size", "size"),
        Column("first", f"ms/step, {names[0]}", 1e-3, ".4g"),
        Column("second", f"ms/step, {names[1]}", 1e-3, ".4g"),
        Column("ratio", "first / second", form=".3f"),
        Column("first_efficiency", f"efficiency, {names[0]}", form=".3f"),
        Column("second_efficiency", f"efficiency, {names[1]}", form=".3f"),
    ]
    return Result(
        benchmark=f"studies {names[0]} and {names[1]}",
        pattern=f"{first.result.pattern}, point by point",
        formula="first / second: speed of the second study relative to the first",
        statistic="each point is the fastest of its jobs",
        ranks=max(row["ranks"] for row, _ in pairs),
        columns=columns,
        rows=[
            {
                **one["labels"],
                "ranks": one["ranks"],
                "size": one["size"],
                "first": one["seconds"],
                "second": other["seconds"],
                "ratio": one["seconds"] / other["seconds"],
                "first_efficiency": one["efficiency"],
                "second_efficiency": other["efficiency"],
            }
            for one, other in pairs
        ],
        settings={"machines": [list(first.machines), list(second.machines)]},
        notes=[
            *(f"{name}: {machine}" for name, study in named for machine in study.machines),
            *(
                f"the other study lacks {counted(len(study.rows) - len(pairs), 'point')} of {name}"
                for name, study in named
                if len(study.rows) > len(pairs)
            ),
        ],
    )


def _key(row: Row) -> tuple[Any, ...]:
    return (*sorted(row["labels"].items()), row["ranks"], row["threads"], row["points"])
