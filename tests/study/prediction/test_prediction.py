"""Predictions: parts that add up, intervals, what is lacking, machines by name, all models and HPCG, sweeps."""

import json
import math
from pathlib import Path

import pytest

from predict_rows import with_figures
from ridgeline.bench.hpcg.geometry import make_geometry
from ridgeline.bench.hpcg.prediction import halo, level_size
from ridgeline.bench.result import Result, make_table
from ridgeline.config.load import load_case
from ridgeline.config.machine_file import (
    CacheSection,
    MachineFile,
    MachineSection,
    NetworkVariabilitySection,
    Quantity,
)
from ridgeline.limits.prediction import Allocation, Part, Prediction
from ridgeline.models import case_class, estimate
from ridgeline.models.molecular_dynamics.estimate import traffic_of
from ridgeline.models.prediction import predict_case
from ridgeline.runtime.errors import ConfigError, DecompositionError
from ridgeline.study.prediction import find_machine, line_for_check, predict_benchmark, shipped, sweep
from ridgeline.study.prediction_tables import breakdown, facts, of_case, scaling

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
LARGE = ["grid.shape=[32768,32768,32768]", 'run.precision="float32"', "model.transpose_variables=1"]
BARE = MachineFile(machine=MachineSection(name="toy"))
NODE = with_figures(BARE, {"node.memory_bandwidth": 4e10, "links.between_ranks": 5e9, "links.latency": 1e-6})


def case_of(example: str, *settings: str):
    return load_case(EXAMPLES / example / "settings.toml", case_class, settings).case


def toy(*parts: Part, machine: MachineFile = BARE, nodes: int = 4) -> Prediction:
    return Prediction("toy", Allocation(machine, nodes, 2), parts, steps=10, output_bytes=100.0)


def varying(node: float, *network: tuple[float, float], model: float = 0.0) -> MachineFile:
    rows = tuple(
        NetworkVariabilitySection(nodes=Quantity(n, "s"), spread=Quantity(spread, "s"))
        for n, spread in network
    )
    return with_figures(BARE, {"variability.node": node, "variability.model": model}).model_copy(
        update={"network_variability": rows}
    )


def test_a_step_is_the_sum_of_its_parts_and_costs_node_hours() -> None:
    machine = with_figures(BARE, {"storage.write": 20.0, "storage.write_node": 2.0})
    found = toy(Part("a", "node", 3.0), Part("b", "network", 4.0), machine=machine)
    assert found.seconds == 7.0
    assert found.output_seconds == pytest.approx(100 / 8)
    assert found.node_hours == pytest.approx(4 * (70 + 12.5) / 3600)


def test_the_interval_adds_spreads_in_squares() -> None:
    machine = varying(0.1, (1, 0.1), (16, 0.5), model=0.05)
    low, high = toy(Part("a", "node", 3.0), Part("b", "network", 4.0), machine=machine).interval or (0, 0)
    width = math.hypot(0.3, 4 * 0.3, 7 * 0.05)
    assert (low, high) == pytest.approx((7 - width, 7 + width))


def test_a_machine_that_was_measured_while_it_was_busy_is_named() -> None:
    for share, said in ((0.92, True), (0.01, False)):
        found = toy(Part("a", "node", 3.0), machine=with_figures(BARE, {"machine.others_share": share}))
        words = "The file of toy was measured while other processes used 92% of the busiest node."
        assert any(words in note for note in found.to_dict()["notes"]) == said
        assert any(words in note for note in breakdown(found).notes) == said


def test_no_interval_without_the_spread_of_a_part_that_takes_time() -> None:
    assert toy(Part("a", "network", 1.0), machine=varying(0.1)).interval is None
    assert toy(Part("a", "node", 1.0), machine=varying(0.1)).interval == pytest.approx((0.9, 1.1))
    assert (
        toy(Part("a", "node", 1.0), Part("b", "node", None, "node.peak"), machine=varying(0.1)).interval
        is None
    )


