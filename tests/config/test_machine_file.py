"""Machine files: figures with units and sources, every fault named, and text that reads back as it was written."""

from pathlib import Path

import pytest

from ridgeline.config.machine_file import Quantity, check_machine, machine_text, read_machine_file
from ridgeline.runtime.errors import ConfigError

WHOLE = """
[machine]
name = "toy"

[node]
memory_bandwidth = { value = 40, unit = "GB/s", source = "STREAM" }
memory = { value = 2, unit = "GiB", source = "the maker" }

[network]
topology = "fat tree"
latency = { value = 1.5, unit = "us", source = "ping-pong" }

[[all_to_all]]
nodes = { value = 4, source = "measured" }
message = { value = 1, unit = "MiB", source = "measured" }
efficiency = { value = 0.5, source = "measured" }
"""


def faults(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        check_machine(Path("toy.toml"), text)
    return str(error.value)


def test_figures_are_in_si_units_and_keep_their_source() -> None:
    machine = check_machine(Path("toy.toml"), WHOLE)
    assert machine.node.memory_bandwidth == Quantity(40e9, "STREAM")
    assert machine.node.memory == Quantity(2.0 * 2**30, "the maker")
    assert machine.network.latency is not None
    assert machine.network.latency.value == pytest.approx(1.5e-6)
    assert machine.all_to_all[0].message == Quantity(2.0**20, "measured")
    assert machine.node.peak is None


def test_a_missing_name_is_named() -> None:
    assert "toy.toml: machine.name is missing." in faults("[node]\n")


@pytest.mark.parametrize(
    "figure",
    [
        '{ value = 40, unit = "GB", source = "STREAM" }',
        '{ value = 40, unit = "GB/s" }',
        '{ value = 40, source = "STREAM" }',
        '{ value = -1, unit = "GB/s", source = "STREAM" }',
        '{ value = inf, unit = "GB/s", source = "STREAM" }',
        '{ value = nan, unit = "GB/s", source = "STREAM" }',
        '{ value = 1e31, unit = "GB/s", source = "STREAM" }',
        '{ value = true, unit = "GB/s", source = "STREAM" }',
        '{ value = "40", unit = "GB/s", source = "STREAM" }',
        '{ value = 40, unit = ["GB/s"], source = "STREAM" }',
        '{ value = 40, unit = "GB/s", source = " " }',
        '{ value = 40, unit = "GB/s", source = "STREAM", error = 1 }',
        "40",
    ],
)
def test_a_figure_without_unit_or_source_is_refused_at_its_line(figure: str) -> None:
    said = faults(f'[machine]\nname = "toy"\n[node]\nmemory_bandwidth = {figure}\n')
    assert said.startswith("toy.toml:4: node.memory_bandwidth is ")
    assert '"GB/s"' in said
    assert 'source = "where it is stated"' in said


def test_an_unknown_key_names_the_nearest() -> None:
    assert "Did you mean 'memory_bandwidth'?" in faults(
        '[machine]\nname = "toy"\n[node]\nmemory_bandwith = 1\n'
    )
    assert "Did you mean [network]?" in faults('[machine]\nname = "toy"\n[netwrok]\n')


def test_a_row_of_a_repeated_table_needs_its_figures() -> None:
    said = faults('[machine]\nname = "toy"\n[[all_to_all]]\nnodes = { value = 4, source = "s" }\n')
    assert "toy.toml:3: all_to_all.0.efficiency is missing." in said


def test_a_damaged_file_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "cut.toml"
    path.write_text(WHOLE[: WHOLE.index("GB/s")])
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_machine_file(path)


def test_what_is_written_reads_back() -> None:
    table = {
        "machine": {"name": 'a "toy"', "absent": ["all"]},
        "node": {"peak": Quantity(1.5e12, 'a "source" \\')},
    }
    rows = [{"nodes": Quantity(n, "s"), "efficiency": Quantity(0.1 * n, "s")} for n in (1, 2)]
    machine = check_machine(Path("toy.toml"), machine_text({**table, "all_to_all": rows}))
    assert machine.machine.name == 'a "toy"'
    assert machine.machine.absent == ("all",)
    assert machine.node.peak == Quantity(1.5e12, 'a "source" \\')
    assert [row.efficiency.value for row in machine.all_to_all] == [0.1, 0.2]


def test_writing_refuses_what_reading_would() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'speed' in \[node\]"):
        machine_text({"machine": {"name": "toy"}, "node": {"speed": Quantity(1.0, "s")}})
    with pytest.raises(ConfigError, match=r"\[\[nodes\]\]|\[nodes\]"):
        machine_text({"machine": {"name": "toy"}, "nodes": {}})
