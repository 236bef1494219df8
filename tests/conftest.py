"""Settings that every test shares: few threads, no windows, parallel tests only under an MPI launcher, and the counts
of a run.
"""

import contextlib
import gc
import json
import os
from pathlib import Path

import pytest

# Set before anything imports NumPy or Numba. Two threads at least, so that threaded kernels are tested
# everywhere; four at most, so that small tests do not fill a big node with threads.
_THREADS = str(max(2, min(4, len(os.sched_getaffinity(0)))))
for _name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, _THREADS)
os.environ.setdefault("MPLBACKEND", "Agg")
gc.set_threshold(50_000)  # at Python's 700 a quarter of the time of compilation goes into looking for garbage

# All tests keep their kernels in one place, whatever cache folder a test gives its commands.
from ridgeline.jit.kernel_folders import kernel_folder  # noqa: E402

os.environ.setdefault("NUMBA_CACHE_DIR", str(kernel_folder()))

if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    with contextlib.suppress(ImportError):  # numba-cuda is not installed
        import simulated_blocks  # noqa: F401

_UNDER_MPI = any(name in os.environ for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"))

# Plain pytest starts the parallel files through test_parallel.py; ranks of a launcher run them themselves.
collect_ignore = ["test_parallel.py"] if _UNDER_MPI else ["ranks"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that tools/run_tests.py gives."""
    parser.addoption("--summary", metavar="FILE", help="Write counts and the seconds of tests here, as JSON.")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write how many tests passed, failed, ..., and the seconds of each test."""
    path = config.getoption("summary")
    if path is None:
        return
    kinds = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")
    counts = {kind: count for kind in kinds if (count := len(terminalreporter.stats.get(kind, ())))}
    seconds: dict[str, float] = {}
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
    Path(path).write_text(json.dumps({"counts": counts, "seconds_of": seconds}))
