"""Data sets of one rank that are continued: after a checkpoint, after kill -9, after a power cut."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from ridgeline.io import bp_files
from ridgeline.io.data_set_check import check_data_set
from ridgeline.io.open_store import open_reader
from ridgeline.runtime.errors import OutputError
from toy_data_set import STORES, assert_steps, put, writer


@pytest.fixture
def path(tmp_path, request) -> Path:
    return tmp_path / "run" / f"toy.{getattr(request, 'param', 'bp')}"


both = pytest.mark.parametrize("path", STORES, indirect=True)


@both
@pytest.mark.parametrize("kept", [0, 1, 3, 5])
def test_steps_after_the_checkpoint_are_cut_off(path, kept):
    with writer(path, {"run": "first"}) as out:
        put(out, *range(5))
    with writer(path, {"run": "second"}, keep_steps=kept) as out:
        assert out.steps == kept
        put(out, *range(kept, 7))
        assert out.steps == 7
    assert_steps(path, *range(7))
    with open_reader(path) as reader:
        assert reader.attributes["run"] == "second"


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("none", 1.5, "1.5"),
        ("auto", [1, 2], "[1, 2]"),
        ("auto", True, "1"),
        (1.5, "none", 1.5),
        ([1, 2], "auto", [1, 2]),
        (2, 3, 3),
        (2.5, 3, 3.0),
        (2, 3.0, 3),
        (2, 3.5, 2),
        ([1, 2], [1, 2, 3], [1, 2, 3]),
        ("a", ["b", "c"], ["b", "c"]),
        ("a", None, "a"),
    ],
)
def test_an_attribute_that_becomes_another_type_leaves_the_data_set_readable(path, before, after, found):
    """Such as run.walltime and grid.process_grid: a word in one run, a number in the next."""
    with writer(path, {"setting": before, "other": 1}) as out:
        put(out, 0)
    for steps in (1, 2):
        with writer(path, {"setting": after, "other": 2}, keep_steps=steps) as out:
            put(out, steps)
    assert_steps(path, 0, 1, 2)
    with open_reader(path) as reader:
        assert list(np.atleast_1d(reader.attributes["setting"])) == list(np.atleast_1d(found))
        assert reader.attributes["other"] == 2


@both
def test_a_data_set_that_lacks_steps_is_not_continued(path):
    with writer(path) as out:
        put(out, 0, 1)
    with pytest.raises(OutputError, match=r"holds 2 complete output steps.*had written 3.*--resume never"):
        writer(path, keep_steps=3)
    with pytest.raises(OutputError, match=r"no data set at .*nothing exists there"):
        writer(path.with_name(f"other{path.suffix}"), keep_steps=1)
    assert_steps(path, 0, 1)


@both
def test_a_data_set_of_other_variables_is_not_continued(path):
    with writer(path) as out:
        put(out, 0, 1)
    with pytest.raises(OutputError, match=r"holds U float64\[5, 3, 7\], V .* writes U float64\[5, 3, 7\]\."):
        writer(path, names="U", keep_steps=1)
    assert_steps(path, 0, 1)


KILLED = """
    import os, signal, sys
    sys.path[:0] = [sys.argv[1], sys.argv[2]]
    from toy_data_set import put, writer

    class Deadly:
        '''ADIOS2's engine, but the process is killed after a call of a step.'''
        def __init__(self, engine, method, step):
            self.engine, self.method, self.left = engine, method, step
        def __getattr__(self, name):
            method = getattr(self.engine, name)
            def call(*arguments):
                method(*arguments)
                self.left -= name == self.method
                if self.left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return call

    method, step = sys.argv[4], int(sys.argv[5])
    out = writer(sys.argv[3])
    out._engine = Deadly(out._engine, method, step)
    put(out, *range(9))
"""


ZARR_KILLED = """
    import os, signal, sys
    sys.path[:0] = [sys.argv[1], sys.argv[2]]
    from toy_data_set import put, writer
    from ridgeline.io import zarr_files, zarr_layout

    function, left = sys.argv[4], int(sys.argv[5])
    if sys.argv[6] == "large":
        zarr_layout.REPLACED = 0
    real = getattr(zarr_files, function)

    def deadly(*arguments):
        global left
        left -= 1
        if left < 0 and not function.startswith("sync"):
            os.kill(os.getpid(), signal.SIGKILL)
        real(*arguments)
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(zarr_files, function, deadly)
    put(writer(sys.argv[3]), *range(9))
