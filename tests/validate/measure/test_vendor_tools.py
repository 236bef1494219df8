"""Tools of vendors: their exit status decides, their output is kept, and a missing one says nothing."""

import json

import pytest

from ridgeline.runtime.errors import ConfigError
from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.thresholds import load_thresholds
from ridgeline.validate.measure.measurements import Measurements
from ridgeline.validate.measure.vendor_tools import KNOWN_TOOLS, VendorTool, run_tools


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that installs a tool with a shell's lines."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def install(name, body):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)

    return install


def judged(results):
    found = Measurements(["n0"], node_of_rank=[0], tools={0: results})
    return screen(Measurements.from_dict(json.loads(json.dumps(found.to_dict()))))


def test_the_exit_status_decides_and_the_output_is_kept(installed):
    installed("cxi_healthcheck", "echo all good; echo device cxi3 FAILED 2>&1; exit 3")
    installed("nvidia-smi", "echo fine; printf '\\033[1m'")
    results = run_tools([KNOWN_TOOLS["cxi_healthcheck"], KNOWN_TOOLS["nvidia-smi"]], True)
    (suspect,) = judged(results).suspects
    assert suspect.reasons == ["cxi_healthcheck ended with exit code 3: device cxi3 FAILED"]
    assert results[0].output.startswith("all good\n")
    assert (results[1].code, "\033" in results[1].output) == (0, False)


def test_a_tool_that_is_missing_or_slow_blames_nobody(installed):
    installed("slow", "echo begun; exec cat /dev/zero > /dev/null")
    results = run_tools([KNOWN_TOOLS["dcgmi"], VendorTool("slow", ("slow",), 0.5)], True)
    verdict = judged(results)
    assert verdict.suspects == []
    assert verdict.notes[:2] == [
        "n0: dcgmi says nothing: dcgmi is not installed.",
        "n0: slow says nothing: it did not end within 0.5 s.",
    ]


def test_a_tool_for_the_whole_fabric_runs_on_one_node(installed):
    installed("ibdiagnet", "exit 0")
    assert [len(run_tools([KNOWN_TOOLS["ibdiagnet"]], first)) for first in (True, False)] == [1, 0]


def test_a_site_names_tools(tmp_path):
    site = tmp_path / "site.toml"
    site.write_text('[tools]\nrun = ["nvidia-smi"]\nours = ["/opt/check", "-q"]\n')
    assert [tool.command for tool in load_thresholds(site).tools] == [("nvidia-smi",), ("/opt/check", "-q")]
    for text, words in (
        ('run = ["nvidia-sim"]', "Did you mean 'nvidia-smi'"),
        ('ours = "check"', "must be a list of texts"),
    ):
        site.write_text(f"[tools]\n{text}\n")
        with pytest.raises(ConfigError, match=words):
            load_thresholds(site)
