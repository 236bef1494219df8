"""The command of the quick benchmark with rows that measure nothing: what it prints, keeps and returns."""

import json
import shutil
import subprocess
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

import quick
from harness import history
from harness.session import Measure
from harness.table import Row
from ridgeline.runtime.errors import RidgelineError

COMMIT = "0123456789ab"


def measure(*values: float, broken_off: bool = False) -> Measure:
    """Return a row whose calls give these values in turn; after them it says that its peer is missing."""
    left = list(values)

    def call() -> Iterator[Row]:
        if not left and broken_off:
            raise KeyboardInterrupt
        yield Row("a ratio", left.pop(0) if left else None, ">= 1.0", note="not run: no peer")

    return call


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command with rows and options; records go to tmp_path. Returns the exit status."""
    monkeypatch.setattr(history, "FOLDER", tmp_path)
    monkeypatch.setattr(quick, "committed", lambda: COMMIT)

    def run(rows: dict[str, Measure], *options: str) -> int:
        arguments = quick.arguments_of(list(rows)).parse_args(options)
        return quick.run(arguments, rows)

    return run


def kept(folder: Path) -> list[history.Record]:
    files = list(folder.glob("*.jsonl"))
    return [record for file in files for record in history.read(file, pytest.fail)]


def test_figures_are_kept_only_if_asked(status, tmp_path: Path) -> None:
    assert status({"a": measure(1.0, 1.1, 1.2)}) == 0
    assert kept(tmp_path) == []
    assert status({"a": measure(1.0, 1.1, 1.2000004), "b": measure()}, "--record") == 0
    (record,) = kept(tmp_path)  # a row that could not run leaves no line
    assert (record.row, record.name, record.repeats, record.goal) == (
        "a",
        "a ratio",
        (1.0, 1.1, 1.2),
        ">= 1.0",
    )
    assert (record.commit, record.machine.file_name) == (COMMIT, next(tmp_path.iterdir()).name)


def test_a_regression_is_said_and_with_strict_the_status(status, capsys: pytest.CaptureFixture[str]) -> None:
    status({"a": measure(1.0, 1.01, 1.02)}, "--record")
    assert "no record" in capsys.readouterr().out
    assert status({"a": measure(0.8, 0.81, 0.82)}) == 0
    assert "1 worse" in capsys.readouterr().out
    assert status({"a": measure(0.8, 0.81, 0.82)}, "--strict") == 1
    assert status({"a": measure(1.0, 1.01, 1.02)}, "--strict") == 0
    assert "1 same" in capsys.readouterr().out


def test_a_command_that_is_broken_off_keeps_what_was_measured(
    status, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {"a": measure(1.0, 1.1, 1.2), "b": measure(2.0, broken_off=True)}
    assert status(rows, "--record") == 130
    assert {record.row: record.repeats for record in kept(tmp_path)} == {"a": (1.0,), "b": (2.0,)}
    assert "broken off" in capsys.readouterr().err


def test_a_damaged_line_is_named_and_the_others_are_compared_with(
    status, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status({"a": measure(1.0, 1.01, 1.02)}, "--record")
    (file,) = tmp_path.glob("*.jsonl")
    file.write_text("{\n" + file.read_text())
    assert status({"a": measure(0.8, 0.81, 0.82)}, "--strict") == 1
    assert f"{file.name}:1: it is not JSON" in capsys.readouterr().err


def test_limits_are_shown_and_never_judged(status, capsys: pytest.CaptureFixture[str]) -> None:
    def limits(value: float) -> Measure:
        return lambda: iter([Row("STREAM", value, unit="GB/s")])

    status({"limits": limits(40.0)}, "--record")
    assert status({"limits": limits(20.0), "a": measure()}, "--strict") == 0
    out = capsys.readouterr().out
    assert "STREAM: 20 GB/s" in out
    assert "a: a ratio: not run: no peer" in out
    assert "1 not run" in out


def test_json_has_every_figure_with_its_repeats(status, tmp_path: Path) -> None:
    status({"a": measure(1.0, 1.1, 1.2), "b": measure()}, "--json", str(tmp_path / "out.json"))
    figures = json.loads((tmp_path / "out.json").read_text())["figures"]
    assert [(figure["row"], figure["repeats"], figure["verdict"]) for figure in figures] == [
        ("a", [1.0, 1.1, 1.2], "met"),
        ("b", [], ""),
    ]


def test_a_line_of_markdown_for_each_row_and_goal(status, capsys: pytest.CaptureFixture[str]) -> None:
    def two() -> Iterator[Row]:
        yield Row("small", 0.5, ">= 1.0")
        yield Row("large", 2.0, ">= 1.0")
        yield Row("less", 3.0, "<= 4.0")

    status({"a": two, "b": measure()}, "--markdown")
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")] == [
        "| row | from | figures | values | goal | verdict |",
        "| --- | --- | --- | --- | --- | --- |",
        "| a | small | 2 | 0.5 to 2 | >= 1.0 | 1 of 2 met |",
        "| a | less | 1 | 3 | <= 4.0 | met |",
        "| b | not run: no peer |  |  |  |  |",
    ]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git checkout with sources, pages and records, all committed."""
    for name in ("src/a.py", "benchmarks/b.py", "benchmarks/RESULTS.md", "benchmarks/history/cpu.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("as committed")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "all")):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    monkeypatch.setattr(quick, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["benchmarks/RESULTS.md", "benchmarks/history/cpu.jsonl"])
def test_pages_and_records_may_change_between_records(checkout: Path, name: str) -> None:
    before = quick.committed()
    (checkout / name).write_text("changed")
    assert quick.committed() == before
    assert len(before) == 12


@pytest.mark.parametrize("name", ["src/a.py", "benchmarks/b.py", "src/new.py"])
def test_figures_of_sources_that_are_not_committed_are_not_kept(checkout: Path, name: str) -> None:
    (checkout / name).write_text("changed")
    with pytest.raises(RidgelineError, match=f"{name} is not committed. Commit it first"):
        quick.committed()


def test_outside_a_checkout_no_figure_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "ROOT", tmp_path)
    with pytest.raises(RidgelineError, match="requires a git checkout"):
        quick.committed()


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
def test_make_passes_options_on() -> None:
    root = Path(quick.__file__).parents[1]
    command = ["make", "-n", "-C", str(root), "bench-quick", "QUICK=--only hpcg"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "benchmarks/quick.py --only hpcg\n" in done.stdout


def test_an_unknown_row_names_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        quick.arguments_of(["hpcg", "isend"]).parse_args(["--only", "hpgc"])
    assert "hpcg" in capsys.readouterr().err
    assert isinstance(quick.arguments_of(["hpcg"]).parse_args([]), Namespace)
