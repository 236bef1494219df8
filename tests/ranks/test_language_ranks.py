"""Ping-pong, windows and ring in every language that is here: the same messages, the same sums, errors found.

numba-mpi compiles for seconds in every process, so each number of ranks tries a part of it.
"""

import sys

import numpy as np
import pytest
from mpi4py import MPI

from bench_tools import measure
from ridgeline.bench.language import bsp
from ridgeline.bench.language.language_options import LANGUAGES
from ridgeline.bench.language.languages import (
    PreparedPythonLoops,
    PythonLoops,
    find_languages,
    with_persistent,
)
from ridgeline.bench.language.loops import RingWork
from ridgeline.parallel.payload import check, content
from ridgeline.runtime.errors import ConfigError, VerificationError

QUICK = ("C", "mpi4py")
SMALL = {"reads": 3000, "writes": 2000, "flops": 500, "words": 1024}


def languages_at(n_ranks: int, with_numba: int) -> tuple[str, ...]:
    return LANGUAGES if n_ranks == with_numba else QUICK


def check_missing(result, names):
    """Languages that are not here have a row that says why; the others have figures."""
    told = {row["language"]: row["note"] for row in result.rows if "note" in row}
    assert set(told) == set(result.extra["missing"])
    assert all(note.startswith("not run: ") for note in told.values())
    assert {row["language"] for row in result.rows} == set(names)


def test_ring(comm):
    names = languages_at(comm.size, 3)
    counts = [1, comm.size] if comm.size > 1 else [1]
    result = measure(
        "bsp", comm, iterations=6, **SMALL, communications=(0, 2), size=100, sweep=counts, languages=names
    )
    if comm.rank > 0:
        return
    check_missing(result, names)
    rows = [row for row in result.rows if "ranks" in row]
    here = [name for name in names if name not in result.extra["missing"]]
    assert [(row["ranks"], row["per_iteration"], row["language"]) for row in rows] == [
        (ranks, c, name) for ranks in counts for c in (0, 2) for name in here
    ]
    for row in rows:
        assert row["seconds"] == pytest.approx(sum(row[part] for part in bsp.PARTS))
        assert sum(row[f"{part}_share"] for part in bsp.PARTS) == pytest.approx(1.0)
    assert result.settings["words"] == 1024


def test_ping_pong(comm):
    if comm.size == 1:
        with pytest.raises(ConfigError, match="-n 2"):
            measure("pingpong", comm)
        return
    names = languages_at(comm.size, 2)
    result = measure(
        "pingpong", comm, sizes=(0, 40_000), trials=4, warm_up=1, batch=2, languages=names, ranks_per_node=2
    )
    partner = 2 if comm.size > 2 else 1  # the first rank of the second node of two ranks
    assert result.left_out == [rank for rank in range(comm.size) if rank not in (0, partner)]
    if comm.rank == 0:
        check_missing(result, names)
        sizes = [0, *(2**k for k in range(16)), 40_000]
        assert [row["size"] for row in result.rows if row["language"] == "mpi4py"] == sizes
        assert all(row["seconds"] > 0 for row in result.rows if "seconds" in row)


def test_windows_carry_what_was_sent(comm):
    found = find_languages(comm, languages_at(comm.size, 2))
    if comm.size == 1 or comm.rank > 1:
        return
    for number, way in enumerate(with_persistent(found.loops)):
        buffer = content(70_000, 0, 1, number) if comm.rank == 0 else np.zeros(70_000, np.uint8)
        assert way.windows(1 - comm.rank, comm.rank == 0, buffer, 5, 2) > 0
        check(buffer, 0, 1, number)


class Noting(MPI.Intracomm):
    """A communicator that notes by which calls windows begin."""

    def __init__(self, comm):
        self.begun = []

    def noted(self, name, arguments):
        self.begun.append(name)
        return getattr(MPI.Intracomm, name)(self, *arguments)

    def Isend(self, *arguments):
        return self.noted("Isend", arguments)

    def Recv_init(self, *arguments):
        return self.noted("Recv_init", arguments)


def test_only_receives_are_prepared(comm):
    """Two windows of five messages: ten sends of their own, five receives that are started twice."""
    if comm.size == 1 or comm.rank > 1:
        return
    noting = Noting(comm)
    PreparedPythonLoops(noting).windows(1 - comm.rank, comm.rank == 0, np.zeros(8, np.uint8), 5, 2)
    assert noting.begun == (["Isend"] * 10 if comm.rank == 0 else ["Recv_init"] * 5)


class Corrupt(PythonLoops):
    """mpi4py that loses the last byte of a message."""

    def on(self, comm):
        return Corrupt(comm)

    def ring(self, work, words, outbox, inbox, seconds):
        result = super().ring(work, words, outbox, inbox, seconds)
        inbox[-1] ^= 1
        return result


class Miscounting(PythonLoops):
    """mpi4py whose processor adds wrongly."""

    def ring(self, work, words, outbox, inbox, seconds):
        seen, x = super().ring(work, words, outbox, inbox, seconds)
        return seen + 1, x


@pytest.mark.parametrize(
    ("loops", "words"), [(Corrupt, "bytes? wrong|of them wrong"), (Miscounting, "computed")]
)
def test_errors_are_found(comm, loops, words):
    with pytest.raises(VerificationError, match=words):
        bsp._measure(comm, [loops(comm)], RingWork(10, 10, 10, 1), 8, 16, 5)


def test_languages_that_are_missing_say_so(comm, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba_mpi", None)
    monkeypatch.setenv("MPICC", str(tmp_path / "none"))
    result = measure("bsp", comm, iterations=2, **SMALL, communications=(1,))
    if comm.rank == 0:
        check_missing(result, LANGUAGES)
        notes = {row["language"]: row["note"] for row in result.rows if "note" in row}
        assert "no C compiler" in notes["C"]
        assert "pip install numba-mpi" in notes["numba-mpi"]
        (figures,) = (row for row in result.rows if "seconds" in row)
        assert figures["ratio"] is None
    if comm.size > 1:
        result = measure("pingpong", comm, sizes=(8, 8), trials=1, languages=("C", "numba-mpi"))
        assert comm.rank > 0 or len(result.rows) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"languages": ["Fortran"]},
            "--language Fortran: unknown language. Known languages: C, mpi4py, numba-mpi.",
        ),
        ({"iterations": 0}, "iterations is 0"),
        ({"reads": -1}, "reads is -1, but it must be 0 or more"),
        ({"communications": [2, -2]}, "communications is -2"),
        ({"words": 1000}, "--words 1000: the number must be a power of two"),
        ({"sweep": [9]}, "--sweep 9: the job has"),
    ],
)
def test_settings_that_are_wrong(comm, options, words):
    with pytest.raises(ConfigError, match=words):
        measure("bsp", comm, **options)
