"""More ranks than a machine can take are refused before a launcher is called."""

import re

import pytest

from ridgeline.runtime import launcher
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.launcher import OVERSUBSCRIBE, RANK_BYTES, check_ranks, nodes_of_job
from ridgeline.runtime.machine import oversubscription


@pytest.fixture
def machine(monkeypatch):
    """Give the machine some cores and some memory."""

    def make(cores, memory=10**15):
        monkeypatch.setattr(launcher, "cores_available", lambda: cores)
        monkeypatch.setattr(launcher, "node_memory_available", lambda: memory)

    return make


@pytest.mark.parametrize(("cores", "most"), [(1, 16), (2, 16), (4, 16), (5, 20), (64, 256)])
def test_four_ranks_on_a_core_or_sixteen_are_the_most(machine, cores, most):
    machine(cores)
    check_ranks(most, {})
    with pytest.raises(
        ConfigError,
        match=rf"^{most + 1} ranks .* are more than the {most} .* {cores} usable cores\. Use -n {cores} ",
    ):
        check_ranks(most + 1, {})
    check_ranks(most + 1, {OVERSUBSCRIBE: "1"})


def test_memory_is_a_limit_that_no_option_lifts(machine):
    machine(64, 100 * RANK_BYTES)
    check_ranks(100, {})
    for environ in ({}, {OVERSUBSCRIBE: "1"}):
        with pytest.raises(
            ConfigError, match=r"101 ranks .* need 10.1 GB .* 10 GB are free\. Use at most -n 100"
        ):
            check_ranks(101, environ)


def test_the_nodes_of_a_batch_job_share_the_ranks(machine, tmp_path):
    machine(2)
    file = tmp_path / "nodes"
    file.write_text("one\none\ntwo:4\nthree slots=8\n\n")
    assert nodes_of_job({"PBS_NODEFILE": str(file)}) == 3
    assert nodes_of_job({"PBS_NODEFILE": str(tmp_path / "none")}) == nodes_of_job({}) == 1
    assert nodes_of_job({"SLURM_JOB_NUM_NODES": "many"}) == 1
    check_ranks(64, {"SLURM_JOB_NUM_NODES": "4"})
    with pytest.raises(
        ConfigError, match=r"65 ranks .*, 17 on each of 4 nodes, are more than the 16 .* Use -n 8 "
    ):
        check_ranks(65, {"SLURM_JOB_NUM_NODES": "4"})


@pytest.mark.parametrize(
    ("ranks", "threads", "advice"),
    [
        (1, 3, r"1 rank x 3 threads share 2 cores, so the cores are oversubscribed .*\. Use --threads 2\.$"),
        (4, 1, r"4 ranks x 1 thread share 2 cores, .*\. Use -n 2\.$"),
        (2, 2, r"\. Use -n 1 or --threads 1\.$"),
        (3, 3, r"\. Use -n 2 --threads 1\.$"),
        (8, 2, r"\. Use -n 1\.$"),
    ],
)
def test_the_warning_advises_what_fits(ranks, threads, advice):
    assert re.search(advice, str(oversubscription(ranks, threads, 2)))


def test_as_many_threads_as_cores_are_no_reason_to_warn():
    assert oversubscription(2, 2, 4) is None
