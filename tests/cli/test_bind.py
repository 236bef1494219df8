"""`ridgeline bind` as a job script calls it."""

import json
import re
from pathlib import Path

HWLOC = Path(__file__).parents[1] / "data" / "nodes" / "two_sockets_hwloc.xml"


def test_options_of_one_launcher_are_all_that_is_printed(ridgeline):
    done = ridgeline("bind", "--hwloc", HWLOC, "--ranks-per-node", 2, "--for", "pals")
    assert (done.returncode, done.stdout) == (0, "--ppn 2 --cpu-bind list:0-7:8-15\n")


def test_all_launchers_and_json(ridgeline):
    done = ridgeline("bind", "--hwloc", HWLOC, "--no-smt")
    assert done.returncode == 0
    for text in ("mlx5_1", "mpiexec: -ppn 2 -bind-to user:0+2+4+6,8+10+12+14", "srun: ", "pbs: "):
        assert text in done.stdout
    content = json.loads(ridgeline("bind", "--hwloc", HWLOC, "--json").stdout)
    assert content["ranks"][1] == {
        "rank": 1,
        "domain": 1,
        "cpus": list(range(8, 16)),
        "nic": "mlx5_1",
        "gpu": None,
        "environment": {"UCX_NET_DEVICES": "mlx5_1:1", "FI_VERBS_DEVICE_NAME": "mlx5_1"},
    }


def test_the_commands_of_the_documents_work_on_any_machine(ridgeline):
    """Also on one with two cores: no example asks for a number of ranks."""
    root = Path(__file__).parents[2]
    found = []
    for page in (
        root / "README.md",
        *(root / "docs").glob("*.md"),
        root / "src/ridgeline/cli/machine_commands.py",
    ):
        found += re.findall(r"^[^`\n]*ridgeline (bind\b[^)#>\n]*)", page.read_text(), re.MULTILINE)
    assert len(found) >= 3
    for command in {" ".join(line.split()) for line in found}:
        done = ridgeline(*command.split())
        assert (done.returncode, done.stderr) == (0, ""), command


def test_wrong_requests_end_with_one_sentence(ridgeline):
    done = ridgeline("bind", "--hwloc", HWLOC, "--ranks-per-node", 9)
    assert done.returncode == 2
    assert done.stderr == (
        "error: --ranks-per-node 9: the node has 8 cores. Choose from 1 to 8, or leave the option out to get as many "
        "ranks as fit.\n"
    )
    none = ridgeline("bind", "--hwloc", HWLOC, "--reserve", 4)
    assert none.stderr == "error: --reserve 4: no core is left for a rank. Reserve fewer cores.\n"
    both = ridgeline("bind", "--hwloc", HWLOC, "--sysfs", "/sys")
    assert both.returncode == 2
    assert "Give one of them" in both.stderr
