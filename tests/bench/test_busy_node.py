"""A benchmark on a busy node says so on the screen, in JSON and in CSV, whatever it measures."""

import csv
import json
import os
from types import SimpleNamespace

import pytest

from ridgeline.bench.result import MICROSECONDS, SIZE, Result
from ridgeline.bench.run import BenchmarkOutputs, run_benchmark
from ridgeline.parallel import layout


def measure(comm, options, progress):
    rows = [{"size": 8, "seconds": 1e-6}]
    return Result("ring", "around", "t", "mean", comm.size, [SIZE, MICROSECONDS], rows)


@pytest.mark.parametrize(("share", "said"), [(0.92, True), (0.01, False)])
def test_a_busy_node_is_said_everywhere(share, said, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(layout, "busiest_share", lambda comm, before: share)
    monkeypatch.setenv("NUMBA_NUM_THREADS", os.environ["NUMBA_NUM_THREADS"])  # a job sets it, and its pools
    monkeypatch.setattr("ridgeline.parallel.job.configure_threads", lambda threads: None)
    benchmark = SimpleNamespace(name="ring", measure=measure, finish=None, thread_level="serialized")
    outputs = BenchmarkOutputs(json=str(tmp_path / "b.json"), csv=str(tmp_path / "b.csv"))
    run_benchmark(benchmark, SimpleNamespace(), outputs)
    words = "Other processes used 92% of the busiest node during the measurement."
    assert (words in capsys.readouterr().out) == said
    facts = json.loads((tmp_path / "b.json").read_text())
    assert any(words in note for note in facts["notes"]) == said
    (row,) = csv.DictReader((tmp_path / "b.csv").read_text().splitlines())
    assert float(row["others_share"]) == facts["others_share"] == share
