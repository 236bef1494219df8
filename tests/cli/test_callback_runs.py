"""Callbacks from the command line: checked without a call, refused with --no-python, failing without a deadlock."""

import pytest

CALLBACK = """\

[[callback]]
function = "mine.py:{name}"
{more}
"""
MINE = """\
import pathlib

pathlib.Path("it_ran").touch()


def times(now):
    pathlib.Path("called").touch()
    with open(f"times{now.comm.rank}", "a") as file:
        print(now.time, file=file)


def two(now, more):
    return


def alone(now):
    if now.comm.rank == 1:
        return 1 / 0
    now.comm.barrier()
"""


@pytest.fixture
def run(ridgeline):
    (ridgeline.path / "mine.py").write_text(MINE)

    def run_with(command, name, *options, more="every = 2"):
        ridgeline.write(extra=CALLBACK.format(name=name, more=more))
        return ridgeline(*command.split(), "case.toml", *options)

    return run_with


def test_it_is_called_at_exact_times(ridgeline, run):
    done = run("run", "times", "-n", 2, more="every_time = 1.25\nevery = 4")
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        times = [float(line) for line in (ridgeline.path / f"times{rank}").read_text().splitlines()]
        assert {0.0, 1.25, 2.5, 3.75, 5.0} <= set(times)
        assert len(times) == len(set(times))


def test_check_runs_the_file_and_calls_nothing(ridgeline, run):
    assert run("check", "times").returncode == 0
    assert (ridgeline.path / "it_ran").exists()
    assert not (ridgeline.path / "called").exists()
    done = run("check", "two")
    assert done.returncode == 2
    assert "mine.py:12: callback.0.function" in done.stderr
    assert "two is called with 1 argument, but its parameters are (now, more)" in done.stderr
    done = run("check", "three")
    assert "mine.py has no function three" in done.stderr


@pytest.mark.parametrize("command", ["run", "check", "run -n 2"])
def test_no_python_refuses_it(ridgeline, run, command):
    done = run(command, "times", "--no-python")
    assert done.returncode == 2
    assert "callback.0.function" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (ridgeline.path / "it_ran").exists()


def test_a_rank_that_fails_while_others_wait_ends_the_job(run):
    done = run("run", "alone", "-n", 2)
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1
    assert "mine.py:18: " in errors[0]
    assert "the call at step 0 failed (ZeroDivisionError: division by zero)" in errors[0]
    assert "Traceback" not in done.stderr
