"""The tiers and parts of tools/run_tests.py: each test is in one part; and what is said at the end."""

import importlib.util
import itertools
import sys
import tomllib
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

ROOT = Path(__file__).resolve().parents[2]
MARKS = ("full", "slow", "jobs", "alone")


@pytest.fixture
def module(monkeypatch):
    specification = importlib.util.spec_from_file_location("run_tests", ROOT / "tools" / "run_tests.py")
    made = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "run_tests", made)
    specification.loader.exec_module(made)
    return made


@pytest.mark.parametrize("marks", list(itertools.product((False, True), repeat=len(MARKS))))
def test_every_test_is_in_one_part_of_its_tier(module, marks):
    has = dict(zip(MARKS, marks, strict=True))

    def chosen(expression: str) -> bool:
        return Expression.compile(expression).evaluate(lambda name, **_: has[name])

    assert [chosen(marks) for marks in module.PARTS.values()].count(True) == 1
    tiers = {tier: chosen(marks) for tier, marks in module.TIERS.items()}
    assert tiers["slow"] != tiers["all"]
    assert tiers["all"] or not tiers["quick"]


def test_plain_pytest_runs_the_quick_tier(module):
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    assert options.endswith(f"-m '{module.TIERS['quick']}'")


def test_failures_and_counts_of_all_parts_are_told(module, monkeypatch, capsys):
    parts = iter(
        [
            module.Part(0, 10.0, {"passed": 3}, {"a": 1.5, "b": 7.0}),
            module.Part(module.NOTHING_COLLECTED, 1.0, {}, {}),
            module.Part(1, 20.0, {"failed": 1, "passed": 2}, {"c": 19.0}),
        ]
    )
    asked = []
    monkeypatch.setattr(
        module, "run_part", lambda marks, options: asked.append((marks, options)) or next(parts)
    )
    assert module.main(["all", "-k", "word"]) == 1
    assert [marks for marks, _ in asked] == [f"(not slow) and {part}" for part in module.PARTS.values()]
    assert ["-n" in options for _, options in asked] == [True, True, False]
    assert all(options[-2:] == ["-k", "word"] for _, options in asked)
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "all tests (all): 5 passed, 1 failed in 31.00s"
    assert [line.split()[-1] for line in said[2:5]] == ["c", "b", "a"]
