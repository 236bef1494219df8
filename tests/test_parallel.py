"""Run every file tests/ranks/test_*.py under the environment's own mpiexec at several numbers of ranks.

All files of a number of ranks share one launch: rank_jobs.py says how, and by which literals a file departs from it.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rank_jobs import Job, Setting, constant

pytestmark = pytest.mark.alone

FOLDER = Path(__file__).parent / "ranks"
RANKS = (1, 2, 3, 4)
QUICK_RANKS = (2,)  # of `make test`: a file says 3 where a rank must have two different neighbours


def check(job: Job, file: Path) -> None:
    """Wait for the end of a file; fail with all that its ranks said unless each of them passed."""
    outcome, n_ranks = job.outcome(file), job.setting.n_ranks
    assert not outcome.failure, outcome.failure
    sizes = {record["size"] for record in outcome.records}
    assert sizes == {n_ranks}, f"ranks of {n_ranks} see worlds of {sizes}: launcher and MPI library differ"
    tested = {record["passed"] for record in outcome.records}
    assert len(tested) == 1, f"ranks passed different numbers of tests: {sorted(tested)}"
    if tested == {0}:
        assert all(record["skipped"] for record in outcome.records), "no test was run"
        pytest.skip("; ".join(outcome.records[0]["reasons"]))


def tier_of(file: Path, n_ranks: int) -> list[pytest.MarkDecorator]:
    """Return the mark that keeps a file on a number of ranks out of `make test`, if any."""
    simulated = "NUMBA_ENABLE_CUDASIM" in constant(file, "ENVIRONMENT", {})
    if n_ranks in constant(file, "QUICK_RANKS", () if simulated else QUICK_RANKS):
        return []
    return [pytest.mark.gpu if simulated else pytest.mark.full]


def launches(numbers: str, default: tuple[int, ...], marks: str = "") -> list:
    """All files at all their numbers of ranks, those of one launch together."""
    cases = [
        (Setting.of(file, n_ranks, marks), file)
        for file in sorted(FOLDER.glob("test_*.py"))
        for n_ranks in constant(file, numbers, default)
    ]
    return [
        pytest.param(
            setting,
            file,
            id=f"{file.name}-{setting.n_ranks}",
            marks=[] if marks else tier_of(file, setting.n_ranks),
        )
        for setting, file in sorted(cases)
    ]


@pytest.fixture(scope="module")
def jobs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict]:
    """One job for each setting, of the files that this session asks for."""
    files: dict[Setting, list[Path]] = {}
    for item in request.session.items:
        if "jobs" in getattr(item, "fixturenames", ()):
            setting, file = item.callspec.params["setting"], item.callspec.params["file"]
            files.setdefault(setting, []).append(file)
    made = {
        setting: Job(setting, some, tmp_path_factory.mktemp("job", numbered=True))
        for setting, some in files.items()
    }
    yield made
    for job in made.values():
        job.close()


@pytest.mark.parametrize(("setting", "file"), launches("RANKS", RANKS))
def test_file_on_ranks(jobs: dict[Setting, Job], setting: Setting, file: Path) -> None:
    check(jobs[setting], file)


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "file"), launches("SLOW_RANKS", (), "slow"))
def test_slow_tests_of_file_on_ranks(jobs: dict[Setting, Job], setting: Setting, file: Path) -> None:
    check(jobs[setting], file)


GOOD = "def test_good(comm):\n    comm.Barrier()\n"


def check_one_bad(tmp_path: Path, bad: str, expected: str) -> None:
    """Run a bad file between two good ones on two ranks: only the bad one fails, and for the expected reason."""
    shutil.copy(FOLDER / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {FOLDER.parent}\n")
    files = [tmp_path / f"test_inner_{i}.py" for i in range(3)]
    for file, body in zip(files, (GOOD, bad, GOOD), strict=True):
        file.write_text(body)
    job = Job(Setting(2), files, tmp_path / "job")
    check(job, files[0])
    with pytest.raises(AssertionError, match=expected):
        check(job, files[1])
    check(job, files[2])
    assert job.launches == 2
    assert job.launch is None


@pytest.mark.full
def test_failure_on_one_rank_ends_the_job_with_its_report(tmp_path: Path) -> None:
    bad = "def test_one(comm):\n    assert comm.rank != 1, 'rank one is wrong'\n    comm.Barrier()\n"
    check_one_bad(tmp_path, bad, r"(?s)=== rank 1 of 2 ===.*rank one is wrong")


@pytest.mark.full
def test_hang_is_killed_and_named(tmp_path: Path) -> None:
    bad = "TIMEOUT = 6\ndef test_hang(comm):\n    comm.rank == 0 or comm.recv(source=0)\n    comm.Barrier()\n"
    expected = r"(?s)killed: .*test_inner_1.py::test_hang on 2 ranks ran longer than 6 s.*line 3 in test_hang"
    check_one_bad(tmp_path, bad, expected)
