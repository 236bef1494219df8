"""What the ranks of one launch share: the communicator, one rank that prints, and an end without hanging.

A test that fails on one rank leaves the others waiting in a collective call, so the failing rank prints its
report and aborts the job. Run by hand:

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 mpiexec -n 3 python -m pytest -x -q tests/ranks/test_x.py

Started by tests/test_parallel.py, a rank also leaves its count of tests, or its report, in a folder.
"""

import faulthandler
import io
import json
import os
import sys
import time
from pathlib import Path

import pytest
from _pytest.config import create_terminal_writer
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
REPORTS = os.environ.get("RIDGELINE_TEST_REPORTS")
counts = {"passed": 0, "skipped": 0, "failed": 0}
reasons: set[str] = set()


@pytest.fixture(scope="session")
def comm() -> MPI.Intracomm:
    """All ranks of the launch."""
    return WORLD


@pytest.fixture
def folder(comm: MPI.Intracomm, tmp_path: Path) -> Path:
    """One empty folder for all ranks."""
    shared: Path = comm.bcast(tmp_path)
    return shared


def report_file(suffix: str) -> Path:
    return Path(REPORTS or os.devnull) / f"rank{WORLD.rank}.{suffix}"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if WORLD.rank > 0:
        reporter = config.pluginmanager.getplugin("terminalreporter")
        reporter._tw = create_terminal_writer(config, io.StringIO())
    if REPORTS:  # before the launch is killed, every rank says where it is
        report_file("pid").write_text(str(os.getpid()))
        seconds = float(os.environ["RIDGELINE_TEST_STACKS_AT"]) - time.time()
        faulthandler.dump_traceback_later(max(seconds, 0.1), file=report_file("stack").open("w"))


def end_job(text: str) -> None:
    """Print this rank's report; with other ranks about, abort the job."""
    text = f"=== rank {WORLD.rank} of {WORLD.size} ===\n{text}\n"
    if REPORTS:
        with report_file("failure").open("a") as file:
            file.write(text)
    if WORLD.size > 1:
        sys.stderr.write(text)
        sys.stderr.flush()
        WORLD.Abort(1)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        counts["failed"] += 1
        sections = [f"--- {name} ---\n{content}" for name, content in report.sections]
        end_job("\n".join([f"{report.nodeid} failed in {report.when}", report.longreprtext, *sections]))
    elif report.skipped:
        counts["skipped"] += 1
        reasons.add(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext)
    elif report.when == "call":
        counts["passed"] += 1


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        end_job(f"collecting {report.nodeid} failed\n{report.longreprtext}")


def pytest_internalerror(excrepr: object) -> None:
    end_job(str(excrepr))


def pytest_keyboard_interrupt() -> None:
    end_job("interrupted")


def pytest_sessionfinish() -> None:
    if REPORTS:
        record = {"size": WORLD.size, "reasons": sorted(reasons), **counts}
        report_file("json").write_text(json.dumps(record))
