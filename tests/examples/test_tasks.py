"""docs/tasks.md lists what the scripts of examples/tasks do, in their order; and they do it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(ROOT.glob("examples/tasks/*.sh"))
# What a script leaves behind, of the last tasks above all.
LEFT = {
    "pattern_formation": ("further.bp", "map/sweep.csv", "map/sweep.png", "density.png", "series.png", "spots.gif"),
    "turbulence": ("spectra.png", "densities.png", "finer_spectra.bp", "turning.png", "correlations.png", "own.csv"),
    "duct": ("friction.png", "statistics.png", "walls.png", "channel.png", "channel0.f00001", "probes.csv"),
    "computing_centre": (
        "stream.json", "latency.png", "health/report.html", "scaling/study.csv", "large/submit/ranks_512.slurm",
        "predicted.svg", "frontier.slurm",
    ),
}  # fmt: skip


def tasks_of_script(path: Path) -> list[str]:
    return re.findall(r'^task "(.+)"$', path.read_text(), re.MULTILINE)


def tasks_of_page() -> dict[str, list[str]]:
    """Return the first column of the table below each link to a script."""
    sections = (ROOT / "docs" / "tasks.md").read_text().split("\n## ")[1:]
    found = {}
    for section in sections:
        (name,) = re.findall(r"^Script: .*tasks/(\w+)\.sh", section, re.MULTILINE)
        found[name] = re.findall(r"^\| ([A-Z][^|]+?) \|", section, re.MULTILINE)
    return found


def test_the_page_lists_what_the_scripts_do() -> None:
    assert tasks_of_page() == {path.stem: tasks_of_script(path) for path in SCRIPTS}
    assert set(LEFT) == {path.stem for path in SCRIPTS}


@pytest.mark.full
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_does_its_tasks(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.findall(r"^== (.+)$", done.stdout, re.MULTILINE) == tasks_of_script(path)
    missing = [name for name in LEFT[path.stem] if not (tmp_path / name).exists()]
    assert not missing
