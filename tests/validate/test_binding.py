"""Where ranks are bound, on stored nodes: two sockets with eight interfaces, four domains, a virtual machine."""

import json
import os
import subprocess
from itertools import pairwise, product
from pathlib import Path

import pytest

from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.node_topology import (
    NodeTopology,
    format_cpu_list,
    nearest_nics,
    parse_cpu_list,
    read_hwloc,
    read_sysfs,
    this_node,
)
from ridgeline.validate.binding import (
    LAUNCHERS,
    LOCAL_RANKS,
    bind_ranks,
    bind_script,
    environment,
    launcher_options,
    rank_environment,
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


def device(root: Path, place: str, domain: int, vendor: str = "", code: str = "", lanes: int = 16) -> Path:
    """Add a PCI device at its place below /sys/devices; return its folder."""
    folder = root / "devices" / place
    folder.mkdir(parents=True)
    files = {"numa_node": domain, "vendor": f"0x{vendor}", "class": f"0x{code}", "max_link_width": lanes}
    for name, content in files.items():
        (folder / name).write_text(f"{content}\n")
    bus = root / "bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    (bus / folder.name).symlink_to(folder)
    return folder


def interface(root: Path, kind: str, name: str, folder: Path, port: str = "") -> None:
    (root / f"class/{kind}/{name}").mkdir(parents=True)
    (root / f"class/{kind}/{name}/device").symlink_to(folder)
    if port:
        (root / f"class/{kind}/{name}/ports/{port}").mkdir(parents=True)


@pytest.fixture
def node_of_aurora(stored) -> NodeTopology:
    """Two sockets, each with 4 interfaces and 3 GPUs, on as many buses; and a display that does not compute."""
    root = stored("two_sockets_eight_nics")
    for number in range(8):
        numa = root / f"class/cxi/cxi{number}/device/numa_node"
        numa.unlink()
        numa.parent.rmdir()
        folder = device(root, f"pci0000:{number:x}0/0000:{number:x}1:00.0", number // 4, "17db", "020000")
        numa.parent.symlink_to(folder)
    for number, bus in enumerate((3, 1, 0, 4, 6, 5)):
        device(root, f"pci0000:{bus}0/0000:{bus}8:00.0", number // 3, "8086", "038000")
    device(root, "pci0000:00/0000:09:00.0", 0, "1a03", "030000", lanes=1)
    return read_sysfs(root)


def test_eight_interfaces_and_six_gpus_by_their_bus(node_of_aurora):
    assert [(gpu.number, gpu.address) for gpu in node_of_aurora.gpus] == [
        (0, "0000:08:00.0"),
        (1, "0000:18:00.0"),
        (2, "0000:38:00.0"),
        (3, "0000:48:00.0"),
        (4, "0000:58:00.0"),
        (5, "0000:68:00.0"),
    ]
    bindings = bind_ranks(node_of_aurora)
    # Interfaces 2 and 7 have no GPU on their bus: their ranks share the nearest in place of the same socket.
    assert [(b.nic, b.gpu) for b in bindings] == [
        ("cxi0", 0),
        ("cxi1", 1),
        ("cxi2", 1),
        ("cxi3", 2),
        ("cxi4", 3),
        ("cxi5", 4),
        ("cxi6", 5),
        ("cxi7", 5),
    ]
    for n in (1, 5, 6, 7, 12, 24, 96):
        counts = [sum(b.gpu == gpu for b in bind_ranks(node_of_aurora, n)) for gpu in range(6)]
        assert sum(counts) == n
        assert max(counts) - min(counts) <= 1, n
        assert all((b.gpu // 3) == b.domain for b in bind_ranks(node_of_aurora, n)), n
    assert rank_environment(bindings[5], node_of_aurora) == {
        "FI_CXI_DEVICE_NAME": "cxi5",
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
        "ZE_AFFINITY_MASK": "4",
    }


def test_one_interface_and_four_gpus(stored):
    root = stored("four_domains_one_nic")
    for number in range(4):
        device(root, f"pci0000:{number}0/0000:{number}1:00.0", 3 - number, "10de", "030200")
    (root / "class/infiniband/mlx5_0/ports/1").mkdir(parents=True)
    node = read_sysfs(root)
    bindings = bind_ranks(node)
    assert [(b.domain, b.nic, b.gpu) for b in bindings] == [(d, "mlx5_0", 3 - d) for d in range(4)]
    assert rank_environment(bindings[0], node) == {
        "UCX_NET_DEVICES": "mlx5_0:1",
        "FI_VERBS_DEVICE_NAME": "mlx5_0",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "3",
    }


def test_a_node_without_interface_and_gpu(stored):
    root = stored("virtual_machine")
    (root / "class/net/eth0/device/numa_node").unlink(missing_ok=True)
    node = NodeTopology(read_sysfs(root).domains, [])
    bindings = bind_ranks(node)
    assert [(b.nic, b.gpu) for b in bindings] == [(None, None)]
    assert rank_environment(bindings[0], node) == {}
    assert bind_script(bindings, node) == '#!/bin/sh\nexec "$@"\n'


def test_the_script_gives_each_rank_its_interface_and_gpu(node_of_aurora, tmp_path):
    path = tmp_path / "bind.sh"
    path.write_text(bind_script(bind_ranks(node_of_aurora), node_of_aurora))

    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", str(path), "sh", "-c", "echo $FI_CXI_DEVICE_NAME $ZE_AFFINITY_MASK"]
        environ = {"PATH": os.environ["PATH"]} | variables
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30, check=False)

    for name in LOCAL_RANKS:
        assert run(**{name: "6"}).stdout == "cxi6 5\n"
    # The launcher shows the rank one GPU, or all.
    assert run(SLURM_LOCALID="6", ZE_AFFINITY_MASK="0").stdout == "cxi6 0\n"
    assert run(SLURM_LOCALID="6", ZE_AFFINITY_MASK="0,1,2,3,4,5").stdout == "cxi6 5\n"
    # mpiexec inside a batch script of Slurm
    assert run(SLURM_LOCALID="0", MPI_LOCALRANKID="7").stdout == "cxi7 5\n"
    assert "the launcher sets none of MPI_LOCALRANKID" in run().stderr
    assert "the script was made for 8 ranks a node" in run(SLURM_LOCALID="8").stderr
    assert run(SLURM_LOCALID="8").returncode == 1


def test_gpus_in_hwloc_s_xml(tmp_path):
    text = (DATA / "two_sockets_hwloc.xml").read_text()
    gpu = '<object type="PCIDev" pci_busid="0000:{}:00.0" pci_type="{} [{}:2330] [0:0] a1" gp_index="9"/>\n'
    bridge = '<object type="Bridge" gp_index="40"'
    assert bridge in text
    text = text.replace(
        bridge, gpu.format("a1", "0302", "10de") + gpu.format("05", "0300", "1a03") + bridge, 1
    )
    (tmp_path / "node.xml").write_text(text)
    node = read_hwloc(tmp_path / "node.xml")
    assert [(g.number, g.address, g.vendor, g.domain) for g in node.gpus] == [(0, "0000:a1:00.0", "10de", 0)]
    assert [b.gpu for b in bind_ranks(node, 2)] == [0, 0]


def test_json_names_every_launcher(aurora):
    content = json.loads(json.dumps(to_dict(bind_ranks(aurora, 3), aurora)))
    assert set(content["options"]) == set(LAUNCHERS)
    assert [row["rank"] for row in content["ranks"]] == [0, 1, 2]
    assert all(a["cpus"][0] < b["cpus"][0] for a, b in pairwise(content["ranks"]))
