"""Lists of hosts and groups as people and batch systems write them, and what is said of wrong ones."""

import json

import pytest

from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.validate.measure.hosts import check_hosts, expand, number_groups, read_groups, read_hosts
from ridgeline.validate.measure.topology import (
    find_groups,
    groups_of_addresses,
    groups_of_names,
    groups_of_pbs,
)

NODES = ["n01", "n02", "n03", "n04.cluster", "n04.cluster#2"]


def test_lists_in_slurm_s_notation():
    assert expand("n[01-03,7],gpu2") == ["n01", "n02", "n03", "n7", "gpu2"]
    assert expand("r[1-2]c[08-09]") == ["r1c08", "r1c09", "r2c08", "r2c09"]
    with pytest.raises(ConfigError, match="a bracket is not closed"):
        expand("n[1-3")
    with pytest.raises(ConfigError, match=r"\[3-1\] is not a list of numbers"):
        expand("n[3-1]")


def test_hostfiles_of_several_launchers(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("\ufeffn[01-02]\n# spare: n09\nn03:4\nn04 slots=8\n\nn01\n")
    assert read_hosts(path) == ["n01", "n02", "n03", "n04"]
    check_hosts(read_hosts(path), NODES, "hosts")


def test_a_hostfile_of_another_job_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"hosts: host n1 has no rank in this job\. Did you mean 'n01'\?"):
        check_hosts(["n1", "n01"], NODES, "hosts")
    with pytest.raises(ConfigError, match="does not name n03, n04"):
        check_hosts(["n01", "n02"], NODES, "hosts")
    (tmp_path / "empty").write_text("# nobody\n")
    with pytest.raises(ConfigError, match="names no host"):
        read_hosts(tmp_path / "empty")
    with pytest.raises(OutputError, match="cannot read"):
        read_hosts(tmp_path / "none")


def test_groups_of_a_file_and_of_slurm_s_topology(tmp_path):
    path = tmp_path / "groups"
    path.write_text("rack1: n[01-02]\nrack2: n03 n04\n")
    assert number_groups(read_groups(path), NODES, "groups") == {"rack1": [0, 1], "rack2": [2, 3, 4]}
    path.write_text(
        "SwitchName=s0 Nodes=n[01-02]\nSwitchName=s1 Nodes=n[03-04]\nSwitchName=top Switches=s[0-1]\n"
    )
    assert read_groups(path) == {"s0": ["n01", "n02"], "s1": ["n03", "n04"]}


@pytest.mark.parametrize(
    "text",
    [
        "switchname=s0 nodes=n[01-02] LINKSPEED=100\nSWITCHNAME=s1 NODES=n[03-04]\nswitchname=top switches=s[0-1]\n",
        "BlockName=s0 Nodes=n[01-02]\nBlockName=s1 Nodes=n[03-04]\nBlockSizes=2,4\n",
        "SwitchName=s0 \\\n  Nodes=n01,\\\nn02 # the first\nSwitchName=s1 Nodes=n[03-04]# the second \\\n",
        '\ufeffSwitchName = s0 Nodes="n[01-02]"\r\nSwitchName=s1\tNodes = n03,n04\r\n',
    ],
    ids=["any case", "blocks", "continued lines", "spaces and quotes"],
)
def test_slurm_s_topology_as_sites_write_it(tmp_path, text):
    (tmp_path / "topology.conf").write_text(text, encoding="utf-8")
    assert read_groups(tmp_path / "topology.conf") == {"s0": ["n01", "n02"], "s1": ["n03", "n04"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n01 n02\n", r"is not a group\. Write"),
        ("a: n01\nb: n01\n", "host n01 is in two groups, a and b"),
        ("# none\n", "names no group"),
        ("BlockSizes=2\n", "names no group"),
        ("racks n01=2\n", r"is not a group\. Write"),
    ],
)
def test_wrong_files_of_groups(tmp_path, text, words):
    (tmp_path / "groups").write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_groups(tmp_path / "groups")


def test_a_node_in_no_group_is_named():
    with pytest.raises(ConfigError, match=r"node n03 of this job is in none of the 1 groups"):
        number_groups({"a": ["n01", "n02", "n04"]}, NODES, "groups")


def test_switches_that_slurm_tells_each_task():
    addresses = ["s0.s1.n01", "s0.s1.n02", "s0.s2.n03"]
    assert groups_of_addresses(addresses, ["switch.switch.node"] * 3) == {"s1": [0, 1], "s2": [2]}
    assert groups_of_addresses(["n01", "n02"], ["node", "node"]) == {}
    assert groups_of_addresses(["", ""], ["", ""]) == {}


def test_resources_of_pbs():
    vnodes = {
        "nodes": {
            "n01": {"resources_available": {"host": "n01", "rack": "r1"}},
            "n02[0]": {"Mom": "n02", "resources_available": {"rack": "r2", "ncpus": 4}},
            "n02[1]": {"Mom": "n02", "resources_available": {"rack": "r2"}},
        }
    }
    assert groups_of_pbs(vnodes, "rack") == {"r1": ["n01"], "r2": ["n02"]}
    with pytest.raises(
        ConfigError, match=r"no PBS node has the resource 'switch'\. Known resources: host, ncpus, rack"
    ):
        groups_of_pbs(vnodes, "switch")
    asked = []

    def run(command):
        asked.append(command)
        return json.dumps(vnodes)

    assert find_groups(["n01", "n02"], "pbs:rack", None, [("", "")] * 2, run) == {"r1": [0], "r2": [1]}
    assert asked == [("pbsnodes", "-av", "-F", "json")]
    with pytest.raises(ConfigError, match="fails here"):
        find_groups(["n01"], "pbs:rack", None, [("", "")], lambda command: None)


def test_groups_by_parts_of_names():
    nodes = ["x1000c0s1b0", "x1000c0s2b0", "x1000c1s0b0"]
    assert groups_of_names(nodes, r"x\d+c\d+") == {"x1000c0": [0, 1], "x1000c1": [2]}
    assert groups_of_names(nodes, r"s(\d+)") == {"1": [0], "2": [1], "0": [2]}
    with pytest.raises(ConfigError, match="matches nothing in the host name x1000c0s1b0"):
        groups_of_names(nodes, "rack")
    with pytest.raises(ConfigError, match="is not a regular expression"):
        groups_of_names(nodes, "x[")
