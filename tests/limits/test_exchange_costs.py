"""Seconds of exchanges, worked out by hand for a small machine."""

import pytest

from predict_rows import with_figures
from ridgeline.config.machine_file import (
    AllToAllSection,
    MachineFile,
    MachineSection,
    Quantity,
)
from ridgeline.limits.exchange_costs import (
    RankGroup,
    all_to_all,
    efficiency,
    host_copies,
    neighbours,
    sum_over_ranks,
)
from ridgeline.limits.prediction import Allocation, MissingMetric, between

BARE = MachineFile(machine=MachineSection(name="toy"))
NODE = with_figures(BARE, {"links.between_ranks": 10.0, "links.latency": 0.5})
HOSTS = with_figures(NODE, {"network.injection": 8.0, "network.latency": 2.0})
DEVICES = with_figures(
    HOSTS,
    {
        "device.count": 4.0,
        "device.per_package": 2.0,
        "links.between_devices": 10.0,
        "links.between_packages": 20.0,
        "links.efficiency": 0.5,
    },
)


def row(nodes: float, share: float, message: float | None = None) -> AllToAllSection:
    size = None if message is None else Quantity(message, "s")
    return AllToAllSection(nodes=Quantity(nodes, "s"), efficiency=Quantity(share, "s"), message=size)


def test_one_rank_exchanges_nothing() -> None:
    assert all_to_all(Allocation(BARE, 1, 1), RankGroup(1), 1e9, 1) == 0


def test_in_a_node_of_hosts_all_but_a_ranks_own_part_moves() -> None:
    assert all_to_all(Allocation(NODE, 1, 4), RankGroup(4), 80.0, 1) == pytest.approx(80 * 3 / 4 / 10)
    half = with_figures(NODE, {"links.efficiency": 0.5})
    assert all_to_all(Allocation(half, 1, 4), RankGroup(4), 80.0, 1) == pytest.approx(80 * 3 / 4 / 5)


def test_in_a_node_of_devices_what_leaves_a_package_crosses_a_second_link() -> None:
    place = Allocation(DEVICES, 1, 4)
    assert all_to_all(place, RankGroup(2), 80.0, 1) == pytest.approx(40 / 10 / 0.5)
    assert all_to_all(place, RankGroup(4), 80.0, 1) == pytest.approx((60 / 10 + 40 / 20) / 0.5)
    assert all_to_all(place, RankGroup(2, stride=2), 80.0, 1) == pytest.approx((40 / 10 + 40 / 20) / 0.5)


def test_between_nodes_what_leaves_the_node_is_injected_and_messages_cost() -> None:
    machine = with_figures(HOSTS, {"network.message_overhead": 0.25}).model_copy(
        update={"all_to_all": (row(2, 0.5),)}
    )
    place = Allocation(machine, 2, 4)
    leaving, rate = 80 * 4 / 8, 8 * 0.5 / 4
    assert all_to_all(place, RankGroup(8), 80.0, 3) == pytest.approx(leaving / rate + 3 * 4 * 0.25)
    # A column of stride 4 has one rank a node.
    assert all_to_all(place, RankGroup(2, stride=4), 80.0, 1) == pytest.approx(40 / rate + 0.25)


def test_beyond_a_group_the_global_links_bound_the_rate() -> None:
    machine = HOSTS.model_copy(update={"all_to_all": (row(2, 1.0),)})
    machine = with_figures(
        machine, {"network.group_nodes": 4.0, "network.global_bandwidth": 32.0, "network.global_hops": 2.0}
    )
    for nodes, rate in ((4, 8.0), (8, 2.0)):
        seconds = all_to_all(Allocation(machine, nodes, 1), RankGroup(nodes), 80.0, 1)
        assert seconds == pytest.approx(80 * (1 - 1 / nodes) / rate)


def test_efficiency_is_linear_in_the_logarithms_of_size_and_nodes() -> None:
    rows = (row(2, 0.2, 1), row(2, 0.6, 100), row(8, 0.4))
    machine = HOSTS.model_copy(update={"all_to_all": rows})
    assert efficiency(Allocation(machine, 2, 1), 10.0) == pytest.approx(0.4)
    assert efficiency(Allocation(machine, 1, 1), 1e6) == pytest.approx(0.6)
    assert efficiency(Allocation(machine, 4, 1), 1.0) == pytest.approx(0.3)
    assert efficiency(Allocation(machine, 512, 1), 1.0) == pytest.approx(0.4)


def test_between_takes_places_in_any_order() -> None:
    assert between([4.0, 1.0], [30.0, 10.0], 2.0) == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("machine", "nodes", "key"),
    [(BARE, 1, "links.between_ranks"), (BARE, 2, "network.injection"), (HOSTS, 2, "all_to_all")],
)
def test_an_absent_figure_is_named(machine: MachineFile, nodes: int, key: str) -> None:
    with pytest.raises(MissingMetric) as absent:
        all_to_all(Allocation(machine, nodes, 2), RankGroup(2 * nodes), 80.0, 1)
    assert absent.value.key == key


def test_neighbours_of_a_node_and_beyond() -> None:
    assert neighbours(Allocation(HOSTS, 1, 1), 80.0, 2) == 0
    assert neighbours(Allocation(HOSTS, 1, 8), 80.0, 6) == pytest.approx(80 / 10 + 6 * 0.5)
    outside = 0.5 * 80 / (8 / 8) + 0.5 * 6 * 2.0
    assert neighbours(Allocation(HOSTS, 2, 8), 80.0, 6) == pytest.approx(
        outside + 0.5 * 80 / 10 + 0.5 * 6 * 0.5
    )


def test_a_sum_is_measured_or_doubles() -> None:
    assert sum_over_ranks(Allocation(HOSTS, 1, 1)) == 0
    assert sum_over_ranks(Allocation(HOSTS, 4, 8)) == pytest.approx(2 * 2.0 + 3 * 0.5)
    assert sum_over_ranks(Allocation(with_figures(HOSTS, {"network.allreduce": 7.0}), 4, 8)) == 7.0


def test_copies_cost_only_where_the_host_sends() -> None:
    assert host_copies(Allocation(HOSTS, 1, 4), 80.0) == 0
    machine = with_figures(DEVICES, {"links.host_device": 4.0, "links.device_messages": 0.0})
    assert host_copies(Allocation(machine, 1, 4), 80.0) == pytest.approx(40.0)
    assert host_copies(Allocation(with_figures(machine, {"links.device_messages": 1.0}), 1, 4), 80.0) == 0
