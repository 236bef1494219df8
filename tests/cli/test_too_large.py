"""A run that does not fit into memory is refused at once; one whose limits cannot be measured keeps its report."""

import json

import pytest

CASE = """\
[run]
model = "{model}"
steps = 2
[grid]
{grid}
[model]
{settings}
"""
CUBE = {"model": "gray_scott", "grid": "shape = [20000, 20000, 20000]", "settings": ""}


def test_a_run_that_does_not_fit_is_refused_before_it_takes_memory(ridgeline):
    (ridgeline.path / "case.toml").write_text(CASE.format(**CUBE))
    done = ridgeline("run", "case.toml", "-n", 2)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("error:") == 1
    assert "Traceback" not in done.stderr
    assert "(2 ranks of 160.2 TB)" in done.stderr
    assert "Try grid.shape = [" in done.stderr
    assert "run.check_memory = false" in done.stderr
    assert [path.name for path in ridgeline.path.iterdir()] == ["case.toml"]


def test_check_warns_of_the_same(ridgeline):
    (ridgeline.path / "case.toml").write_text(CASE.format(**CUBE))
    done = ridgeline("check", "case.toml", "-n", 2)
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "there is too little memory, so a run is refused: the run needs 320.3 TB of memory on" in words
    assert "(2 ranks of 160.2 TB)" in words


@pytest.mark.full
def test_a_run_without_memory_for_stream_keeps_its_report(ridgeline):
    # The last thing of a run: arrays that nobody can have.
    program = (
        "from ridgeline.limits import stream\n"
        "plain = stream.StreamArrays.__init__\n"
        "def starved(self, n_bytes, *arguments):\n"
        "    from mpi4py import MPI\n"
        "    if n_bytes > 2**20 and MPI.COMM_WORLD.rank == MPI.COMM_WORLD.size - 1:\n"
        "        raise MemoryError('Unable to allocate 16 MiB')\n"
        "    plain(self, n_bytes, *arguments)\n"
        "stream.StreamArrays.__init__ = starved\n"
    )
    (ridgeline.path / "sitecustomize.py").write_text(program)
    case = ridgeline.write()
    for ranks in (1, 2):
        done = ridgeline("run", case, "-n", ranks, env={"PYTHONPATH": str(ridgeline.path)})
        assert done.returncode == 0, done.stderr
        assert "too little memory is left" in done.stderr
        report = json.loads((ridgeline.path / "gray_scott.bp.run.json").read_text())
        assert report["fraction_of_stream"] is None
        assert report["steps"] == 8
