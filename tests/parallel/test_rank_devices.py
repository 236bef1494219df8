"""Which interface and GPU a rank uses, by its variables or by where its cores are."""

import pytest

from one_rank import OneRank
from ridgeline.parallel import rank_devices
from ridgeline.parallel.layout import Layout
from ridgeline.parallel.rank_devices import (
    RankDevices,
    domain_of,
    find_rank_devices,
    named_interface,
    ranks_on_interfaces,
    visible_gpu,
)
from ridgeline.runtime.node_topology import Nic, NodeTopology, NumaDomain

NICS = [Nic(f"cxi{n}", n // 2) for n in range(4)]
NODE = NodeTopology([NumaDomain(d, [(2 * d,), (2 * d + 1,)], {1 - d: 20}) for d in (0, 1)], NICS)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (None, "")),
        ({"FI_CXI_DEVICE_NAME": "cxi3"}, ("cxi3", "FI_CXI_DEVICE_NAME")),
        ({"FI_CXI_DEVICE_NAME": "cxi0,cxi1"}, (None, "")),
        ({"UCX_NET_DEVICES": "mlx5_2:1"}, ("mlx5_2", "UCX_NET_DEVICES")),
        ({"UCX_NET_DEVICES": "all"}, (None, "")),
        (
            {"MPICH_OFI_NIC_POLICY": "USER", "MPICH_OFI_NIC_MAPPING": "0:0,2; 3:1,3"},
            ("cxi3", "MPICH_OFI_NIC_MAPPING"),
        ),
        ({"MPICH_OFI_NIC_POLICY": "USER", "MPICH_OFI_NIC_MAPPING": "0:0,2;9:1"}, (None, "")),
        ({"MPICH_OFI_NIC_POLICY": "NUMA", "MPICH_OFI_NIC_MAPPING": "3:1"}, (None, "")),
    ],
)
def test_variables_name_the_interface_of_local_rank_1(environ, expected):
    assert named_interface(environ, 1, NICS) == expected


def test_variables_show_one_gpu():
    assert visible_gpu({"CUDA_VISIBLE_DEVICES": "3"}) == "CUDA_VISIBLE_DEVICES=3"
    assert visible_gpu({"CUDA_VISIBLE_DEVICES": "0,1", "ZE_AFFINITY_MASK": "4"}) == "ZE_AFFINITY_MASK=4"
    assert visible_gpu({"CUDA_VISIBLE_DEVICES": ""}) is None


def found(monkeypatch, topology, cpus, local_rank=0, environ=()):
    """Return what the rank with this local number finds on a node of two ranks, with cores of both alike."""
    monkeypatch.setattr(rank_devices, "read_sysfs", lambda: topology)
    monkeypatch.setattr(rank_devices, "usable_cores", lambda: cpus)
    for name in ("FI_CXI_DEVICE_NAME", "UCX_NET_DEVICES", "MPICH_OFI_NIC_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in dict(environ).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rank_devices, "allgather_shared", lambda _, mine: [mine, mine])
    return find_rank_devices(OneRank(2, local_rank), Layout((0, 0), (0, 1), ("n",)))[0]


def test_a_rank_that_is_bound_to_a_domain_uses_an_interface_of_the_domain(monkeypatch):
    assert domain_of({2, 3}, NODE) == 1
    assert domain_of({1, 2}, NODE) is None
    for local_rank, name in ((0, "cxi2"), (1, "cxi3")):
        of_rank = found(monkeypatch, NODE, {2, 3}, local_rank)
        assert (of_rank.interface, of_rank.source) == (name, "the nearest to its cores")
    assert found(monkeypatch, NODE, {0, 3}).interface is None  # not bound: nobody knows
    told = found(monkeypatch, NODE, {2}, environ={"FI_CXI_DEVICE_NAME": "cxi0"})
    assert (told.interface, told.source) == ("cxi0", "FI_CXI_DEVICE_NAME")


def test_other_nodes(monkeypatch):
    domains = NODE.domains
    only = found(monkeypatch, NodeTopology(domains, [Nic("eth0", None)]), {0, 1, 2, 3})
    assert (only.interface, only.source) == ("eth0", "the only one of the node")
    assert found(monkeypatch, NodeTopology(domains, []), {0}).interface is None
    # Ethernet is chosen by address, not by place.
    assert found(monkeypatch, NodeTopology(domains, [Nic("eth0", 0), Nic("eth1", 0)]), {0}).interface is None


def test_ports_are_the_first_ranks_on_each_interface():
    layout = Layout((0, 0, 0, 0, 1, 1), (0, 1, 2, 3, 0, 1), ("a", "b"))

    def of(*names):
        return [RankDevices(name, "", None) for name in names]

    def ports(*names):
        return [
            [(ranks[0], name) for name, ranks in of_node.items()]
            for of_node in ranks_on_interfaces(layout, of(*names))
        ]

    assert ranks_on_interfaces(layout, of("x", "x", "y", "y", "x", "y"))[0] == {"x": [0, 1], "y": [2, 3]}
    assert ports("x", "x", "y", "y", "x", "y") == [[(0, "x"), (2, "y")], [(4, "x"), (5, "y")]]
    assert ports(*[None] * 6) == [[(0, "")], [(4, "")]]
    assert ports(None, "x", "x", "y", None, None) == [[(1, "x"), (3, "y")], [(4, "")]]
