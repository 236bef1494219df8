"""How a benchmark runs as a job: prepare this rank, measure, write the requested files, and print on rank 0.

Nothing imports MPI before `run_benchmark` has set what MPI reads when it starts: its thread level, its variables.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ridgeline.bench.message_scaling import HMEM
from ridgeline.io.output_files import check_writable, to_json, write_text
from ridgeline.parallel.job import job
from ridgeline.runtime.console import Phases, plain_console
from ridgeline.runtime.errors import ConfigError, VerificationError
from ridgeline.runtime.files import LastWrites
from ridgeline.runtime.machine import describe_machine
from ridgeline.runtime.mpi_import import use_thread_level
from ridgeline.runtime.node_load import busy_note, read_load

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
    from ridgeline.bench.result import Result


@dataclass(frozen=True)
class BenchmarkOutputs:
    """The files that a user requests: figures as JSON ("-" prints only it on stdout), rows as CSV, a picture."""

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
    """Run a declared benchmark on all ranks, print its figures on rank 0, and return the content of its JSON.

    Collective over the world. Any error ends the job. A result with failures raises VerificationError once everything
    is written.
    """
    outputs = outputs or BenchmarkOutputs()
    threads = getattr(options, "threads", 1)
    form = getattr(options, "format", None)  # of benchmarks of messages: as a table, or as OSU prints
    hmem = getattr(options, "hmem", "default")
    if hmem != "default":
        # MPICH reads it when it starts, which is in `job`.
        os.environ[HMEM] = "1" if hmem == "on" else "0"
    use_thread_level(benchmark.thread_level)
    with job(threads, debug) as comm:
        from ridgeline.bench.osu_format import check_options, osu_text
        from ridgeline.bench.result import make_table
        from ridgeline.parallel.allreduce import errors_on_all_ranks
        from ridgeline.parallel.communicator import mpi_environment, mpi_library, mpi_versions, thread_level
        from ridgeline.parallel.layout import busiest_share, find_layout, oversubscription_warning
        from ridgeline.parallel.rank_devices import find_rank_devices

        with errors_on_all_ranks(comm):
            if comm.rank == 0:
                outputs.check()
            if form == "osu":
                check_options(options)
            if hmem != "default" and not mpi_library().startswith("MPICH"):
                raise ConfigError(
                    f"--hmem {hmem} sets {HMEM}, which only MPICH reads, and the MPI library is {mpi_library()}."
                )
        before = read_load()
        offers: dict[str, Any] = {}
        device = getattr(options, "device", None)
        if device is not None:
            from ridgeline.parallel.payload import memory_for

            offers["memory"] = memory_for(comm, device)
        with Phases(benchmark.name, comm.rank == 0) as progress:
            # Calls the function that `<family>_options.py` names, such as `bench.hpcg.hpcg_run.measure_hpcg`.
            result = benchmark.measure(comm, options, progress=progress, **offers)
        others = busiest_share(comm, before)
        crowded = oversubscription_warning(comm, threads)
        if form is not None:
            result.notes.append(f"{mpi_library()} with MPI_THREAD_{thread_level().upper()}.")
        result.notes += [note for note in (crowded, busy_note(others)) if note is not None]
        facts = result.to_dict() | {"machine": describe_machine().to_dict()}
        facts["mpi"] = mpi_versions() | {"environment": mpi_environment()}
        devices = find_rank_devices(comm, find_layout(comm))
        facts["rank_devices"] = [rank.to_dict() for rank in devices] if comm.rank == 0 else []
        facts["oversubscribed"] = crowded is not None
        facts["others_share"] = others
        with errors_on_all_ranks(comm):
            if comm.rank == 0:
                writes = LastWrites()
                _write(
                    result, facts, outputs, writes, osu_text(result) if form == "osu" else make_table(result)
                )
                if benchmark.finish is not None:
                    with writes.trying():
                        for line in benchmark.find(benchmark.finish)(result, options):
                            if outputs.json != "-":
                                print(line)
                writes.raise_failures()
        if result.failures:
            raise VerificationError(" ".join(result.failures))
    return facts


def _write(
    result: Result, facts: dict[str, Any], outputs: BenchmarkOutputs, writes: LastWrites, text: RenderableType
) -> None:
    """Write the requested files, and print the text or table unless JSON goes to stdout."""
    from ridgeline.bench.result import to_csv

    if outputs.json is not None:
        with writes.trying():
            write_text(outputs.json, to_json(facts), "--json")
    if outputs.json != "-":
        plain_console().print(text)
    if outputs.csv is not None:
        with writes.trying():
            write_text(outputs.csv, to_csv(result, others_share=facts["others_share"]), "--csv")
    if outputs.plot is not None:
        from ridgeline.analysis.bench_plots import save_plot

        with writes.trying():
            save_plot(facts, outputs.plot)
