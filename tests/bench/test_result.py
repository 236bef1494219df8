"""What a benchmark prints and stores: units, empty cells, ranks that took no part."""

import ast
import json
from pathlib import Path

import pytest
from rich.console import Console

import ridgeline
from ridgeline.bench.result import MICROSECONDS, SIZE, Column, Plot, Result, make_table

RATE = Column("bandwidth", "MB/s", 1e6)
SOURCE = Path(ridgeline.__file__).parent


def result(**changes):
    facts = {
        "benchmark": "latency",
        "pattern": "rank 0 sends to rank 1 and back, over and over, a sentence that is longer than its table",
        "formula": "latency = t / (2 iterations)",
        "statistic": "mean",
        "ranks": 3,
        "columns": [SIZE, MICROSECONDS, RATE],
        "rows": [{"size": 8, "seconds": 1.25e-6, "bandwidth": None}, {"size": 16, "seconds": 2e-6}],
    }
    return Result(**facts | changes)


def text(figures, width=200):
    console = Console(width=width)
    with console.capture() as capture:
        console.print(make_table(figures), highlight=False, markup=False)
    return capture.get()


@pytest.mark.parametrize(
    ("column", "value", "cell"),
    [
        (MICROSECONDS, 1.5e-6, "1.50"),
        (RATE, 12_345_678.9, "12.35"),
        (RATE, 12_000_000, "12.00"),  # an integer number of bytes is scaled too
        (RATE, 0.0, "0.00"),
        (RATE, None, ""),
        (SIZE, 4096, "4096"),
        (Column("name", "kind"), "put", "put"),
        (Column("rate", "1/s", 1.0, ".0f"), 1234.56, "1235"),
    ],
)
def test_cells(column, value, cell):
    assert column.cell({column.key: value}) == cell
    assert column.cell({}) == ""


def test_table_says_pattern_formula_statistic_and_units():
    lines = text(result()).splitlines()
    assert lines[0] == f"latency, 3 ranks: {result().pattern}"
    assert lines[1].split() == ["B", "us", "MB/s"]
    assert lines[2].split() == ["8", "1.25"]
    assert lines[3].split() == ["16", "2.00"]
    assert lines[4] == "latency = t / (2 iterations); mean"
    assert len(lines) == 5


def test_table_names_nodes_ranks_that_rest_and_notes():
    shown = text(result(nodes=2, left_out=[2], notes=["[the link] is slow"]))
    assert "latency, 3 ranks on 2 nodes:" in shown
    assert shown.splitlines()[-2:] == ["Not measured: rank 2.", "[the link] is slow"]
    assert "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more.\n" in text(result(left_out=list(range(20))))
    assert "latency, 1 rank:" in text(result(ranks=1))


def test_words_are_wrapped_at_the_screen_not_at_the_table():
    lines = text(result(), width=60).splitlines()
    assert len(lines) == 6
    assert max(map(len, lines)) <= 60


def test_json_holds_everything_in_si_units():
    figures = result(plot=Plot("size", ("seconds",)), extra={"matrix": [[None, 1.0]]}, left_out=[2])
    facts = json.loads(json.dumps(figures.to_dict()))
    assert facts["columns"] == {"size": "B", "seconds": "s", "bandwidth": "B/s"}
    assert facts["rows"][0]["seconds"] == 1.25e-6
    assert facts["units"].startswith("SI")
    assert facts["left_out"] == [2]
    assert facts["verified"] is True
    assert facts["plot"]["kind"] == "lines"
    assert facts["extra"] == {"matrix": [[None, 1.0]]}
    assert text(Result.from_dict(facts)) == text(figures)


def test_a_row_may_have_a_unit_of_its_own():
    column = Column("value", "value", form=".1f", scale_key="scale")
    rows = [{"value": 2.5e9, "scale": 1e9}, {"value": 3e-6, "scale": 1e-6}, {"value": None, "scale": 1.0}]
    assert [column.cell(row) for row in rows] == ["2.5", "3.0", ""]
    figures = result(columns=[column], rows=rows)
    assert text(Result.from_dict(json.loads(json.dumps(figures.to_dict())))) == text(figures)


def test_a_result_of_an_earlier_version_is_read():
    facts = json.loads(json.dumps(result().to_dict()))
    del facts["failures"]
    facts["columns"] = {"size": "B", "seconds": "us", "bandwidth": "MB/s"}  # the heads of the screen
    forms = facts["formats"]
    for parts in (3, 2):
        facts["formats"] = {key: form[:parts] for key, form in forms.items()}
        assert text(Result.from_dict(facts)) == text(result())


@pytest.mark.parametrize(
    ("head", "scale", "si_head"),
    [
        ("all GB/s", 1e9, "all B/s"),
        ("max us", 1e-6, "max s"),
        ("ms/step, A", 1e-3, "s/step, A"),
        ("80 % from ms", 1e-3, "80 % from s"),
        ("back: P2P MiB", 2.0**20, "back: P2P B"),
        ("Tot MFlops", 1e6, "Tot Flops"),
        ("GFLOP/s now", 1e9, "FLOP/s now"),
        ("MTEPS", 1e6, "TEPS"),
        ("MDOF it/s", 1e6, "DOF it/s"),
        ("M points/s", 1e6, "points/s"),
        ("wait %", 0.01, "wait fraction"),
        ("%", 0.01, "fraction"),
        ("s", 1.0, "s"),
        ("99%", 1.0, "99%"),
    ],
)
def test_heads_of_values_in_si_units(head, scale, si_head):
    assert Column("key", head, scale).si_head == si_head


def test_every_declared_multiple_of_a_unit_has_its_si_unit():
    calls = [
        call.args
        for path in SOURCE.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Column" and len(call.args) > 2
    ]
    heads = {
        head.value
        for _, head, scale, *_ in calls
        if isinstance(head, ast.Constant) and getattr(scale, "value", 0.0) != 1.0
    }
    assert len(heads) > 30
    # The table of phases on the page of a study names its unit above; it is in no JSON.
    assert [head for head in heads if Column("key", head, 2.0).si_head == head] == ["step"]
