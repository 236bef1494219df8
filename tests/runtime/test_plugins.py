"""Packages that declare models and benchmarks as entry points: found without an import, used, and failing alone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def install(site: Path, name: str, entries: dict[str, str]) -> Path:
    """Lay an installed package into a folder of Python's path, and return the package's folder."""
    module = name.replace("-", "_")
    metadata = site / f"{module}-1.5.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    lines = [line for group, value in entries.items() for line in (f"[{group}]", f"{name[10:]} = {value}")]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    package = site / module
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('this is imported too early')\n")
    return package


@pytest.fixture
def ridgeline(tmp_path):
    """Install one package that works and one that fails; return a function that calls the command line."""
    site = tmp_path / "site"
    works = install(
        site,
        "ridgeline-warmth",
        {
            "ridgeline.models": "ridgeline_warmth",
            "ridgeline.benchmarks": "ridgeline_warmth.measures",
            "ridgeline.recorders": "extremes_of_warmth:recorder",
        },
    )
    shutil.copy(ROOT / "docs/example_recorders/extremes.py", site / "extremes_of_warmth.py")
    shutil.copytree(ROOT / "docs/example_models/heat", works / "heat")
    shutil.copytree(ROOT / "docs/example_benchmarks/ring", works / "measures" / "ring")
    fails = install(
        site,
        "ridgeline-broken",
        {
            "ridgeline.models": "ridgeline_broken",
            "ridgeline.benchmarks": "ridgeline_broken",
            "ridgeline.recorders": "ridgeline_broken:recorder",
        },
    )
    for file in ("torn/settings.py", "shred/shred_options.py"):
        (fails / file).parent.mkdir()
        (fails / file).write_text("from ridgeline import nothing_of_this_name\n")

    def command(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-P", "-m", "ridgeline", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(site), "NUMBA_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=180,
            stdin=subprocess.DEVNULL,
        )

    return command


def test_installed_packages_add_models_and_benchmarks(ridgeline):
    case = ROOT / "docs/example_models/heat/settings.toml"
    check = ridgeline("check", str(case))
    assert check.returncode == 0, check.stderr
    assert "heat" in check.stdout
    ring = ridgeline("bench", "ring", "-n", "2", "--laps", "3")
    assert ring.returncode == 0, ring.stderr
    assert "ring, 2 ranks" in ring.stdout


def test_a_package_that_fails_gets_one_sentence_and_disturbs_nothing(ridgeline):
    models = ridgeline("explain")
    assert models.returncode == 0, models.stderr
    assert "heat" in models.stdout
    search = ridgeline("explain", "--search", "conductivity")
    assert "warning: the model torn of the package ridgeline-broken 1.5 cannot be imported" in search.stderr
    used = ridgeline("explain", "torn")
    assert used.returncode == 2
    assert used.stderr.startswith(
        "error: the model torn of the package ridgeline-broken 1.5 cannot be imported"
    )
    assert used.stderr.count("\n") == 1
    stream = ridgeline("bench", "ring", "--laps", "0")
    assert (
        "warning: the benchmarks shred of the package ridgeline-broken 1.5 cannot be imported"
        in stream.stderr
    )
    assert "Traceback" not in stream.stderr


CASE = """\
[run]
model = "gray_scott"
steps = {steps}

[grid]
shape = [6, 7, 8]

[output]
path = "out.bp"
every = 0

[checkpoint]
path = "checkpoints"
"""
RECORDER = """
[[recorder]]
name = "{name}"
path = "{path}"
every = 2
"""


def write_case(folder: Path, steps: int, name: str, path: str = "extremes.csv") -> str:
    case = folder / "case.toml"
    case.write_text(CASE.format(steps=steps) + RECORDER.format(name=name, path=path))
    return str(case)


def test_a_package_adds_an_output_which_a_resumed_run_continues(ridgeline, tmp_path):
    for steps, ranks in ((4, "2"), (8, "1")):
        run = ridgeline("run", write_case(tmp_path, steps, "warmth"), "-n", ranks, "--resume", "auto")
        assert run.returncode == 0, run.stderr
    header, *rows = (tmp_path / "extremes.csv").read_text().splitlines()
    assert header == "step,time,U_min,U_max,V_min,V_max"
    assert [row.split(",")[0] for row in rows] == ["0", "2", "4", "6", "8"]
    assert "recorder warmth" in (tmp_path / "out.bp.run.json").read_text()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("warmt", "Did you mean 'warmth'? Recorders of installed packages: broken, warmth."),
        (
            "broken",
            "the recorder broken of the package ridgeline-broken 1.5 cannot be imported (RuntimeError:",
        ),
    ],
)
def test_a_recorder_that_cannot_be_used_is_one_sentence(ridgeline, tmp_path, name, words):
    for command in (("check",), ("run", "-n", "2")):
        done = ridgeline(command[0], write_case(tmp_path, 2, name), *command[1:])
        assert done.returncode == 2
        assert words in done.stderr
        assert done.stderr.count("error:") == 1
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "extremes.csv").exists()


def test_the_path_of_a_recorder_is_its_own(ridgeline, tmp_path):
    done = ridgeline("check", write_case(tmp_path, 2, "warmth", "checkpoints/x.csv"))
    assert done.returncode == 2
    assert "recorder.0.path" in done.stderr


def test_doctor_lists_packages_and_whether_they_load(ridgeline):
    findings = json.loads(ridgeline("doctor", "--json").stdout)["findings"]
    found = next(finding for finding in findings if finding["name"] == "packages")
    assert "ridgeline-warmth 1.5: model heat, benchmarks ring, recorder warmth" in found["text"]
    assert (
        "ridgeline-broken 1.5: model torn (fails), benchmarks shred (fails), recorder broken (fails)"
        in found["text"]
    )
    assert found["advice"].count("cannot be imported") == 3
    assert found["status"] == "optional"
