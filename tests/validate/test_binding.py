"""Where ranks are bound, on stored nodes: two sockets with eight interfaces, four domains, a virtual machine."""

import json
from itertools import pairwise, product
from pathlib import Path

import pytest

from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.node_topology import (
    NodeTopology,
    format_cpu_list,
    parse_cpu_list,
    read_hwloc,
    read_sysfs,
    this_node,
)
from ridgeline.validate.binding import (
    LAUNCHERS,
    bind_ranks,
    environment,
    launcher_options,
    nearest_nics,
    to_dict,
)

DATA = Path(__file__).parents[1] / "data" / "nodes"


@pytest.fixture
def stored(tmp_path: Path):
    """Return a function that unpacks a stored sysfs tree and gives its folder."""

    def unpack(name: str) -> Path:
        root = tmp_path / name
        for line in (DATA / f"{name}.txt").read_text().splitlines():
            path, content = line.split("\t")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content + "\n")
        return root

    return unpack


@pytest.fixture
def aurora(stored) -> NodeTopology:
    return read_sysfs(stored("two_sockets_eight_nics"))


def test_cpu_lists_round_trip():
    assert parse_cpu_list("0-3,8,10-11\n") == [0, 1, 2, 3, 8, 10, 11]
    assert format_cpu_list([11, 10, 8, 0, 1, 2, 3]) == "0-3,8,10-11"
    assert parse_cpu_list("") == []
    with pytest.raises(ConfigError, match="'0-x' is not a list of CPUs"):
        parse_cpu_list("0-x")


