"""The benchmark of docs/adding-a-benchmark.md, in a folder outside the package, run as its user would run it."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = ROOT / "docs" / "example_benchmarks"


def bench(folder, *arguments) -> subprocess.CompletedProcess:
    """Run `ridgeline bench ARGUMENTS` in `folder`."""
    return subprocess.run(
        [sys.executable, "-m", "ridgeline", "bench", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "RIDGELINE_BENCHMARK_PATH": str(FAMILIES), "NUMBA_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )


def test_all_outputs_come_with_the_declaration(tmp_path):
    files = ("--json", "x.json", "--csv", "x.csv", "--plot", "x.svg")
    done = bench(tmp_path, "ring", "-n", 2, "--sizes", 8, "--sizes", 16, "--laps", 3, *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ring, 2 ranks: one message around all ranks")
    facts = json.loads((tmp_path / "x.json").read_text())
    assert [row["size"] for row in facts["rows"]] == [8, 16]
    assert all(row["seconds"] > 0 for row in facts["rows"])
    assert facts["machine"]
    assert facts["ranks"] == 2
    assert [set(rank) for rank in facts["rank_devices"]] == [{"interface", "source", "gpu"}] * 2
    assert facts["settings"] == {"laps": 3}
    rows = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    assert [float(row["seconds"]) for row in rows] == [row["seconds"] for row in facts["rows"]]
    assert (tmp_path / "x.svg").read_text().startswith("<?xml")


def test_help_and_refusals_come_with_the_declaration(tmp_path):
    text = " ".join(bench(tmp_path, "ring", "--help").stdout.split())
    assert "Pattern: every rank receives the message" in text
    assert "Size of a message. [B; 1 or more; may be repeated; default: 8 4096]" in text
    for options, code, words in (
        (("--laps", 0), 2, "error: --laps is 0, but it must be 1 or more"),
        ((), 2, "error: ring requires at least 2 ranks"),
        (("-n", 2, "--plot", "none/x.svg"), 6, "error: cannot write none/x.svg"),
    ):
        done = bench(tmp_path, "ring", *options)
        assert done.returncode == code, done.stderr
        assert done.stderr.count("error:") == 1
        assert words in done.stderr


def test_the_page_shows_the_files_as_they_are():
    page = (ROOT / "docs" / "adding-a-benchmark.md").read_text()
    shown = re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```\n", page, re.DOTALL)
    assert {name for name, _ in shown} == {
        f"docs/example_benchmarks/ring/{name}" for name in ("ring_options.py", "measure.py")
    }
    for name, text in shown:
        assert text == (ROOT / name).read_text(), f"{name} differs from what the page shows"
