"""Settings that every test shares: few threads, no windows, parallel tests only under an MPI launcher; and the two
parts that `make test` runs, files that can be tested at the same time and files that must be alone.
"""

import functools
import json
import os
import re
from pathlib import Path

import pytest

# Set before anything imports NumPy or Numba. Two threads at least, so that threaded kernels are tested
# everywhere; four at most, so that small tests do not fill a big node with threads.
_THREADS = str(max(2, min(4, len(os.sched_getaffinity(0)))))
for _name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, _THREADS)
os.environ.setdefault("MPLBACKEND", "Agg")

# Kernels are kept under a digest of all their sources; Numba's own key would miss a change in a helper's file.
from ridgeline.runtime.compile_cache import configure_kernel_cache  # noqa: E402

_CACHE = configure_kernel_cache()
if "PYTEST_XDIST_WORKER" in os.environ:
    from kernel_cache_lock import lock_kernel_cache

    lock_kernel_cache(_CACHE)

_UNDER_MPI = any(name in os.environ for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"))

# Plain pytest starts the parallel files through test_parallel.py; ranks of a launcher run them themselves.
collect_ignore = ["test_parallel.py"] if _UNDER_MPI else ["ranks"]

# Folders whose tests compute and compile in their own process. What starts processes (which would compile into the
# same cache, and share the cores), or measures time, is not among them, or named by one of these words in it.
_TOGETHER = {
    "analysis",
    "blocks",
    "config",
    "elements",
    "fourier",
    "io",
    "jit",
    "krylov",
    "models",
    "parallel",
    "simulation",
    "sparse",
    "validate",
}
_ALONE_WORDS = re.compile(
    r"\b(subprocess|multiprocessing|cuda_tools|namespaces|mpiexec|perf_counter|process_time)\b"
)


@functools.cache
def is_alone(file: Path) -> bool:
    """Say whether a test file must not run while another one does."""
    folder = file.relative_to(Path(__file__).parent).parts[0]
    return folder not in _TOGETHER or _ALONE_WORDS.search(file.read_text()) is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that tools/run_tests.py gives."""
    parser.addoption(
        "--part", choices=("together", "alone"), help="Only files that may, or may not, share cores."
    )
    parser.addoption(
        "--counts", metavar="FILE", help="Write how many tests passed, failed, ... here, as JSON."
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of the other part."""
    part = config.getoption("part")
    if part is None or not collection_path.match("test_*.py"):
        return None
    return True if is_alone(collection_path) != (part == "alone") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the other part's files that were named on the command line: pytest never ignores those."""
    part = config.getoption("part")
    if part is not None:
        items[:] = [item for item in items if is_alone(item.path) == (part == "alone")]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the counts."""
    path = config.getoption("counts")
    if path is not None:
        kinds = ("failed", "error", "passed", "skipped", "deselected", "xfailed", "xpassed")
        found = {kind: len(terminalreporter.stats.get(kind, ())) for kind in kinds}
        Path(path).write_text(json.dumps({kind: count for kind, count in found.items() if count}))