def test_a_part_that_lacks_a_figure_is_left_out_and_named() -> None:
    found = predict_case(
        case_of("gray_scott"), Allocation(with_figures(BARE, {"node.memory_bandwidth": 1e10}), 2, 2)
    )
    assert found.lacks == {"halo exchange": "network.injection"}
    assert found.least_seconds > 0
    assert found.interval is None
    assert any(
        "halo exchange is not predicted, because the file of toy has no network.injection" in n
        for n in breakdown(found).notes
    )


@pytest.mark.parametrize("name", shipped())
def test_shipped_machines_are_sound(name: str) -> None:
    machine = find_machine(name)
    assert machine.machine.name
    assert machine.machine.absent, "every paper leaves something out"
    found = predict_case(case_of("gray_scott"), Allocation.of(machine, 2))
    assert found.least_seconds > 0 or found.lacks["sweep"]


def test_the_papers_machines_are_shipped() -> None:
    assert {"frontier", "summit", "aurora", "shaheen"} <= set(shipped())


def test_an_unknown_machine_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'frontier'"):
        find_machine("frontir")
    with pytest.raises(ConfigError, match="no such file"):
        find_machine("./toy.toml")


def test_here_without_a_file_says_how_to_write_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match="ridgeline bench machine-file"):
        find_machine("here")
    assert line_for_check(case_of("gray_scott"), 2, None) is None


@pytest.mark.parametrize(("nodes", "ranks"), [(0, 1), (9409, 8), (1, 0), (-1, 8)])
def test_nodes_and_ranks_are_within_the_machine(nodes: int, ranks: int) -> None:
    with pytest.raises(ConfigError, match=r"need|must be|describes 9408 nodes\. Use at most 9408 nodes, or"):
        Allocation.of(find_machine("frontier"), nodes, ranks)


def test_turbulence_on_frontier_is_the_papers_but_for_modes_that_are_left_out() -> None:
    """Row 18 of Table 3 moves all modes. The sphere that is kept here has 0.698 of the lines (pi 2/9)."""
    found = predict_case(case_of("turbulence_decay", *LARGE), Allocation.of(find_machine("frontier"), 4096))
    assert found.process_grid == (1, 32768)
    seconds = {part.name: part.seconds for part in found.parts}
    assert list(seconds) == [
        "transforms",
        "packing",
        "other computation",
        "host-device copies",
        "row exchange",
        "column exchange",
    ]
    assert found.memory_per_rank is not None
    assert found.memory_per_rank / 2**30 == pytest.approx(42, abs=0.01)
    whole = 14 * 32768 * 3.198e-6  # messages cost the same
    assert seconds["column exchange"] - whole == pytest.approx((9.51 - whole) * math.pi * 2 / 9, rel=0.02)
    assert sum(seconds.values()) == pytest.approx(found.seconds)


def test_a_large_grid_that_does_not_fit_its_ranks_is_refused() -> None:
    with pytest.raises(DecompositionError, match="--nodes"):
        predict_case(
            case_of("turbulence_decay", "grid.shape=[1024,1024,1024]", 'grid.decomposition="slabs"'),
            Allocation(NODE, 2, 600),
        )


def test_turbulence_without_rates_of_transforms_takes_its_traffic() -> None:
    case = case_of("turbulence_decay")
    found = predict_case(case, Allocation(NODE, 1, 2))
    work = estimate(case, 2).work
    assert found.parts[0].seconds == pytest.approx(work.bytes_memory / 4e10, rel=0.03)
    assert found.parts[2].seconds == pytest.approx(work.bytes_exchanged / 2 / 5e9, rel=0.03)
    assert any("codes.turbulence" in why for why in found.bounds)
    half = predict_case(case, Allocation(with_figures(NODE, {"codes.turbulence": 0.5}), 1, 2))
    assert half.parts[0].seconds == pytest.approx(2 * (found.parts[0].seconds or 0))
    assert not half.bounds


def test_gray_scott_takes_its_least_traffic() -> None:
    case = case_of("gray_scott")
    found = predict_case(case, Allocation(NODE, 1, 2))
    work = estimate(case, 2).work
    assert found.parts[0].seconds == pytest.approx(work.bytes_memory / 4e10)
    assert found.parts[1].seconds == pytest.approx(work.bytes_exchanged / 2 / 5e9 + work.messages / 2 * 1e-6)


