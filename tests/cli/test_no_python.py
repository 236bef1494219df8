"""A case from elsewhere runs no Python of its own where --no-python forbids it."""

import subprocess
import sys
from pathlib import Path

import pytest

CASE = """\
[run]
model = "navier_stokes"
steps = 1

[grid]
elements = [1, 1, 1]
order = 2
lengths = [1.0, 1.0, 1.0]
periodic = [true, true, true]
mapping = "theirs.py:bend"

[model]
viscosity = 0.1
dt = 0.01

[initial]
kind = "taylor_green"
"""
THEIRS = """\
import pathlib

pathlib.Path("it_ran").touch()


def bend(x, y, z):
    return x, y, z
"""


@pytest.fixture
def it_ran(ridgeline):
    (ridgeline.path / "case.toml").write_text(CASE)
    (ridgeline.path / "theirs.py").write_text(THEIRS)
    return ridgeline.path / "it_ran"


COMMANDS = (
    "run",
    "check",
    "compile",
    "sweep --over run.steps=1,2 -o out",
    "study run -o out",
    "study run --submit slurm -o out",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_python_refuses_the_file_and_names_the_key(command, ridgeline, it_ran) -> None:
    done = ridgeline(*command.split(), "case.toml", "--no-python")
    assert done.returncode == 2
    assert "grid.mapping" in done.stderr
    assert "theirs.py" in done.stderr
    assert "Traceback" not in done.stderr
    assert not it_ran.exists()
    assert not (ridgeline.path / "out").exists()


def test_ranks_that_are_started_refuse_it_too(ridgeline, it_ran) -> None:
    done = ridgeline("run", "case.toml", "-n", 2, env={"RIDGELINE_NO_PYTHON": "1"})
    assert done.returncode == 2
    assert not it_ran.exists()


def test_other_cases_are_not_refused(ridgeline) -> None:
    (ridgeline.path / "case.toml").write_text(CASE.replace("theirs.py:bend", "wavy"))
    assert "--no-python" not in ridgeline("check", "case.toml", "--no-python").stderr


def test_without_the_option_the_file_is_run(ridgeline, it_ran) -> None:
    ridgeline("check", "case.toml")
    assert it_ran.exists()


def test_a_file_that_leaves_python_fails_its_check(ridgeline) -> None:
    (ridgeline.path / "case.toml").write_text(CASE)
    (ridgeline.path / "theirs.py").write_text("raise SystemExit(0)\n")
    done = ridgeline("check", "case.toml")
    assert done.returncode == 2
    assert 'grid.mapping = "theirs.py:bend": running theirs.py failed (SystemExit: 0)' in done.stderr


def test_files_beside_the_case_are_not_taken_for_libraries(ridgeline) -> None:
    planted = "import pathlib\npathlib.Path(__file__ + '.ran').touch()\n"
    for name in ("numpy.py", "random.py"):
        (ridgeline.path / name).write_text(planted)
    command = Path(sys.executable).with_name("ridgeline")
    options = ["run", ridgeline.write(steps=2), "-n", "2", "--no-python"]
    done = subprocess.run(
        [command, *options], cwd=ridgeline.path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert not list(ridgeline.path.glob("*.ran"))
