"""One run of Graph500: the edges, kernel 1, the roots, then every search of each kernel, timed and validated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.graph500 import (
    construct,
    construct_kernels,
    generator,
    generator_kernels,
    path_kernels,
    search_kernels,
    validation,
)
from ridgeline.bench.graph500.graph500_options import Graph500Options
from ridgeline.bench.graph500.grid import choose_columns
from ridgeline.bench.graph500.input_edges import InputEdges
from ridgeline.bench.graph500.output import SearchRecord
from ridgeline.bench.graph500.roots import choose_roots
from ridgeline.bench.graph500.search import SearchWorkspace, breadth_first
from ridgeline.bench.graph500.shortest_paths import PathGraph, PathSearch, shortest_paths
from ridgeline.jit.kernel import compile_kernels
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.runtime.progress import Phases, silent

T = TypeVar("T")
Parents = NDArray[np.int64]
TRIAL_SCALE = 16  # of the graph from which the time is predicted
_TRIAL_ROOTS = 2


class Graph500Run:
    """Edges, graph and roots of a run, made when it is made. Collective over comm, as all its functions.

    facts: the official names of what is known before the searches, and their values.
    """

    def __init__(self, comm: MPI.Comm, options: Graph500Options, progress: Phases) -> None:
        self.comm, self.progress = comm, progress
        progress.begin("generation of edges")
        edges, generation = timed(
            comm,
            lambda: generator.generate(comm, options.scale, options.edge_factor, options.sssp, options.seeds),
        )
        progress.begin("preparation of the validation")
        self.inputs = InputEdges(comm, edges)
        self.roots = choose_roots(
            comm, self.inputs.blocks, self.inputs.joined(), options.roots, options.seeds
        )
        progress.begin("construction")
        columns = choose_columns(comm.size)
        self.graph, seconds = timed(comm, lambda: construct.construct(comm, edges, columns))
        self.paths: PathGraph | None = None
        if options.sssp:
            self.paths, more = timed(comm, lambda: PathGraph(self.graph))
            seconds += more
        self.facts: dict[str, int | float] = {
            "SCALE": options.scale,
            "edgefactor": options.edge_factor,
            "NBFS": len(self.roots),
            "graph_generation": generation,
            "num_mpi_processes": comm.size,
            "construction_time": seconds,
        }

    def search_all(self) -> list[SearchRecord]:
        """Return all breadth-first searches, then all shortest paths, in the order of the roots."""
        workspace = SearchWorkspace(self.graph)

        def breadth(root: int) -> tuple[Parents, ...]:
            return (breadth_first(self.graph, root, workspace),)

        found = self._search("bfs", breadth, validation.validate_bfs)
        if self.paths is not None:
            search = PathSearch(self.paths)
            found += self._search("sssp", lambda root: shortest_paths(search, root), validation.validate_sssp)
        return found

    def _search(
        self,
        kernel: str,
        search: Callable[[int], tuple[NDArray[np.generic], ...]],
        validate: Callable[..., validation.Validity],
    ) -> list[SearchRecord]:
        """Search from every root and validate what was found; a search before them is not counted."""
        self.progress.begin(kernel)
        for root in self.roots[:1]:
            search(root)
        records = []
        for i, root in enumerate(self.roots):
            self.progress.update(i, len(self.roots))
            found, seconds = timed(self.comm, partial(search, root))
            verdict, validate_seconds = timed(self.comm, partial(validate, self.inputs, root, *found))
            records.append(
                SearchRecord(kernel, root, seconds, verdict.edges, validate_seconds, verdict.failures)
            )
        return records


def timed(comm: MPI.Comm, action: Callable[[], T]) -> tuple[T, float]:
    """Return what an action returns, and its seconds on the slowest rank, all having begun together. Collective."""
    comm.Barrier()
    start = perf_counter()
    result = action()
    return result, comm.allreduce(perf_counter() - start, MPI.MAX)


def predict_seconds(comm: MPI.Comm, options: Graph500Options) -> float | None:
    """Return about how long the run will take, from a smaller graph on the same ranks; None for a small one.

    Generation, construction and searches take time in proportion to the edges, as long as caches do not decide.
    """
    if options.scale <= TRIAL_SCALE:
        return None
    trial = replace(options, scale=TRIAL_SCALE, roots=min(_TRIAL_ROOTS, options.roots))
    run, once = timed(comm, lambda: Graph500Run(comm, trial, silent()))
    searches, each = timed(comm, run.search_all)
    # The search that is not counted is one more of each kernel, without its validation.
    kernels = 1 + options.sssp
    warm = sum(one.seconds for one in searches) / len(searches) * kernels
    per_root = (each - warm) / trial.roots
    return (once + per_root * options.roots) * 2.0 ** (options.scale - TRIAL_SCALE)


def compile_graph500(comm: MPI.Comm) -> None:
    """Compile the kernels, or load them from the cache. Collective."""
    parts = generator_kernels, construct_kernels, search_kernels, path_kernels, validation
    wanted = [one for part in parts for one in part.kernels()]
    in_turn_per_node(comm, lambda: compile_kernels(wanted))