def test_two_sockets_with_eight_interfaces_are_read_as_the_paper_says(aurora):
    assert [domain.number for domain in aurora.domains] == [0, 1]
    assert [len(domain.cores) for domain in aurora.domains] == [52, 52]
    assert aurora.domains[1].cores[0] == (52, 156)
    assert [(nic.name, nic.domain) for nic in aurora.nics] == [(f"cxi{i}", i // 4) for i in range(8)]


def test_ranks_that_can_have_an_interface_of_their_own_get_one_in_their_domain(aurora):
    for n in (1, 2, 3, 4, 6, 8):
        bindings = bind_ranks(aurora, n)
        nics = [b.nic for b in bindings]
        assert len(set(nics)) == n, f"{n=}"
        domain_of = {nic.name: nic.domain for nic in aurora.nics}
        assert all(domain_of[b.nic] == b.domain for b in bindings), f"{n=}"
        assert abs(sum(b.domain == 0 for b in bindings) - n / 2) <= 0.5, f"{n=}"


def test_ranks_share_no_core_and_stay_in_their_domain(aurora):
    for n, smt in product([1, 2, 5, 7, 8, 12, 16, 33, 96, 104], [True, False]):
        case = f"{n=}, {smt=}"
        bindings = bind_ranks(aurora, n, smt=smt)
        every = [cpu for b in bindings for cpu in b.cpus]
        assert len(every) == len(set(every)), case
        for b in bindings:
            inside = {cpu for core in aurora.domains[b.domain].cores for cpu in core}
            assert b.cpus, case
            assert set(b.cpus) <= inside, case
            assert len({cpu % 104 for cpu in b.cpus}) * (2 if smt else 1) == len(b.cpus), case  # whole cores
        if n >= 2:
            assert len(every) == (208 if smt else 104), case
        sizes = {len(b.cpus) // (2 if smt else 1) for b in bindings if b.domain == 0}
        assert max(sizes) - min(sizes) <= 1, case


def test_sixteen_ranks_are_two_to_an_interface_as_in_the_bandwidth_test(aurora):
    nics = [b.nic for b in bind_ranks(aurora, 16)]
    assert nics == [f"cxi{i // 2}" for i in range(16)]


def test_options_of_every_launcher_on_the_paper_s_node(aurora):
    bindings = bind_ranks(aurora, 2, reserve=1)
    assert launcher_options(bindings, "pals") == "--ppn 2 --cpu-bind list:1-51,105-155:53-103,157-207"
    few = bind_ranks(aurora, 4, smt=False)
    assert [format_cpu_list(b.cpus) for b in few] == ["0-25", "26-51", "52-77", "78-103"]
    masks = launcher_options(few, "srun").split("mask_cpu:")[1].split(",")
    assert [int(mask, 16) for mask in masks] == [((1 << 26) - 1) << (26 * i) for i in range(4)]
    assert launcher_options(few, "mpiexec").startswith("-ppn 4 -bind-to user:0+1+2+")
    assert launcher_options(few, "pbs") == "-l select=NODES:ncpus=104:mpiprocs=4 -l place=scatter:excl"
    assert environment(bind_ranks(aurora, 16), aurora.nics) == {
        "MPICH_OFI_NIC_POLICY": "USER",
        "MPICH_OFI_NIC_MAPPING": ";".join(f"{i}:{2 * i},{2 * i + 1}" for i in range(8)),
    }
    with pytest.raises(ConfigError, match=r"'lsf' is not a known launcher\. Known launchers: mpiexec, pals"):
        launcher_options(few, "lsf")


def test_default_is_one_rank_for_each_interface_or_domain(aurora, stored):
    assert len(bind_ranks(aurora)) == 8
    assert len(bind_ranks(read_sysfs(stored("virtual_machine")))) == 1


def test_one_interface_does_not_draw_all_ranks_into_its_domain(stored):
    node = read_sysfs(stored("four_domains_one_nic"))
    assert [nic.name for nic in node.nics] == ["mlx5_0"]  # neither its twin ib0 nor Ethernet
    assert [len(domain.cores) for domain in node.domains] == [8, 7, 8, 8]  # CPU 10 is off
    assert [b.domain for b in bind_ranks(node, 1)] == [2]
    bindings = bind_ranks(node, 8)
    assert [b.domain for b in bindings] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {b.nic for b in bindings} == {"mlx5_0"}
    assert 10 not in {cpu for b in bind_ranks(node, 31) for cpu in b.cpus}


def test_a_domain_without_interface_takes_the_nearest(aurora):
    near_only = NodeTopology(aurora.domains, [nic for nic in aurora.nics if nic.domain == 1])
    assert [nic.name for nic in nearest_nics(aurora.domains[0], near_only)] == [
        "cxi4",
        "cxi5",
        "cxi6",
        "cxi7",
    ]


def test_a_virtual_machine_without_numa(stored):
    node = read_sysfs(stored("virtual_machine"))
    assert [(domain.number, domain.cores) for domain in node.domains] == [(0, [(0,), (1,), (2,), (3,)])]
    assert [b.cpus for b in bind_ranks(node, 2)] == [(0, 1), (2, 3)]
    assert {b.nic for b in bind_ranks(node, 2)} == {"eth0"}
    assert environment(bind_ranks(node, 2), node.nics) == {}


def test_hwloc_s_xml_tells_the_same_as_sysfs_would():
    node = read_hwloc(DATA / "two_sockets_hwloc.xml")
    assert [(d.number, d.cores[0], len(d.cores)) for d in node.domains] == [(0, (0, 1), 4), (1, (8, 9), 4)]
    assert [(nic.name, nic.domain) for nic in node.nics] == [("mlx5_0", 0), ("mlx5_1", 1)]
    assert [b.nic for b in bind_ranks(node, 2)] == ["mlx5_0", "mlx5_1"]


def test_only_the_cores_of_the_job_are_bound(aurora):
    part = aurora.only([0, 1, 104, 60])
    assert [domain.cores for domain in part.domains] == [[(0, 104), (1,)], [(60,)]]
    assert len(bind_ranks(part, 3)) == 3


def test_this_node_can_be_bound():
    bindings = bind_ranks(this_node(), 1)
    assert bindings[0].cpus


def check_refusal(node, n, reserve, words):
    with pytest.raises(ConfigError, match=words):
        bind_ranks(node, n, reserve)


def test_more_ranks_than_cores_are_refused(aurora):
    check_refusal(aurora, 105, 0, "--ranks-per-node 105: the node has 104 cores")
    check_refusal(aurora, 0, 0, "--ranks-per-node 0: ")
    check_refusal(aurora, 1, 52, "no core is left")


def test_bad_input_is_one_sentence(tmp_path):
    with pytest.raises(OutputError, match="shows no CPU"):
        read_sysfs(tmp_path)
    with pytest.raises(OutputError, match="cannot read"):
        read_hwloc(tmp_path / "none.xml")
    (tmp_path / "bad.xml").write_text("<topology>")
    with pytest.raises(ConfigError, match="is not XML"):
        read_hwloc(tmp_path / "bad.xml")
    (tmp_path / "empty.xml").write_text("<topology/>")
    with pytest.raises(ConfigError, match="no NUMA domain"):
        read_hwloc(tmp_path / "empty.xml")


def test_json_names_every_launcher(aurora):
    content = json.loads(json.dumps(to_dict(bind_ranks(aurora, 3), aurora.nics)))
    assert set(content["options"]) == set(LAUNCHERS)
    assert [row["rank"] for row in content["ranks"]] == [0, 1, 2]
    assert all(a["cpus"][0] < b["cpus"][0] for a, b in pairwise(content["ranks"]))