def test_a_prediction_without_latencies_is_a_lower_bound() -> None:
    machine, case = find_machine("frontier"), case_of("gray_scott")
    found = predict_case(case, Allocation.of(machine, 64))
    assert found.is_bound
    assert found.interval is None
    assert found.bounds == (
        "messages cost only the time of their bytes: the machine file has no network.latency and no links.latency",
    )
    shown = breakdown(found)
    assert shown.rows[-1]["part"] == "step, at least"
    assert not any("80 % of steps" in note for note in shown.notes)
    heads = {column.key: column.head for column in scaling([found]).columns}
    assert heads["least_seconds"] == "s per step, at least"
    known = with_figures(machine, {"network.latency": 2e-6, "links.latency": 1e-6})
    assert predict_case(case, Allocation.of(known, 64)).interval is not None


def test_molecular_dynamics_takes_its_operations_ghosts_and_sums() -> None:
    case = case_of("lennard_jones_melt")
    machine = with_figures(NODE, {"node.peak": 1e11, "codes.molecular_dynamics": 0.05})
    found = predict_case(case, Allocation(machine, 1, 2))
    compute, exchange, sums = (part.seconds or 0 for part in found.parts)
    work, sent = estimate(case, 2).work, traffic_of(case, (2, 1, 1))
    assert compute == pytest.approx(work.flops / 1e11 / 0.05)
    assert exchange == pytest.approx((sent.ghosts + sent.rebuild / 20) / 5e9 + 2 * 1e-6)
    assert sums == pytest.approx(2 / 20 * 1e-6)
    assert not found.is_bound
    bare = predict_case(case, Allocation(with_figures(NODE, {"node.peak": 1e11}), 1, 2))
    assert bare.seconds == pytest.approx(0.05 * compute + exchange + sums)
    assert any("codes.molecular_dynamics" in why for why in bare.bounds)
    assert predict_case(case, Allocation(NODE, 1, 2)).lacks == {"forces, lists and integration": "node.peak"}


def test_molecular_dynamics_on_devices_says_that_it_has_no_kernels_for_them() -> None:
    found = predict_case(case_of("lennard_jones_melt"), Allocation.of(find_machine("aurora"), 1))
    assert any("no kernels" in note for note in found.notes)


def test_n_body_takes_its_operations_or_its_traffic_and_two_exchanges() -> None:
    case = case_of("n_body", 'grid.decomposition="pencils"')
    found = predict_case(case, Allocation(NODE, 1, 4))
    assert found.process_grid == (2, 2)
    near, mesh, transposes, ghosts = (part.seconds for part in found.parts)
    work = estimate(case, 4).work
    assert near + mesh == pytest.approx(work.bytes_memory / 4e10)
    latencies = 4 * 3 * 1e-6  # two messages for each of two cuts and three substeps
    assert transposes + ghosts - latencies == pytest.approx(work.bytes_exchanged / 4 / 5e9)
    bound = predict_case(case, Allocation(with_figures(NODE, {"node.peak": 1e9}), 1, 4))
    assert bound.parts[0].seconds + bound.parts[1].seconds == pytest.approx(work.flops / 1e9)
    assert any("evenly" in note for note in found.notes)
    slabs = predict_case(case_of("n_body"), Allocation(NODE, 1, 4))
    assert slabs.process_grid == (1, 4)
    with pytest.raises(DecompositionError, match=r"thinner than|thick, which is less than"):
        predict_case(case_of("n_body"), Allocation(NODE, 2, 16))


def test_a_case_in_cache_is_bound_by_the_cache() -> None:
    level = CacheSection(capacity=Quantity(1e12, "s"), bandwidth=Quantity(4e11, "s"))
    slow, fast = (
        predict_case(case_of("gray_scott"), Allocation(machine, 1, 1)).seconds
        for machine in (NODE, NODE.model_copy(update={"cache": (level,)}))
    )
    assert slow == pytest.approx(10 * fast)


