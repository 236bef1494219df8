"""Orders, blocks and grids that are chosen, those that are refused, and the orders and figures of a study."""

import pytest
from mpi4py import MPI

from ridgeline.bench.hpl import sizes
from ridgeline.bench.hpl.hpl_options import SystemOptions, SystemOrder, parse_number, scaling_figures
from ridgeline.bench.hpl.record import operations
from ridgeline.runtime.errors import ConfigError, DecompositionError

FREE = 8e9
ALONE = MPI.COMM_SELF
LAW = SystemOrder()


def bytes_of(n, nb, p, q):
    return 8 * (n // p + nb) * (n // q + nb)


def choose(n="auto", nb="auto", p=0, q=0, free=FREE):
    return sizes.choose_sizes(
        ALONE, SystemOptions(n, nb, p, q), sizes.FreeMemory(free, bytes_of), lambda n: min(n, 192)
    )


@pytest.mark.parametrize(
    ("ranks", "grid"), [(1, (1, 1)), (2, (1, 2)), (6, (2, 3)), (7, (1, 7)), (12, (3, 4)), (16, (4, 4))]
)
def test_grids_are_nearly_square_with_fewer_rows(ranks, grid):
    assert sizes.choose_grid(ranks, 0, 0) == grid


def test_a_grid_is_completed_or_refused():
    assert sizes.choose_grid(6, 3, 0) == (3, 2)
    assert sizes.choose_grid(6, 0, 1) == (6, 1)
    for p, q in ((2, 2), (4, 0), (0, 9), (7, 1)):
        with pytest.raises(DecompositionError, match=r"Possible grids: 1 x 6, 2 x 3, 3 x 2, 6 x 1"):
            sizes.choose_grid(6, p, q)


def test_the_order_fills_the_share_of_memory():
    found = choose()
    assert found.n % 192 == 0
    assert bytes_of(found.n, 192, 1, 1) <= 0.8 * FREE < bytes_of(found.n + 192, 192, 1, 1)
    assert [note.split()[0] for note in found.notes] == ["N", "NB", "The"]
    assert "fills 0.8 of the free memory, which is 8 GB per rank." in found.notes[0]


def test_what_is_given_is_taken_without_a_note():
    assert choose("1000", "64", 1, 1) == (1000, 64, 1, 1, ())


def test_an_order_that_does_not_fit_is_refused_with_one_that_does():
    with pytest.raises(
        ConfigError,
        match=r"N = 40000 .* requires 12.\d+ GB per rank, but only 8 GB per rank are free. Use N = ",
    ) as no:
        choose("40000", "192")
    fits = int(str(no.value).rpartition("Use N = ")[2].split(",")[0])
    assert choose(str(fits), "192").n == fits


def test_no_memory_at_all():
    with pytest.raises(ConfigError, match="is too small for any system"):
        choose(free=100.0)
    with pytest.raises(ConfigError, match="No size fits"):
        choose("1000", "64", free=100.0)


def test_a_longer_time_than_the_limit_is_refused():
    notes = []
    assert sizes.require_time(operations(3000), 1e9, 0.0, notes) == pytest.approx(18.0135)
    (note,) = notes
    assert note.startswith("The run takes at least 18.01 s, because")
    assert "1 GFLOP/s" in note
    with pytest.raises(
        ConfigError,
        match=r"^--time-limit 10: the run takes at least 18 s, .* Use N = 24\d\d, which takes about 10 s",
    ):
        sizes.require_time(operations(3000), 1e9, 10.0, notes)


@pytest.mark.parametrize(("text", "value"), [("auto", None), ("1", 1), ("20000", 20000)])
def test_numbers(text, value):
    assert parse_number(text, "--order") == value


@pytest.mark.parametrize("text", ["0", "-5", "many", "1.5", ""])
def test_no_numbers(text):
    with pytest.raises(ConfigError, match="auto, or a whole number of 1 or more"):
        SystemOptions(n=text)
    with pytest.raises(ConfigError, match=r"^--nb "):
        SystemOptions(nb=text)


def test_weak_scaling_keeps_the_memory_of_a_rank():
    grown = [LAW.weak({"n": "8000"}, 1, ranks).get("n") for ranks in (1, 2, 4, 16)]
    assert grown == [None, "11313", "16000", "32000"]
    assert LAW.weak({"n": "8000"}, 4, 1) == {"n": "4000"}


def test_strong_scaling_keeps_the_order():
    assert LAW.strong({"n": "8000"}, 1, 4) == {}


@pytest.mark.parametrize("n", ["auto", "0", "-3", "many"])
def test_a_study_needs_an_order(n):
    for scale in (LAW.weak, LAW.strong):
        with pytest.raises(ConfigError, match=f"^n = {n}: in a study"):
            scale({"n": n}, 1, 2)


def test_figures_count_operations():
    solve = {
        "n": 100,
        "seconds": 0.5,
        "flops_per_second": 2e6,
        "storage": "float16",
        "phases": {"factor": 0.4},
    }
    (found,) = scaling_figures({"extra": {"solves": [solve]}})
    assert found.points == operations(100)
    assert (found.seconds, found.flops, found.fraction) == (0.5, 2e6, None)
    assert (found.labels, found.phases) == ({"storage": "float16"}, {"factor": 0.4})
