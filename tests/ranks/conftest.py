"""What the ranks of one launch share: the communicator, one rank that prints, and an end without hanging.

A test that fails on one rank leaves the others waiting in a collective call, so the failing rank prints its
report and aborts the job. Run by hand:

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 mpiexec -n 3 python -m pytest -x -q tests/ranks/test_x.py

Started by tests/test_parallel.py, a rank also writes into a folder: where it is, its counts of each file that it is
through with, its reports of failures, and its stack before the launch is killed.
"""

import faulthandler
import io
import json
import os
import sys
from pathlib import Path

import pytest
from _pytest.config import create_terminal_writer
from mpi4py import MPI

from rank_jobs import TIMEOUT

WORLD = MPI.COMM_WORLD
BETWEEN = WORLD.Dup()  # for what is said between tests: no message of a test meets it
REPORTS = os.environ.get("RIDGELINE_TEST_REPORTS")
STACKS = os.open(Path(REPORTS, f"rank{WORLD.rank}.stack"), os.O_WRONLY | os.O_CREAT) if REPORTS else None
COUNTS: dict[str, dict] = {}  # of the test files
END = "the end"


@pytest.fixture(scope="session")
def comm() -> MPI.Intracomm:
    """All ranks of the launch."""
    return WORLD


@pytest.fixture
def folder(comm: MPI.Intracomm, tmp_path: Path) -> Path:
    """One empty folder for all ranks."""
    shared: Path = comm.bcast(tmp_path)
    return shared


def write(name: str, text: str) -> None:
    """Put a file into the folder of reports, if there is one: whole or not at all."""
    if REPORTS:
        path = Path(REPORTS, f"rank{WORLD.rank}.{name}")
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").replace(path)


def file_of(nodeid: str) -> str:
    return Path(nodeid.split("::")[0]).name


def counts_of(nodeid: str) -> dict:
    new = {"size": WORLD.size, "passed": 0, "skipped": 0, "failed": 0, "reasons": []}
    return COUNTS.setdefault(file_of(nodeid), new)


def file_done(nodeid: str) -> None:
    write(f"{file_of(nodeid)}.json", json.dumps(counts_of(nodeid)))


def begin(what: str, timeout: float = TIMEOUT) -> None:
    """Note where this rank is; should it be there for nearly `timeout` seconds, its stack is written."""
    write("at", what)
    if STACKS is not None:
        faulthandler.dump_traceback_later(0.8 * timeout, file=STACKS)


def agree_on(what: str) -> None:
    """Hold the ranks together between two tests, which must be the same; if not, the first file is to blame."""
    everywhere = BETWEEN.allgather(what)
    if len(set(everywhere)) > 1:
        first = min(everywhere, key=lambda each: (each == END, file_of(each)))  # files run in order of names
        end_job(first, f"ranks are about to run different tests: {everywhere}")


def end_job(nodeid: str, text: str) -> None:
    """Print this rank's report; with other ranks about, abort the job."""
    text = f"=== rank {WORLD.rank} of {WORLD.size} ===\n{text}\n"
    if REPORTS:
        with Path(REPORTS, f"rank{WORLD.rank}.{file_of(nodeid)}.failure").open("a") as file:
            file.write(text)
    if WORLD.size > 1:
        sys.stderr.write(text)
        sys.stderr.flush()
        WORLD.Abort(1)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if WORLD.rank > 0:
        reporter = config.pluginmanager.getplugin("terminalreporter")
        reporter._tw = create_terminal_writer(config, io.StringIO())
    write("pid", str(os.getpid()))
    begin("the start")


def pytest_collectstart(collector: pytest.Collector) -> None:
    begin(collector.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        end_job(report.nodeid, f"collecting {report.nodeid} failed\n{report.longreprtext}")
    elif report.skipped:
        note_skip(report)
        file_done(report.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None):
    begin(item.nodeid, getattr(item.module, "TIMEOUT", TIMEOUT))
    agree_on(item.nodeid)
    result = yield
    if nextitem is None or nextitem.path != item.path:
        file_done(item.nodeid)
    return result


def note_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    counts = counts_of(report.nodeid)
    counts["skipped"] += 1
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    if why not in counts["reasons"]:
        counts["reasons"].append(why)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        counts_of(report.nodeid)["failed"] += 1
        sections = [f"--- {name} ---\n{content}" for name, content in report.sections]
        words = [f"{report.nodeid} failed in {report.when}", report.longreprtext, *sections]
        end_job(report.nodeid, "\n".join(words))
    elif report.skipped:
        note_skip(report)
    elif report.when == "call":
        counts_of(report.nodeid)["passed"] += 1


def pytest_internalerror(excrepr: object) -> None:
    end_job("pytest", str(excrepr))


def pytest_keyboard_interrupt() -> None:
    end_job("pytest", "interrupted")


def pytest_sessionfinish() -> None:
    begin(END)
    agree_on(END)