def test_the_slower_of_memory_and_operations_counts() -> None:
    slow = with_figures(NODE, {"node.peak": 1e6})
    case = case_of("gray_scott")
    assert predict_case(case, Allocation(slow, 1, 1)).parts[0].seconds == pytest.approx(
        estimate(case, 1).work.flops / 1e6
    )


def test_one_iteration_of_each_solve_is_the_models_least_work() -> None:
    case = case_of("taylor_green_elements", "grid.elements=[4,4,4]")
    found = predict_case(case, Allocation(NODE, 1, 2))
    work = estimate(case, 2).work
    whole = math.fsum(part.seconds or 0 for part in found.parts[:4])
    assert whole == pytest.approx(work.bytes_memory / 4e10, rel=0.02)
    exchanged = work.bytes_exchanged / 2 / 5e9 + work.messages / 2 * 1e-6
    assert found.parts[4].seconds == pytest.approx(exchanged)
    assert any("--iterations" in why for why in found.bounds)


def test_iterations_multiply_their_part_alone() -> None:
    case = case_of("taylor_green_elements", "grid.elements=[4,4,4]")
    one = predict_case(case, Allocation(NODE, 1, 2))
    ten = predict_case(case, Allocation(NODE, 1, 2), {"pressure": 10.0})
    assert ten.parts[1].seconds == pytest.approx(10 * (one.parts[1].seconds or 0))
    assert ten.parts[2] == one.parts[2]
    assert (ten.parts[5].seconds or 0) > (one.parts[5].seconds or 0)


@pytest.mark.parametrize("word", ["pressure=0", "pressure", "temperature=3", "velocity=x", "pressure=inf"])
def test_iterations_that_are_none(word: str) -> None:
    with pytest.raises(ConfigError, match=f"--iterations {word}"):
        of_case(case_of("taylor_green_elements"), [word])


def test_iterations_of_a_model_that_solves_nothing() -> None:
    with pytest.raises(ConfigError, match="gray_scott solves no linear systems"):
        of_case(case_of("gray_scott"), ["pressure=2"])


def test_hpcg_counts_its_non_zeros_and_halo() -> None:
    geometry = make_geometry(8, 0, 16, 16, 24)
    size = level_size(geometry, 0)
    assert size.rows == 32 * 32 * 48
    along = {n: sum(min(i + 1, n - 1) - max(i - 1, 0) + 1 for i in range(n)) for n in (32, 48)}
    brute = along[32] * along[32] * along[48]
    assert size.nonzeros == brute
    assert halo(geometry, 0) == (17 * 17 * 25 - 16 * 16 * 24, 7)
    assert halo(make_geometry(1, 0, 16, 16, 16), 0) == (0, 0)


def test_hpcg_on_aurora_is_the_papers_rating() -> None:
    place = Allocation.of(find_machine("aurora"), 4096)
    found = predict_benchmark("hpcg", ["nx=192", "ny=192", "nz=192"], place)
    assert found.flops / (found.parts[0].seconds or 0) == pytest.approx(5.613e15, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "box"),
    [
        ([], "104 x 104 x 104"),
        (["nx=32"], "32 x 32 x 32"),
        (["nx=32", "nz=64"], "32 x 64 x 64"),
        (["nx=32", "ny=40", "nz=64"], "32 x 40 x 64"),
    ],
)
def test_sizes_that_are_left_out_are_those_of_the_benchmark(settings: list[str], box: str) -> None:
    found = predict_benchmark("hpcg", settings, Allocation(NODE, 1, 2))
    assert found.case == f"hpcg, {box} points per rank"


@pytest.mark.parametrize("word", ["nx=", "nx=-16", "n=16", "nx=16.0"])
def test_sizes_of_a_benchmark_that_are_none(word: str) -> None:
    with pytest.raises(ConfigError, match=f"--set {word}"):
        predict_benchmark("hpcg", [word], Allocation(NODE, 1, 1))


def test_a_benchmark_that_cannot_be_predicted() -> None:
    with pytest.raises(ConfigError, match="Benchmarks with predictions: hpcg"):
        predict_benchmark("stream", [], Allocation(NODE, 1, 1))


