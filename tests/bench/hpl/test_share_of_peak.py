"""HPL's share of the peak of a machine file, as in Table 2 of MPI on Aurora."""

from types import SimpleNamespace

import pytest

from ridgeline.bench.hpl.hpl_run import add_share_of_peak, peak_of_node
from ridgeline.config.machine_file import check_machine
from ridgeline.runtime.errors import ConfigError


def machine(tmp_path, *lines):
    return check_machine(tmp_path / "m.toml", "\n".join(["[machine]", 'name = "M"', *lines]))


def test_table_2_of_the_paper():
    """1012 PFLOP/s on 9234 nodes are 78.84 %, and 805.24 on 7200 are 80.46 %, of the same peak of a node."""
    peak = 1012e15 / 9234 / 0.7884
    for nodes, rate, share in ((9234, 1012e15, 0.7884), (7200, 805.24e15, 0.8046), (5439, 585.43e15, 0.7744)):
        result = SimpleNamespace(
            nodes=nodes, notes=[], extra={"solves": [{"n": 1000, "flops_per_second": rate}]}
        )
        add_share_of_peak(result, peak)
        assert result.extra["solves"][0]["fraction_of_peak"] == pytest.approx(share, abs=2e-4)
        assert f"% of the peak of {nodes} nodes" in result.notes[0]


def test_the_peak_is_that_of_what_computes(tmp_path):
    source = 'source = "s"'
    both = machine(
        tmp_path,
        "[node]",
        f'peak = {{ value = 2, unit = "TFLOP/s", {source} }}',
        "[device]",
        f'peak = {{ value = 23, unit = "TFLOP/s", {source} }}',
        f"count = {{ value = 6, {source} }}",
    )
    assert peak_of_node(both, "cpu") == pytest.approx(2e12)
    assert peak_of_node(both, "cuda") == pytest.approx(138e12)
    for device, words in (("cpu", r"\[node\] has no peak"), ("cuda", r"\[device\] has no peak")):
        with pytest.raises(ConfigError, match=words):
            peak_of_node(machine(tmp_path), device)
