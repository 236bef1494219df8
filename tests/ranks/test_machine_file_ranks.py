"""The machine file of the machine at hand, on tiny messages and typed rates; nodes of one rank as a network."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from ridgeline.bench.machine import machine_figures
from ridgeline.bench.machine.machine_figures import half_width, measure_machine, write_file
from ridgeline.bench.machine.machine_options import MachineFileOptions
from ridgeline.config.machine_file import read_machine_file
from ridgeline.limits.stream import CacheRate
from ridgeline.runtime.console import silent
from ridgeline.runtime.errors import ConfigError

RANKS = (1, 2, 3)
SMALL = {"repeats": 3, "sizes": (8, 64), "seconds": 1e-4}


@pytest.fixture(autouse=True)
def typed(monkeypatch):
    """Rates of memory that no machine needs to be asked for."""

    def stream(part, threads, repeats):
        return SimpleNamespace(best=10e9 * part.size, best_name="triad, ordinary stores")

    monkeypatch.setattr(machine_figures, "measure_stream", stream)
    monkeypatch.setattr(
        machine_figures, "measure_caches", lambda node, threads, dtype: [CacheRate(2, 2**20, 1e11)]
    )
    monkeypatch.setattr(machine_figures, "_PEAK_SECONDS", 1e-3)
    monkeypatch.setattr(machine_figures, "_LATENCY_ROUNDS", 3)
    monkeypatch.setattr(machine_figures, "_BANDWIDTH_ROUNDS", 2)


def measured(comm, **more):
    options = MachineFileOptions(**SMALL, **more)
    return measure_machine(comm, options, silent()), options


def test_the_file_of_one_node_holds_what_was_measured(comm, folder, monkeypatch):
    monkeypatch.setattr(machine_figures, "_check_whole_node", lambda comm, threads: None)
    result, options = measured(comm, name="abacus", machine_file=str(folder / "abacus.toml"))
    if comm.rank == 0:
        json.dumps(result.to_dict())
        (line,) = write_file(result, options)
        assert line == f"machine file: {folder / 'abacus.toml'}"
        machine = read_machine_file(folder / "abacus.toml")
        assert machine.machine.name == "abacus"
        assert machine.node.memory_bandwidth.value == 10e9 * comm.size
        assert machine.node.memory_bandwidth.source.endswith(
            f"STREAM triad, ordinary stores, {comm.size} ranks"
        )
        assert machine.node.ranks.value == comm.size
        peaks = [row["value"] for row in result.rows if row["figure"].startswith("peak")]
        assert machine.node.peak.value == peaks[0] > 0
        assert [(cache.capacity.value, cache.bandwidth.value) for cache in machine.cache] == [(2**20, 1e11)]
        assert machine.variability.node.value >= 0
        assert (machine.links.latency is None) == (machine.links.efficiency is None) == (comm.size == 1)
        assert machine.network.injection is None
        assert 0 <= machine.machine.others_share.value <= 1
        assert any("network was not measured" in sentence for sentence in machine.machine.absent)
    counts = [row["ranks"] for row in result.rows if row["figure"] == "memory bandwidth"]
    assert counts == sorted({1, 2, comm.size} - ({2} if comm.size == 1 else set()))


def test_links_are_told_by_size(comm, monkeypatch):
    monkeypatch.setattr(machine_figures, "_check_whole_node", lambda comm, threads: None)
    rows = measured(comm)[0].rows
    for figure in ("latency in the node", "bandwidth of two ranks", "all-to-all, per rank"):
        sizes = [row["size"] for row in rows if row["figure"] == figure]
        assert sizes == ([8, 16, 32, 64] if comm.size > 1 else [])


def test_several_nodes_have_a_network(comm, folder):
    if comm.size == 1:
        return
    result, options = measured(comm, ranks_per_node=1, machine_file=str(folder / "m.toml"))
    if comm.rank == 0:
        write_file(result, options)
        machine = read_machine_file(folder / "m.toml")
        assert (machine.machine.nodes.value, machine.node.ranks.value) == (comm.size, 1)
        assert machine.node.memory_bandwidth.value == 10e9
        assert machine.network.injection.value > 0
        assert machine.network.latency.value > 0
        assert [row.message.value for row in machine.all_to_all] == [8, 16, 32, 64]
        assert {row.nodes.value for row in machine.all_to_all} == {comm.size}
        assert machine.links.latency is None


def test_a_part_of_a_node_is_no_machine(comm, monkeypatch):
    monkeypatch.setattr(machine_figures, "usable_cores", lambda: set(range(64)))
    monkeypatch.setattr(
        machine_figures, "read_sysfs", lambda: SimpleNamespace(only=lambda cpus: SimpleNamespace(n_cores=32))
    )
    with pytest.raises(ConfigError, match=r"not the 32 cores of .*\. Start 32 ranks per node, as with -n 32"):
        measured(comm)


def test_half_of_the_middle_80_percent_over_the_median():
    assert half_width(np.linspace(1.0, 3.0, 101)) == pytest.approx(0.8 / 2.0)
    assert half_width(np.ones(5)) == 0.0
