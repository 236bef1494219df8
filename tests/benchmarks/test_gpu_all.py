"""The command that asks everything of GPUs, with parts that are small programs: what it runs, shows and returns."""

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

import gpu_all
from gpu_all import PARTS, Part, arguments_of, command_of, run
from ridgeline.runtime.devices import SIMULATOR
from ridgeline.runtime.errors import DeviceError

ROW = {"name": "a share", "figure": 0.9, "target": ">= 0.85", "median": None, "note": "", "unit": ""}


def program(text: str, **options) -> Part:
    braces = text.replace("{", "{{").replace("}", "}}")
    return Part((sys.executable, "-c", braces, "{json}"), **options)


def writes(*rows: dict) -> Part:
    return program(f"import sys; open(sys.argv[1], 'w').write({json.dumps(json.dumps({'rows': rows}))})")


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run parts with options on two GPUs; returns the exit status."""
    monkeypatch.setattr(gpu_all, "describe_devices", lambda: [SIMULATOR] * 2)
    monkeypatch.setattr(gpu_all, "simulated", lambda: False)

    def call(parts: dict[str, Part], *options: str) -> int:
        words = ["--folder", str(tmp_path / "out"), *options]
        return run(arguments_of(list(parts)).parse_args(words), parts)

    return call


def test_figures_with_a_goal_are_shown(status, capsys) -> None:
    other = ROW | {"name": "no goal", "target": ""}
    assert status({"a": writes(ROW, other), "b": writes(ROW | {"name": "slow", "figure": 0.5})}) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("a share", "met", "slow", "missed"))
    assert "no goal" not in shown


def test_a_part_that_fails_does_not_end_the_others(status, capsys) -> None:
    assert status({"a": program("import sys; print('why'); sys.exit(3)"), "b": writes(ROW)}) == 1
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("a: failed with 3", "why", "a share"))


def test_a_part_that_takes_too_long_is_ended(status, capsys) -> None:
    forever = program("import time; time.sleep(3600)")
    assert status({"a": forever, "b": writes(ROW)}, "--minutes", "0.001") == 1
    assert "a: ended after 0.001 minutes" in capsys.readouterr().out


def test_parts_for_more_gpus_are_named_and_not_run(status, capsys) -> None:
    assert status({"a": program("raise SystemExit(1)", least=3)}) == 0
    assert "a: not run: it requires 3 GPUs" in capsys.readouterr().out


def test_figures_of_an_earlier_session_are_not_taken_for_new_ones(status, tmp_path, capsys) -> None:
    status({"a": writes(ROW)})
    capsys.readouterr()
    assert status({"a": program("raise SystemExit(1)")}) == 1
    assert "a share" not in capsys.readouterr().out


def test_only_the_parts_that_are_asked_for_run(status, tmp_path) -> None:
    assert status({"a": program("raise SystemExit(1)"), "b": writes(ROW)}, "--only", "b") == 0
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == ["b.json", "b.txt"]


def test_without_a_gpu_the_reason_is_said(monkeypatch, capsys) -> None:
    def none() -> list:
        raise DeviceError("no driver")

    monkeypatch.setattr(gpu_all, "describe_devices", none)
    monkeypatch.setattr(sys, "argv", ["gpu_all.py"])
    assert gpu_all.main() == DeviceError.exit_code
    assert "no driver" in capsys.readouterr().err


def test_commands_are_such_that_their_programs_take_them(tmp_path: Path) -> None:
    for name in PARTS:
        command = command_of(name, PARTS[name], 2, tmp_path)
        assert not [word for word in command if "{" in word], name
        script = next((word for word in command if word.endswith(".py")), None)
        if script:
            options = {word for word in [*command, *(PARTS[name].small or ())] if word.startswith("--")}
            text = Path(script).read_text()
            assert not [option for option in options if f'"{option}"' not in text], name


def test_benchmarks_of_the_command_line_know_their_options(tmp_path: Path) -> None:
    for name in (name for name, part in PARTS.items() if "bench" in part.command):
        part = PARTS[name]
        command = [*command_of(name, part, 2, tmp_path), *(part.small or ()), "--help"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        shown = " ".join(done.stdout.split())
        assert all(option in shown for option in command if option.startswith("--")), name


def test_arguments_have_defaults() -> None:
    assert arguments_of(["a"]).parse_args([]) == Namespace(
        only=None, gpus=None, folder=gpu_all.FOLDER, minutes=gpu_all.MINUTES
    )
