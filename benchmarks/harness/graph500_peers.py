"""Peers of Graph500, compiled from a user's checkout into another folder: GAP's kernels and the reference code."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from harness.ranks import outside_mpi
from ridgeline.runtime.mpiexec import find_mpiexec

GAP_FLAGS = ("-std=c++11", "-O3", "-march=native", "-fopenmp")
# As its Makefile has them; from version 10 on, gcc links what is declared in several files only with -fcommon.
REFERENCE_FLAGS = (
    "-fcommon",
    "-O3",
    "-march=native",
    "-w",
    "-DGRAPH_GENERATOR_MPI",
    "-DREUSE_CSR_FOR_VALIDATION",
)
REFERENCE_SOURCES = (
    *(f"src/{name}.c" for name in ("bfs_reference", "csr_reference", "main", "utils", "validate")),
    "aml/aml.c",
    *(f"generator/{name}.c" for name in ("graph_generator", "make_graph", "splittable_mrg", "utils")),
)
# Widths of a bucket for weights of 1 to 255: 2 is what GAP's own runs of Kronecker graphs take.
DELTAS = (2, 8, 32)
# GAP's breadth-first search after its own relabelling, which its program does for counting triangles only.
_RELABELLED = """
#define main main_as_published
#include "bfs.cc"
#undef main
int main(int argc, char **argv) {
  CLApp options(argc, argv, "breadth-first search of vertices in the order of their degrees");
  if (!options.ParseArgs()) return 1;
  Builder builder(options);
  Graph built = builder.MakeGraph();
  Graph graph = Builder::RelabelByDegree(built);
  SourcePicker<Graph> sources(graph), same_sources(graph);
  auto search = [&](const Graph &g) { return DOBFS(g, sources.PickNext()); };
  auto verify = [&](const Graph &g, const pvector<NodeID> &parents) {
    return BFSVerifier(g, same_sources.PickNext(), parents);
  };
  BenchmarkKernel(options, graph, search, PrintBFSStats, verify);
}
"""
_REPORT = re.compile(r"Time for BFS \d+ is ([\d.]+)")


class PeerUnavailable(Exception):
    """A peer cannot be compiled or run; the message says why."""


def compile_peer(command: list[str], folder: Path) -> None:
    """Run a compiler. Raises PeerUnavailable with its first error."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise PeerUnavailable(f"{Path(command[0]).name} cannot be started: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.splitlines() or [f"exit code {done.returncode}"]
        errors = [line for line in lines if "error" in line or "multiple definition" in line] or lines
        raise PeerUnavailable(f"{Path(command[0]).name} says {errors[0].split('error:')[-1].strip()}")


class GapRun(NamedTuple):
    """The seconds of searches, and of building the graph from the list of edges, relabelling included."""

    searches: list[float]
    build: float


class Gap:
    """The kernels `bfs` and `sssp` of the GAP benchmark suite. Raises PeerUnavailable.

    The kernel `relabelled bfs` searches the graph whose vertices GAP has numbered by their degrees.
    """

    def __init__(self, checkout: Path, folder: Path) -> None:
        compiler = shutil.which("g++")
        if compiler is None:
            raise PeerUnavailable("there is no g++ on this machine")
        sources = checkout.resolve() / "src"
        relabelled = folder / "relabelled.cc"
        relabelled.write_text(_RELABELLED)
        files = {"bfs": sources / "bfs.cc", "sssp": sources / "sssp.cc", "relabelled bfs": relabelled}
        self.programs = {kernel: folder / f"gap_{kernel.replace(' ', '_')}" for kernel in files}
        for kernel, source in files.items():
            if not source.exists():
                raise PeerUnavailable(f"the checkout has no src/{source.name}")
            command = [compiler, *GAP_FLAGS, f"-I{sources}", str(source), "-o", str(self.programs[kernel])]
            compile_peer(command, folder)

    def run(self, kernel: str, scale: int, searches: int, threads: int) -> GapRun:
        """Search from random roots; shortest paths with the best bucket width."""
        if kernel != "sssp":
            return self._run(kernel, scale, searches, threads)
        found = [self._run(kernel, scale, searches, threads, "-d", str(delta)) for delta in DELTAS]
        return min(found, key=lambda run: sorted(run.searches)[searches // 2])

    def _run(self, kernel: str, scale: int, searches: int, threads: int, *more: str) -> GapRun:
        command = [str(self.programs[kernel]), "-g", str(scale), "-n", str(searches), *more]
        environment = outside_mpi() | {"OMP_NUM_THREADS": str(threads)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        words = [line.split() for line in done.stdout.splitlines()]
        times = [float(line[-1]) for line in words if line[:2] == ["Trial", "Time:"]]
        return GapRun(times, sum(float(line[-1]) for line in words if line[:1] in (["Build"], ["Relabel:"])))


class Reference:
    """The reference code's breadth-first search. Raises PeerUnavailable."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        compiler = shutil.which("mpicc", path=str(Path(sys.executable).parent)) or shutil.which("mpicc")
        if compiler is None:
            raise PeerUnavailable("there is no mpicc beside the interpreter or on PATH")
        root = checkout.resolve()
        missing = [name for name in REFERENCE_SOURCES if not (root / name).exists()]
        if missing:
            raise PeerUnavailable(f"the checkout has no {missing[0]}")
        self.program = folder / "graph500_reference_bfs"
        sources = [str(root / name) for name in REFERENCE_SOURCES]
        flags = [*REFERENCE_FLAGS, "-Drestrict=__restrict__", f"-I{root / 'aml'}"]
        compile_peer([compiler, *flags, *sources, "-o", str(self.program), "-lm", "-lpthread"], folder)

    def search(self, scale: int, ranks: int) -> list[float]:
        """Return the seconds of its 64 searches. They are not validated: its options are environment variables."""
        command = [*find_mpiexec(), "-n", str(ranks), str(self.program), str(scale)]
        environment = outside_mpi() | {"SKIP_VALIDATION": "1", "OMP_NUM_THREADS": "1"}
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(
            filter(None, [str(Path(sys.prefix) / "lib"), os.environ.get("LD_LIBRARY_PATH", "")])
        )
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return [float(found) for found in _REPORT.findall(done.stdout + done.stderr)]