def test_a_sweep_has_a_row_for_each_number_of_nodes() -> None:
    case = case_of("turbulence_decay", *LARGE)
    found, refused = sweep(
        lambda place: predict_case(case, place), find_machine("frontier"), (4096, 2048), None
    )
    assert refused == []
    result = scaling(found)
    assert [row["nodes"] for row in result.rows] == [4096, 2048]
    for row, each in zip(result.rows, found):
        parts = [row[part.name] for part in each.parts]
        assert math.fsum(parts) == pytest.approx(row["seconds"])
        assert row["low"] < row["seconds"] < row["high"]
    assert result.rows[0]["seconds"] < result.rows[1]["seconds"]


def test_a_sweep_leaves_out_the_numbers_of_nodes_that_do_not_fit() -> None:
    case, machine = case_of("lid_driven_cavity"), find_machine("frontier")  # 16 elements, 8 ranks a node
    found, refused = sweep(lambda place: predict_case(case, place), machine, (1, 2, 4, 8), None)
    assert [each.place.nodes for each in found] == [1, 2]
    assert refused[0].startswith("4 nodes: 32 ranks cannot share 16 elements")
    assert "-n" not in " ".join(refused)
    with pytest.raises(DecompositionError, match="32 ranks cannot share 16 elements"):
        sweep(lambda place: predict_case(case, place), machine, (4, 8), None)


def test_a_sum_that_lacks_a_part_is_no_total() -> None:
    parts = Part("a", "node", 3.0), Part("b", "network", None, "network.injection")
    lacking = toy(*parts, machine=with_figures(BARE, {"storage.write": 20.0}))
    stored = lacking.to_dict()
    assert (stored["seconds"], stored["node_hours"]) == (None, None)
    assert stored["least_seconds"] == 3.0
    assert stored["least_node_hours"] == pytest.approx(4 * (30 + 5) / 3600)
    assert breakdown(lacking).rows[-1] == {"part": "step, at least", "seconds": 3.0, "share": None}
    assert not any(row["share"] for row in breakdown(lacking).rows)
    table = scaling([lacking])
    heads = {column.key: column.head for column in table.columns}
    assert heads["least_seconds"] == "s per step, at least"
    assert heads["least_node_hours"] == "node hours, at least"
    assert not {"seconds", "node_hours"} & {*heads}
    assert table.plot is not None
    assert table.plot.y == ("a", "b")


def test_node_hours_lack_outputs_that_the_machine_file_cannot_tell() -> None:
    found = toy(Part("a", "node", 3.0))
    assert (found.seconds, found.node_hours) == (3.0, None)
    assert facts(found)[-1] == f"at least {4 * 30 / 3600:.4g} node hours for 10 steps"


def test_tables_are_results_that_read_back() -> None:
    found = predict_case(case_of("turbulence_decay", *LARGE), Allocation.of(find_machine("frontier"), 4096))
    result = breakdown(found)
    assert math.fsum(row["share"] or 0 for row in result.rows) == pytest.approx(1)
    assert make_table(Result.from_dict(json.loads(json.dumps(result.to_dict()))))
    assert json.loads(json.dumps(found.to_dict()))["parts"]["transforms"] == found.parts[0].seconds


def test_check_says_a_line_of_a_machine_that_is_named() -> None:
    line = line_for_check(case_of("gray_scott"), 20, "frontier")
    assert line is not None
    assert line.startswith("predicted for 3 nodes of Frontier: ")


def test_check_says_that_the_file_of_this_machine_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "here.toml"
    path.write_text("[machine]\nnam = 1\n")
    monkeypatch.setattr("ridgeline.study.prediction.machine_file_here", lambda: path)
    line = line_for_check(case_of("gray_scott"), 2, None)
    assert line is not None
    assert line.startswith("no prediction for this machine: ")
    assert "nam" in line
    path.write_text(
        '[machine]\nname = "toy"\n[node]\nmemory_bandwidth = { value = 40, unit = "GB/s", source = "s" }\n'
    )
    line = line_for_check(case_of("gray_scott"), 1, None)
    assert line is not None
    assert line.startswith("predicted for 1 node of toy: at least ")
