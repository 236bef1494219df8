"""The console: what is printed is what was given."""

import io
import logging
import sys
import types

import pytest
from rich.table import Table
from rich.text import Text

from ridgeline.runtime import console
from ridgeline.runtime.console import PrintedDict, plain_console
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


def test_slow_work_is_told_now_and_then(monkeypatch, caplog):
    clock = iter([100.0, 105.0, 114.0, 116.0, 120.0, 131.5])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    tally = console.Tally("compiled {} kernels so far.", logging.getLogger("slow"))
    with caplog.at_level(logging.INFO, "slow"):
        for _ in range(6):
            tally.add()
    assert [record.getMessage() for record in caplog.records] == [
        "compiled 4 kernels so far.",
        "compiled 6 kernels so far.",
    ]


def test_a_notebook_gets_reports_as_text_and_a_bar(monkeypatch):
    kernel = type("ZMQInteractiveShell", (), {"kernel": None})()
    monkeypatch.setattr(
        "builtins.get_ipython", lambda: kernel, raising=False
    )  # where Rich looks for a notebook
    monkeypatch.setenv("FORCE_COLOR", "1")  # as kernels of notebooks do
    shown: list[dict[str, str]] = []
    handle = types.SimpleNamespace(update=lambda content, raw: shown.append(content))
    display = types.SimpleNamespace(display=lambda content, raw, display_id: shown.append(content) or handle)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: kernel))
    monkeypatch.setitem(sys.modules, "IPython.display", display)

    class Greeting(PrintedDict):
        def print_on(self, console):
            console.print(Text("a <b> c", "bold"))

    assert repr(Greeting()) == "a <b> c"
    assert "a &lt;b&gt; c" in Greeting()._repr_html_()
    with console.Progress(0, 4, shown=True) as progress:
        progress.update(1, 0.0)
        progress.pause(1, 0.0)
        progress.update(4, 0.0)
        progress.pause(4, 0.0)
    places = [content["text/plain"].split("  ")[0] for content in shown]
    assert places == ["step 0/4", "step 1/4", "step 4/4"], "too soon to draw step 1 before the pause"
    assert 'value="1.0000"' in shown[-1]["text/html"]
