"""Parallel test files under MPI: one launch for all files that share a number of ranks and an environment.

A file declares how it is run by module-level literals, which are read without importing it:

    RANKS = (2, 4)  # numbers of ranks
    QUICK_RANKS = (3,)  # those of `make test` if not 2; () leaves the file to `make test-all`
    TIMEOUT = 300  # seconds that one of its tests may take
    SLOW_RANKS = (1, 2)  # where its tests marked slow are run, if slow ones are asked for
    ENVIRONMENT = {"NAME": "value"}  # variables that its launch needs from the start
    ALONE = True  # a launch of its own

A file whose ENVIRONMENT turns numba-cuda's simulator on belongs to `make test-gpu`, except on its QUICK_RANKS.

The ranks (tests/ranks/conftest.py) write what they do into a folder. A launch that fails or hangs is over for the
file that is to blame; the files after it get a new launch.
"""

import ast
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from simulator import ON_GPU

TIMEOUT = 180
NOTHING_COLLECTED = 5  # of pytest
POLL = 0.1  # seconds between two looks at what the ranks wrote


def constant(file: Path, name: str, default):
    """The value of a module-level literal `name = ...` in `file`."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            return ast.literal_eval(node.value)
    return default


def mpiexec() -> str:
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert found, f"no mpiexec beside {sys.executable} nor on PATH; pip install mpich"
    return found


@dataclass(frozen=True, order=True)
class Setting:
    """What files must share to be run in one launch."""

    n_ranks: int
    environment: tuple[tuple[str, str], ...] = ()
    marks: str = ""  # of pytest's option -m
    alone: str = ""  # the file that has the launch to itself

    @classmethod
    def of(cls, file: Path, n_ranks: int, marks: str = "") -> "Setting":
        environment = tuple(sorted(constant(file, "ENVIRONMENT", {}).items()))
        return cls(n_ranks, environment, marks, file.name if constant(file, "ALONE", False) else "")


@dataclass
class Outcome:
    """What became of a file."""

    failure: str = ""
    records: list[dict] = field(default_factory=list)  # of the ranks, where nothing failed


class Launch:
    """One mpiexec over some files, and what its ranks wrote."""

    def __init__(self, setting: Setting, files: list[Path], folder: Path) -> None:
        self.setting, self.folder = setting, folder
        self.bounds = {file.name: constant(file, "TIMEOUT", TIMEOUT) for file in files}
        self.begin = time.time()
        self.verdict = ""  # why it was killed
        folder.mkdir(parents=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_"))}
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        environment |= {"RIDGELINE_TEST_REPORTS": str(folder), **dict(setting.environment)}
        if ON_GPU:
            environment.pop("NUMBA_ENABLE_CUDASIM", None)
        options = ["-q", "-p", "no:cacheprovider", *(["-m", setting.marks] if setting.marks else [])]
        python = [sys.executable, "-m", "pytest", *options, *map(str, files)]
        with (folder / "output").open("w") as output:
            self.process = subprocess.Popen(
                [mpiexec(), "-n", str(setting.n_ranks), *python],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def read(self, pattern: str) -> list[str]:
        return [path.read_text(errors="replace") for path in sorted(self.folder.glob(pattern))]

    def records(self, name: str) -> list[dict]:
        """What the ranks that are through with a file say of it."""
        return [json.loads(text) for text in self.read(f"rank*.{name}.json")]

    def blamed(self) -> set[str]:
        """The files with a report of a failure; else, those that the ranks are in."""
        failed = {name for name in self.bounds if any(self.folder.glob(f"rank*.{name}.failure"))}
        return failed or {Path(text.split("::")[0]).name for text in self.read("rank*.at")}

    def check_time(self) -> None:
        """Kill the job if one of its ranks has been in a test for too long."""
        at = sorted(self.folder.glob("rank*.at"))
        places = [(path.stat().st_mtime, path.read_text()) for path in at] or [(self.begin, "the start")]
        for since, place in places:
            bound = self.bounds.get(Path(place.split("::")[0]).name, TIMEOUT)
            if time.time() - since > bound:
                self.kill()
                self.verdict = f"killed: {place} on {self.setting.n_ranks} ranks ran longer than {bound:g} s"
                return

    def kill(self) -> None:
        """End the launcher and its ranks, which some launchers put in process groups of their own."""
        for pid in [self.process.pid, *map(int, self.read("rank*.pid"))]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(os.getpgid(pid), signal.SIGKILL)
        self.process.wait()

    def story(self, name: str) -> str:
        """All that is known of a file that failed."""
        finished = len(self.records(name))
        words = [f"{name} on {self.setting.n_ranks} ranks: exit code {self.process.poll()}"]
        words += [f"{finished} ranks finished it" if finished else "no test ran to the end of it"]
        words += self.read("output") + self.read(f"rank*.{name}.failure") + self.read("rank*.pytest.failure")
        if self.verdict:
            words += [self.verdict]
            words += [f"=== {path.name} ===\n{path.read_text()}" for path in self.folder.glob("*.stack")]
        return "\n".join(words)


class Job:
    """Files of one setting, run in order by as few launches as failures allow."""

    def __init__(self, setting: Setting, files: list[Path], folder: Path) -> None:
        self.setting, self.pending, self.folder = setting, list(files), folder
        self.outcomes: dict[str, Outcome] = {}
        self.launches = 0
        self.launch: Launch | None = None

    def outcome(self, file: Path) -> Outcome:
        """Wait until it is known what became of a file. Nothing is left running after an error."""
        try:
            while file.name not in self.outcomes:
                self._go_on()
        except BaseException:
            self.close()
            raise
        return self.outcomes[file.name]

    def close(self) -> None:
        if self.launch is not None:
            self.launch.kill()

    def _go_on(self) -> None:
        if self.launch is None:
            self.launches += 1
            self.launch = Launch(self.setting, self.pending, self.folder / str(self.launches))
        code = self.launch.process.poll()
        if code is None:
            self.launch.check_time()
            for file in self.pending[:-1]:  # the last one is done when the job has ended well
                if len(records := self.launch.records(file.name)) == self.setting.n_ranks:
                    self._settle(file, records)
            time.sleep(POLL)
        else:
            self._end(self.launch, code)
            self.launch = None

    def _settle(self, file: Path, records: list[dict]) -> None:
        failed = any(record["failed"] for record in records)
        story = self.launch.story(file.name) if failed else ""
        self.outcomes[file.name] = Outcome(story, records)
        self.pending.remove(file)

    def _end(self, launch: Launch, code: int) -> None:
        """Share out what an ended job did among its files that had no outcome."""
        well = code in (0, NOTHING_COLLECTED)
        left = {file.name for file in self.pending}
        known = any(self.outcomes[name].failure for name in launch.bounds if name in self.outcomes)
        blamed = set() if well else launch.blamed() & left or (set() if known else left)
        for file in list(self.pending):
            records = launch.records(file.name)
            if file.name in blamed or (well and len(records) < self.setting.n_ranks):
                self.outcomes[file.name] = Outcome(launch.story(file.name))
                self.pending.remove(file)
            elif len(records) == self.setting.n_ranks:
                self._settle(file, records)
