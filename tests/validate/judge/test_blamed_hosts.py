"""`ridgeline validate` on hosts of which one, or one link, is at fault: just that is blamed, and nobody without.

Hosts are network namespaces with a bounded rate (namespaces.py). All share the cores, so pairs are
measured one at a time. Faults are many times larger than noise on a machine that does other things too.
"""

import importlib.util
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("namespaces", Path(__file__).with_name("namespaces.py"))
namespaces = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(namespaces)

pytestmark = [
    pytest.mark.alone,
    pytest.mark.full,
    pytest.mark.skipif(bool(namespaces.missing()), reason=namespaces.missing() or "hosts can be made"),
]

N_HOSTS = 4
PLACEMENTS = 10
FAULTS = ("slow host", "lossy link", "slow host", "lossy host", "slow host")  # in turn; the place is random
# All ten of each take minutes: the first three of each are in `make test-all`, the others slow.
ALWAYS = 3
NUMBERS = [pytest.param(n, marks=[] if n < ALWAYS else pytest.mark.slow) for n in range(PLACEMENTS)]
OPTIONS = ("--only", "--stage", "pairs", "--serial", "--quick", "--thresholds")


@pytest.fixture(scope="module")
def hosts() -> Iterator["namespaces.Hosts"]:
    with namespaces.Hosts(N_HOSTS) as made:
        yield made


@pytest.fixture
def network(hosts):
    """The hosts, healthy before and after."""
    yield hosts
    hosts.heal()


@pytest.fixture
def thresholds(tmp_path):
    path = tmp_path / "thresholds.toml"
    path.write_text("[thresholds]\nslowdown = 0.9\nz = 20.0\nstalls = 0.5\nothers_share = 1\n")
    return path


@pytest.mark.parametrize("number", NUMBERS)
def test_only_the_fault_is_blamed(network, thresholds, tmp_path, number):
    fault = FAULTS[number % len(FAULTS)]
    a, b = random.Random(number).sample(range(N_HOSTS), 2)
    if fault == "slow host":
        network.slow(a, "100mbit")
        expected = [("node", [a])]
    elif fault == "lossy host":
        network.lose(a)
        expected = [("node", [a])]
    else:
        network.lose(a, sender=b)
        network.lose(b, sender=a)
        expected = [("link", sorted([a, b]))]
    done = network.validate(tmp_path, *OPTIONS, thresholds)
    assert done.suspects == expected, done.said
    assert done.code == 1
    left_out = set(network.names) - set(done.good)
    assert left_out == ({f"node{a}"} if expected[0][0] == "node" else left_out & {f"node{a}", f"node{b}"})
    assert len(left_out) == 1
    assert (tmp_path / "report" / "report.html").read_text().count(f"node{a}") > 0


@pytest.mark.parametrize("number", NUMBERS)
def test_healthy_hosts_are_not_blamed(network, thresholds, tmp_path, number):
    done = network.validate(tmp_path, *OPTIONS, thresholds)
    assert done.suspects == [], done.said
    assert done.code == 0
    assert done.good == network.names


def test_a_host_that_is_cut_off_is_reported(network, thresholds, tmp_path):
    """The cable of a host is pulled while pairs are measured: its rank is named, the job ends."""
    process = network.start(tmp_path, "--only", "--stage", "pairs", "--serial", "--quick", "--time-limit", 6)
    before = network.received(2)
    while process.poll() is None and network.received(2) - before < 2**18:
        pass  # pairs with it are being measured
    assert process.poll() is None, process.communicate()[0]
    network.cut(2)
    done = namespaces.Finished(process, tmp_path)
    assert done.code == 1, done.said
    assert done.suspects == [("node", [2])], done.said
    stage = done.report["stages"][-1]
    assert (stage["name"], stage["outcome"], stage["silent"]) == ("pairs", "hung", [2])
    assert 2 in stage["waiting"].values()
    assert "node2" not in done.good


def test_a_host_with_a_busy_neighbour_is_named(network, tmp_path):
    """Six processes share the core of one host's rank; the other hosts share the other core, one at a time."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core cannot be busy while another is not")
    path = tmp_path / "thresholds.toml"
    path.write_text("[thresholds]\nslowdown = 0.9\ncpu_share = 0.3\n")
    with namespaces.busy(cores[0], 6):
        bound = [cores[1]] * N_HOSTS
        bound[3] = cores[0]
        options = ("--level", "node", "--stage", "compute", "--serial", "--quick", "--thresholds", path)
        done = network.validate(tmp_path, *options, cores=bound)
    assert done.suspects == [], done.said
    (busy,) = done.report["verdict"]["busy"]
    assert busy["node"] == 3
    assert "of their processors" in busy["reasons"][0]
    assert done.code == 2
    assert "node3" not in done.good
