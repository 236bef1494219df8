"""The console: what is printed is what was given."""

import io
import sys

import pytest
from rich.table import Table

from ridgeline.runtime.console import plain_console
from ridgeline.validate.doctor import Finding, print_findings

HINT = 'pip install "ridgeline[cuda]", not [/red] or :warning: x=1'


def of_print(out: io.StringIO) -> None:
    plain_console(out).print(HINT)


def of_table(out: io.StringIO) -> None:
    table = Table(title=f"t {HINT}")
    table.add_column(f"c {HINT}")
    table.add_row(f"{HINT} {'x' * 150}")
    plain_console(out, soft_wrap=True).print(table)


def of_doctor(out: io.StringIO) -> None:
    print_findings([Finding("GPU", "optional", HINT, HINT)])


@pytest.mark.parametrize("show", [of_print, of_table, of_doctor])
def test_nothing_is_taken_for_markup_or_emoji_and_no_table_is_cut_in_a_file(monkeypatch, show):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    show(out)
    expected = {of_print: 1, of_table: 3, of_doctor: 2}
    assert out.getvalue().count(HINT) == expected[show]
