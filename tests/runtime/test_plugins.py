"""Packages that declare models and benchmarks as entry points: found without an import, used, and failing alone."""

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
    lines = [line for group, value in entries.items() for line in (f"[{group}]", f"x = {value}")]
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
        {"ridgeline.models": "ridgeline_warmth", "ridgeline.benchmarks": "ridgeline_warmth.measures"},
    )
    shutil.copytree(ROOT / "docs/example_models/heat", works / "heat")
    shutil.copytree(ROOT / "docs/example_benchmarks/ring", works / "measures" / "ring")
    fails = install(
        site,
        "ridgeline-broken",
        {"ridgeline.models": "ridgeline_broken", "ridgeline.benchmarks": "ridgeline_broken"},
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
