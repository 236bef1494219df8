"""Rows that are measured again and again: what is kept of them, of rows that fail and of a command broken off."""

from collections.abc import Iterator

import pytest

from harness.change import BETTER, NO_RECORD, NOT_JUDGED, SAME, WORSE, change, noise
from harness.session import Figure, Measure, measure_rows
from harness.table import Row


class Script:
    """A row whose calls yield what a list says, or raise; `calls` has the name of every call of all rows."""

    def __init__(self, name: str, calls: list[str], values: list[float | BaseException | None]) -> None:
        self.name, self.calls, self.values = name, calls, values

    def __call__(self) -> Iterator[Row]:
        self.calls.append(self.name)
        value = self.values[self.calls.count(self.name) - 1]
        yield Row(f"{self.name} first", 1.0, ">= 1", unit="us")
        if isinstance(value, BaseException):
            raise value
        yield Row(f"{self.name} second", value, "<= 2", note=f"note {value}")


def session(rows: dict[str, Measure], repeats: int) -> tuple[list[Figure], list[str]]:
    """Measure, and return all figures that were handed over, and the order of progress."""
    found: list[Figure] = []
    said: list[str] = []
    try:
        measure_rows(rows, repeats, found.extend, lambda name, row: said.append(row.name))
    except KeyboardInterrupt:
        said.append("broken off")
    return found, said


def repeats_of(figures: list[Figure]) -> dict[str, list[float]]:
    return {figure.name: figure.repeats for figure in figures}


def test_rows_take_turns_every_other_pass_backwards() -> None:
    calls: list[str] = []
    rows = {name: Script(name, calls, [1.0, 2.0, 3.0]) for name in "abc"}
    found, _ = session(rows, 3)
    assert "".join(calls) == "abccbaabc"
    assert repeats_of(found)["b second"] == [1.0, 2.0, 3.0]
    assert [(f.row, f.goal, f.unit, f.note) for f in found[:2]] == [
        ("a", ">= 1", "us", ""),
        ("a", "<= 2", "", "note 3.0"),
    ]


def test_a_row_is_handed_over_as_soon_as_it_is_complete() -> None:
    calls: list[str] = []
    rows = {name: Script(name, calls, [1.0, 2.0]) for name in "ab"}
    when: list[tuple[str, int]] = []
    measure_rows(rows, 2, lambda figures: when.append((figures[0].row, len(calls))), lambda *_: None)
    assert when == [("b", 3), ("a", 4)]


def test_a_command_that_is_broken_off_hands_over_what_it_has() -> None:
    calls: list[str] = []
    rows = {
        "a": Script("a", calls, [1.0, 2.0]),
        "b": Script("b", calls, [3.0, KeyboardInterrupt()]),
        "c": Script("c", calls, [5.0, 6.0]),
    }
    found, said = session(rows, 2)
    assert said[-1] == "broken off"
    assert repeats_of(found) == {
        "c first": [1.0, 1.0],
        "c second": [5.0, 6.0],
        "a first": [1.0],
        "a second": [1.0],
        "b first": [1.0, 1.0],
        "b second": [3.0],
    }


def test_rows_of_which_nothing_was_measured_are_not_handed_over() -> None:
    calls: list[str] = []
    rows = {"a": Script("a", calls, [KeyboardInterrupt()]), "b": Script("b", calls, [1.0])}
    found, _ = session(rows, 1)
    assert {figure.row for figure in found} == {"a"}


def test_a_row_that_fails_says_so_and_the_others_go_on() -> None:
    calls: list[str] = []
    rows = {
        "a": Script("a", calls, [1.0, ValueError("first line\nno memory")]),
        "b": Script("b", calls, [1.0, 2.0]),
    }
    found, _ = session(rows, 2)
    failed = next(figure for figure in found if figure.name == "a")
    assert (failed.repeats, failed.note) == ([], "failed: no memory")
    assert repeats_of(found)["b second"] == [1.0, 2.0]


def test_a_row_without_its_peer_is_tried_once_and_keeps_its_reason() -> None:
    calls: list[str] = []

    def missing() -> Iterator[Row]:
        calls.append("missing")
        yield Row("over C's", None, ">= 1", note="not run: no gcc on this machine")

    found, _ = session({"missing": missing}, 3)
    assert calls == ["missing"]
    assert [(figure.repeats, figure.note) for figure in found] == [([], "not run: no gcc on this machine")]


def test_a_figure_that_is_missing_once_keeps_its_other_repeats() -> None:
    found, _ = session({"a": Script("a", [], [1.5, None, 1.7])}, 3)
    assert repeats_of(found)["a second"] == [1.5, 1.7]
    assert found[1].note == "note 1.7"


@pytest.mark.parametrize(
    ("now", "before", "goal", "expected"),
    [
        ([1.0, 1.1, 1.2], None, ">= 1", NO_RECORD),
        ([1.0, 1.1, 1.2], [0.7, 0.75, 0.8], ">= 1", BETTER),  # 0.35 apart, spreads 0.2 + 0.1
        ([1.0, 1.1, 1.2], [0.8, 0.85, 0.9], ">= 1", SAME),  # 0.25 apart
        ([1.0, 1.1, 1.2], [1.4, 1.45, 1.5], ">= 1", WORSE),
        ([1.0, 1.1, 1.2], [0.7, 0.75, 0.8], "<= 1", WORSE),
        ([1.0, 1.1, 1.2], [1.4, 1.45, 1.5], "<= 1", BETTER),
        ([1.0, 1.1, 1.2], [0.7, 0.75, 0.8], "", NOT_JUDGED),
        ([1.0], [2.0], ">= 1", NOT_JUDGED),  # nothing says how noisy either is
        ([1.0], [2.0, 2.1], ">= 1", WORSE),
        ([1.0, 1.0], [1.0, 1.0], ">= 1", SAME),
        ([1.0, 1.0], [0.999, 0.999], ">= 1", BETTER),  # counted, not timed: any difference is one
    ],
)
def test_better_same_or_worse(now: list[float], before: list[float] | None, goal: str, expected: str) -> None:
    assert change(now, before, goal) == expected


def test_noise_is_both_spreads_together_and_a_single_run_is_as_noisy_as_the_other_side() -> None:
    assert noise([1.0, 3.0, 2.0], [5.0, 6.0]) == 3.0
    assert noise([1.0], [5.0, 6.0]) == 2.0
    assert noise([1.0], [5.0]) is None
