"""Topologies read from TOML, topology.conf, ibnetdiscover and xnames; what is wrong is said in a sentence."""

import numpy as np
import pytest

from ridgeline.runtime.errors import ConfigError
from ridgeline.validate.fabric.fabric import Fabric
from ridgeline.validate.fabric.files import read_fabric
from ridgeline.validate.measure.topology import groups_of_xnames

TOML = """
routing = "dragonfly"
[switches]
s0 = "n[0-1]"
s1 = "n[2-3]"
t0 = "n[4-5]"
t1 = ""
[groups]
g = "s[0-1]"
h = "t[0-1]"
[[link]]
from = "s[0-1]"
to = "s[0-1]"
[[link]]
from = "t[0-1]"
to = "t[0-1]"
[[link]]
from = "s1"
to = "t1"
count = 2
"""
TREE = """
SwitchName=s0 Nodes=n[0-2]
SwitchName=s1 Nodes=n[3-5] LinkSpeed=100
switchname=top Switches=s[0-1]
"""
BLOCKS = "BlockName=b0 Nodes=n[0-2]\nBlockName=b1 Nodes=n[3-5]\nBlockSizes=3\n"
SPINES = TREE + "SwitchName=top2 Switches=s[0-1]\n"
# In the form that the manual page ibnetdiscover(8) shows.
IBNETDISCOVER = """#
# Topology file: generated on Tue Jun  5 14:15:10 2007
#
vendid=0x8f1
devid=0x5a06
switchguid=0x5442ba00003080(5442ba00003080)
Switch  24 "S-005442ba00003080"         # "leaf a" base port 0 lid 6 lmc 0
[22]    "H-0008f10403961354"[1](8f10403961355)         # "n0 HCA-1" lid 4 4xSDR
[10]    "S-0008f10400410015"[1]         # "spine" lid 3 4xSDR
[8]     "H-0008f10403960558"[2](8f1040396055a)         # "n1 mlx5_0" lid 14 4xSDR
[6]     "S-0008f10400410015"[3]         # "spine" lid 3 4xSDR

vendid=0x8f1
switchguid=0x8f10400410015(8f10400410015)
Switch  8 "S-0008f10400410015"          # "spine" base port 0 lid 3 lmc 0
[6]     "H-0008f10403960984"[1](8f10403960985)         # "n2 HCA-1" lid 16 4xSDR
[1]     "S-005442ba00003080"[10]                # "leaf a" lid 6 1xSDR
[3]     "S-005442ba00003080"[6]         # "leaf a" lid 6 4xSDR

vendid=0x2c9
caguid=0x8f10403960984
Ca      2 "H-0008f10403960984"          # "n2 HCA-1"
[1](8f10403960985)     "S-0008f10400410015"[6]         # lid 16 lmc 1 "spine" lid 3 4xSDR
"""
SIX = [f"n{k}" for k in range(6)]


def read(tmp_path, text, name, nodes=SIX):
    path = tmp_path / name
    path.write_text(text)
    return read_fabric(path, nodes)


def joined(fabric: Fabric) -> set[str]:
    return {fabric.link_name(link) for link in range(len(fabric.links))}


def test_toml(tmp_path):
    fabric = read(tmp_path, TOML, "fabric.toml")
    assert joined(fabric) == {"s0 - s1", "t0 - t1", "s1 - t1, 1 of 2", "s1 - t1, 2 of 2"}
    assert fabric.nodes_by_switch() == {"s0": [0, 1], "s1": [2, 3], "t0": [4, 5]}
    assert fabric.nodes_by_group() == {"g": [0, 1, 2, 3], "h": [4, 5]}
    again = Fabric.from_dict(fabric.to_dict())
    assert again.to_dict() == fabric.to_dict()


def test_toml_of_a_torus(tmp_path):
    text = 'routing = "dimension-order"\ndimensions = [3, 2]\n[switches]\n'
    text += "\n".join(f'r{k} = "n{k}"' for k in range(6))
    fabric = read(tmp_path, text, "torus.toml")
    assert fabric.coordinates.tolist() == [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]]
    assert len(fabric.links) == 6 + 3


@pytest.mark.parametrize(
    ("text", "links"),
    [
        (TREE, {"s0 - top", "s1 - top"}),
        (SPINES, {"s0 - top", "s1 - top", "s0 - top2", "s1 - top2"}),
        (BLOCKS, {"b0 - core", "b1 - core"}),
    ],
)
def test_topology_conf(tmp_path, text, links):
    fabric = read(tmp_path, text, "topology.conf")
    assert joined(fabric) == links
    assert list(fabric.nodes_by_switch().values()) == [[0, 1, 2], [3, 4, 5]]


def test_ibnetdiscover(tmp_path):
    fabric = read(tmp_path, IBNETDISCOVER, "fabric.txt", ["n0", "n1", "n2"])
    assert fabric.nodes_by_switch() == {"leaf a": [0, 1], "spine": [2]}
    assert joined(fabric) == {"leaf a - spine, 1 of 2", "leaf a - spine, 2 of 2"}


def test_xnames_say_cabinets_or_chassis():
    nodes = [f"x100{k}c{c}s0b0n0" for k in range(3) for c in range(2)]
    assert groups_of_xnames(nodes) == {"x1000": [0, 1], "x1001": [2, 3], "x1002": [4, 5]}
    assert list(groups_of_xnames(nodes[:4])) == ["x1000c0", "x1000c1", "x1001c0", "x1001c1"]
    with pytest.raises(ConfigError, match="the host nid1 has no name of HPE Cray EX"):
        groups_of_xnames(["nid1"])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("f.toml", TOML.replace("routing", "routng"), "unknown key 'routng'. Did you mean 'routing'?"),
        ("f.toml", TOML.replace('"dragonfly"', '"valiant"'), "must be one of minimal, dragonfly"),
        ("f.toml", TOML.replace('h = "t[0-1]"', 'h = "t0"'), "each switch is in one of [groups]"),
        ("f.toml", TOML.replace('to = "t1"', 'to = "t7"'), "'t7', which is not in [switches]"),
        ("f.toml", TOML.replace("count = 2", "count = 0"), "whole number from 1 to 1000"),
        ("f.toml", TOML.replace("n[4-5]", "n4"), "node n5 of this job is in none"),
        ("f.toml", TOML.replace('"n[4-5]"', '"n[3-5]"'), "host n3 is attached to s1 and to t0"),
        ("f.toml", "[groups]\n", "[switches] is missing"),
        ("f.toml", 'routing = "dimension-order"\n[switches]\na = "n[0-5]"\n', "requires dimensions"),
        ("f.txt", "nothing\n", "is no topology"),
        ("topology.conf", TREE.replace("n[3-5]", "n[3-4]"), "node n5 of this job"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, name, text, words):
    with pytest.raises(ConfigError) as error:
        read(tmp_path, text, name)
    assert words in str(error.value)


def test_a_host_with_a_domain_is_found(tmp_path):
    fabric = read(tmp_path, TREE, "topology.conf", [f"n{k}.site.org" for k in range(6)])
    assert np.bincount(fabric.switch_of).tolist() == [3, 3]
