"""`ridgeline bind` as a job script calls it."""

import json
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
    assert content["ranks"][1] == {"rank": 1, "domain": 1, "cpus": list(range(8, 16)), "nic": "mlx5_1"}


def test_wrong_requests_end_with_one_sentence(ridgeline):
    done = ridgeline("bind", "--hwloc", HWLOC, "--ranks-per-node", 9)
    assert done.returncode == 2
    assert done.stderr == "error: 9 ranks per node on 8 cores: bind 1 to 8 of them\n"
    both = ridgeline("bind", "--hwloc", HWLOC, "--sysfs", "/sys")
    assert both.returncode == 2
    assert "give one of them" in both.stderr
