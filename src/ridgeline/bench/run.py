"""A benchmark as a job of its own: prepare this rank, measure, write what was asked for, print on rank 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ridgeline.io.output_files import check_writable, to_json, write_text
from ridgeline.parallel.job import job
from ridgeline.parallel.layout import busiest_share, oversubscription_warning
from ridgeline.runtime.console import Phases, plain_console
from ridgeline.runtime.errors import VerificationError
from ridgeline.runtime.files import LastWrites
from ridgeline.runtime.machine import describe_machine
from ridgeline.runtime.node_load import read_load

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
    from ridgeline.bench.result import Result


@dataclass(frozen=True)
class BenchmarkOutputs:
    """Files that a user asked for: figures as JSON ("-" for stdout alone), rows as CSV, a picture."""

    json: str | None = None
    csv: str | None = None
    plot: str | None = None

    def check(self) -> None:
        """Raise OutputError if one of them cannot be written."""
        check_writable(self.json, "--json")
        check_writable(self.csv, "--csv")
        if self.plot is not None:
            from ridgeline.analysis.plot import check_picture

            check_picture(self.plot, "--plot")


def run_benchmark(
    benchmark: Benchmark,
    options: BenchmarkOptions,
    outputs: BenchmarkOutputs | None = None,
    debug: bool = False,
) -> dict[str, Any]:
    """Run a declared benchmark on all ranks; print on rank 0; return what its JSON holds.

    Collective over the world. Any failure ends the job. A result with failures does so after all is written, as
    VerificationError.
    """
    outputs = outputs or BenchmarkOutputs()
    threads = getattr(options, "threads", 1)
    with job(threads, debug) as comm:
        from ridgeline.parallel.allreduce import errors_on_all_ranks

        with errors_on_all_ranks(comm):
            if comm.rank == 0:
                outputs.check()
        before = read_load()
        with Phases(benchmark.name, comm.rank == 0) as progress:
            result = benchmark.measure(comm, options, progress=progress, **_memory(comm, options))
        crowded = oversubscription_warning(comm, threads)
        if crowded is not None:
            result.notes.append(crowded)
        facts = result.to_dict() | {"machine": describe_machine().to_dict()}
        facts["oversubscribed"] = crowded is not None
        facts["others_share"] = busiest_share(comm, before)
        with errors_on_all_ranks(comm):
            if comm.rank == 0:
                writes = LastWrites()
                _write(result, facts, outputs, writes)
                with writes.trying():
                    _finish(benchmark, result, options, quiet=outputs.json == "-")
                writes.raise_failures()
        if result.failures:
            raise VerificationError("; ".join(result.failures))
    return facts


def _memory(comm: MPI.Comm, options: BenchmarkOptions) -> dict[str, Any]:
    """Return the kind of memory for messages, where the options name a device. Collective."""
    device = getattr(options, "device", None)
    if device is None:
        return {}
    from ridgeline.parallel.payload import memory_for

    return {"memory": memory_for(comm, device)}


def _write(result: Result, facts: dict[str, Any], outputs: BenchmarkOutputs, writes: LastWrites) -> None:
    """Write the files that were asked for, and print the table unless JSON goes to stdout."""
    from ridgeline.bench.result import make_table, to_csv

    if outputs.json is not None:
        with writes.trying():
            write_text(outputs.json, to_json(facts), "--json")
    if outputs.json != "-":
        plain_console().print(make_table(result))
    if outputs.csv is not None:
        with writes.trying():
            write_text(outputs.csv, to_csv(result), "--csv")
    if outputs.plot is not None:
        from ridgeline.analysis.bench_plots import save_plot

        with writes.trying():
            save_plot(facts, outputs.plot)


def _finish(benchmark: Benchmark, result: Result, options: BenchmarkOptions, quiet: bool) -> None:
    """Write the files that a benchmark has of its own, and print what it says of them."""
    if benchmark.finish is None:
        return
    for line in benchmark.find(benchmark.finish)(result, options):
        if not quiet:
            print(line)
