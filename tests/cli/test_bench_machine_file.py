"""`ridgeline bench machine-file`: a file that predictions read, and refusals in one sentence."""

import json

import pytest

from ridgeline.config.machine_file import read_machine_file
from ridgeline.runtime.machine import usable_cores
from ridgeline.runtime.node_topology import read_sysfs


@pytest.mark.full
def test_the_file_is_written_and_read(ridgeline):
    options = ("--sizes", 8, 16, "--repeats", 3, "--seconds", 0.001, "--ranks-per-node", 1)
    done = ridgeline(
        "bench", "machine-file", "-n", 2, *options, "--machine-file", "m.toml", "--json", "m.json"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("machine file: m.toml\n")
    machine = read_machine_file(ridgeline.path / "m.toml")
    facts = json.loads((ridgeline.path / "m.json").read_text())
    rates = {row["figure"]: row["value"] for row in facts["rows"]}
    assert machine.node.memory_bandwidth.value == rates["memory bandwidth"]
    assert machine.network.injection.value == rates["injection rate"]


def test_a_part_of_a_node_is_refused(ridgeline):
    cores = read_sysfs().only(usable_cores()).n_cores
    if cores == 1:
        pytest.skip("one rank is the whole node")
    done = ridgeline("bench", "machine-file")
    assert done.returncode == 2
    assert f"not the {cores} cores of" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_that_cannot_be_written_is_named_before_anything_is_measured(ridgeline):
    done = ridgeline("bench", "machine-file", "--machine-file", "none/m.toml")
    assert done.returncode == 6
    assert "cannot write none/m.toml" in done.stderr
    assert done.stdout == ""
