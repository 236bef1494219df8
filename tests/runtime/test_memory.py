"""Free memory, from trees of files as kernels show them."""

import resource
import subprocess
import sys

import pytest

from ridgeline.runtime import machine

GiB = 2**30
MEMINFO = "MemTotal:       99999999 kB\nMemFree: 1 kB\nMemAvailable:   4194304 kB\n"


def tree(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_memory_of_a_machine_without_control_groups(tmp_path):
    root = tree(tmp_path, {"proc/meminfo": MEMINFO})
    assert machine.node_memory_available(root) == 4 * GiB
    assert machine.memory_bytes(root) == resource.getpagesize() * machine.os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_control_group_counts_and_its_cache_is_free(tmp_path, version):
    # A batch system limits the job and not the step in it: the limit stands in a folder above.
    if version == 2:
        line, base, names = "0::/slurm/job_7/step_0\n", "sys/fs/cgroup", ("memory.max", "memory.current", "")
        none = "max\n"
    else:
        line, base = "4:memory:/slurm/job_7/step_0\n", "sys/fs/cgroup/memory"
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        none = "9223372036854771712\n"
    job, step = f"{base}/slurm/job_7", f"{base}/slurm/job_7/step_0"
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": f"9:cpu:/\n{line}",
        f"{step}/{names[0]}": none,
        f"{job}/{names[0]}": f"{2 * GiB}\n",
        f"{job}/{names[1]}": f"{GiB}\n",
        f"{job}/memory.stat": f"anon 5\n{names[2]}inactive_file {GiB // 4}\n",
    }
    root = tree(tmp_path, files)
    assert machine.node_memory_available(root) == GiB + GiB // 4
    assert machine.memory_bytes(root) == 2 * GiB


@pytest.mark.parametrize(
    ("environ", "limit"),
    [
        ({"SLURM_MEM_PER_NODE": "400"}, 400 * 2**20),
        ({"SLURM_MEM_PER_CPU": "100", "SLURM_CPUS_ON_NODE": "3"}, 300 * 2**20),
        ({"SLURM_MEM_PER_GPU": "512", "SLURM_GPUS_ON_NODE": "2"}, GiB),
        ({"SLURM_MEM_PER_NODE": "0"}, 4 * GiB),  # all memory of the node
        ({"SLURM_MEM_PER_NODE": "99999999"}, 4 * GiB),
        ({"SLURM_MEM_PER_CPU": "100"}, 4 * GiB),
    ],
)
def test_the_limit_of_a_job_counts_where_no_control_group_keeps_it(tmp_path, monkeypatch, environ, limit):
    root = tree(tmp_path, {"proc/meminfo": MEMINFO})
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert machine.node_memory_available(root) == limit
    assert machine.memory_bytes(root) == limit or limit == 4 * GiB


def test_nothing_readable_is_no_limit(tmp_path):
    assert machine.node_memory_available(tmp_path) == machine.memory_bytes(tmp_path) > 0


def test_a_limit_of_the_process_is_seen():
    code = (
        "import resource; from ridgeline.runtime import machine\n"
        "before = machine.process_memory_available()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))\n"
        "print(before == machine.UNLIMITED, machine.process_memory_available(), machine.memory_available())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    unlimited, left, available = ran.stdout.split()
    assert unlimited == "True"
    assert 2**31 < int(left) < 2**32
    assert int(available) <= int(left)