"""


@pytest.mark.parametrize("layout", ["large", pytest.param("small", marks=pytest.mark.full)])
@pytest.mark.parametrize("path", ["zarr"], indirect=True)
@pytest.mark.parametrize(
    ("function", "calls", "whole"),
    [
        pytest.param(
            "sync_file", 0, 0, marks=pytest.mark.full
        ),  # in the first step: U, V, step, time, checksums
        ("sync_file", 4, 0),
        pytest.param("replace_synced", 8, 0, marks=pytest.mark.full),  # the first ones create the data set
        pytest.param("sync_file", 5, 1, marks=pytest.mark.full),
        pytest.param("sync_file", 18, 3, marks=pytest.mark.full),
        ("sync_file", 19, 3),
        ("replace_synced", 23, 3),
        ("replace_synced", 24, 4),  # after the rename that makes the step complete
        pytest.param("replace_synced", 27, 4, marks=pytest.mark.full),
    ],
)
def test_a_writer_of_zarr_killed_at_any_moment_leaves_its_whole_steps(path, function, calls, whole, layout):
    here = str(Path(__file__).parents[1])
    source = str(Path(bp_files.__file__).parents[2])
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(ZARR_KILLED),
            here,
            source,
            str(path),
            function,
            str(calls),
            layout,
        ],
        timeout=60,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    if whole:
        assert_steps(path, *range(whole))
        check = check_data_set(path)
        assert (check.damages, check.steps) == ((), whole)
    else:
        with pytest.raises(OutputError, match="no complete output step"):
            open_reader(path)
    kept = max(0, whole - 1)
    with writer(path, keep_steps=kept) as out:
        put(out, *range(kept, 6))
    assert_steps(path, *range(6))
    assert check_data_set(path).damages == ()
    assert not list(path.rglob("*.partial"))


@pytest.mark.parametrize(
    ("method", "step", "whole"),
    [
        ("BeginStep", 0, 0),
        ("PerformDataWrite", 0, 0),
        ("EndStep", 0, 0),
        ("PerformDataWrite", 3, 3),
        ("EndStep", 3, 3),
    ],
)
def test_a_killed_writer_leaves_its_whole_steps_and_is_continued(path, method, step, whole):
    here = str(Path(__file__).parents[1])
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(KILLED),
        here,
        str(Path(bp_files.__file__).parents[2]),
        str(path),
        method,
        str(step),
    ]
    done = subprocess.run(command, timeout=60, stderr=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    if whole:
        assert_steps(path, *range(whole))
    else:
        with pytest.raises(OutputError, match="no complete output step"):
            open_reader(path)
    kept = max(0, whole - 1)
    with writer(path, keep_steps=kept) as out:
        put(out, *range(kept, 6))
    assert_steps(path, *range(6))


@both
def test_a_run_that_ends_by_an_error_leaves_no_remark_of_adios2(path):
    code = (
        "from toy_data_set import put, writer; out = writer({!r}); put(out, 0, 1); "
        "raise SystemExit('one sentence')"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", code.format(str(path))]
    done = subprocess.run(command, timeout=60, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "one sentence\n")
    assert_steps(path, 0, 1)


@pytest.mark.parametrize(
    "index_tail", [b"s\xc8" + bytes(40), b"w\x20\0\0", bytes(500)], ids=["step", "header", "zeros"]
)
def test_records_cut_in_two_are_cut_off_when_the_run_continues(path, index_tail):
    with writer(path) as out:
        put(out, 0, 1, 2)
    tails = {"md.idx": index_tail, "md.0": b"?" * 50, "mmd.0": b"\x09" + bytes(7), "data.0": b"?" * 5000}
    for name, tail in tails.items():
        with (path / name).open("ab") as file:
            file.write(tail)
    with writer(path, keep_steps=3) as out:
        put(out, 3, 4)
    assert_steps(path, 0, 1, 2, 3, 4)


def test_steps_whose_data_were_lost_are_written_again(path):
    """After a power cut, files may be shorter than the index says."""
    with writer(path) as out:
        put(out, 0, 1, 2, 3)
    os.truncate(path / "data.0", (path / "data.0").stat().st_size // 2)
    with pytest.raises(OutputError, match="holds 2 complete output steps"):
        writer(path, keep_steps=3)
    with writer(path, keep_steps=2) as out:
        put(out, 2, 3)
    assert_steps(path, 0, 1, 2, 3)
