"""Predictions of turbulence with fluid particles: what they add to a step, part by part."""

from pathlib import Path
from typing import Any

import pytest

from predict_rows import with_figures
from ridgeline.config.load import load_case
from ridgeline.config.machine_file import MachineFile, MachineSection
from ridgeline.limits.prediction import Allocation
from ridgeline.models import case_class, estimate
from ridgeline.models.prediction import predict_case
from ridgeline.models.turbulence.step_work import particle_messages, point_flops, point_traffic
from ridgeline.study.prediction import find_machine

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "turbulence_particles" / "settings.toml"
BARE = MachineFile(machine=MachineSection(name="toy"))
NODE = with_figures(BARE, {"node.memory_bandwidth": 4e10, "links.between_ranks": 5e9, "links.latency": 1e-6})
PARTS = ["interpolation at particles", "ghosts and migration"]


def case_of(*settings: str) -> Any:
    return load_case(EXAMPLE, case_class, settings).case


def parts_of(case: Any, machine: MachineFile = NODE, ranks: int = 2) -> dict[str, float]:
    return {
        part.name: part.seconds or 0.0 for part in predict_case(case, Allocation(machine, 1, ranks)).parts
    }


def test_particles_add_their_transforms_interpolation_and_messages() -> None:
    shared = parts_of(case_of())
    case = case_of('particles.interpolation="trilinear"')  # which the flow cannot take its velocity from
    found, rest = parts_of(case), parts_of(case_of("particles.count=0"))
    assert [name for name in found if name not in rest] == PARTS
    assert shared["column exchange"] == rest["column exchange"]
    # Three fields of one flow beside two substeps of three to the points, and four of five products back.
    assert found["column exchange"] / rest["column exchange"] == pytest.approx((2 * 7 + 3) / (2 * 7))
    work, without = (estimate(each, 2).work for each in (case, case_of("particles.count=0")))
    more = (work.bytes_memory - without.bytes_memory - point_traffic(case)) / 4e10
    assert found["transforms and products"] - rest["transforms and products"] == pytest.approx(more)
    assert found["interpolation at particles"] == pytest.approx(point_traffic(case) / 4e10)
    sent = particle_messages(case, (1, 2))
    n_bytes, messages = sent.ghost_bytes + sent.moved_bytes, sent.ghost_messages + sent.moved_messages
    assert found["ghosts and migration"] == pytest.approx(n_bytes / 2 / 5e9 + messages / 2 * 1e-6)
    assert parts_of(case, ranks=1)["ghosts and migration"] == 0.0


def test_many_particles_cost_their_operations_where_the_peak_bounds_them() -> None:
    slow = with_figures(NODE, {"node.peak": 1e9})
    one, ten = (
        parts_of(case_of(f"particles.count={n}"), slow)["interpolation at particles"] for n in (10**6, 10**7)
    )
    assert one == pytest.approx(point_flops(case_of("particles.count=1000000"), 0.0) / 1e9)
    assert ten == pytest.approx(10 * one)


def test_a_share_of_the_bandwidth_makes_it_no_bound() -> None:
    case, shares = case_of(), {"codes.turbulence": 0.5, "codes.interpolation": 0.25}
    found = predict_case(case, Allocation(with_figures(NODE, shares), 1, 2))
    assert not found.is_bound
    assert {p.name: p.seconds for p in found.parts}[PARTS[0]] == pytest.approx(4 * parts_of(case)[PARTS[0]])
    bound = predict_case(case, Allocation(with_figures(NODE, {"codes.turbulence": 0.5}), 1, 2))
    assert bound.bounds == ("the full bandwidth is assumed: the machine file has no codes.interpolation",)
    assert not predict_case(
        case_of("particles.count=0"), Allocation(with_figures(NODE, {"codes.turbulence": 0.5}), 1, 2)
    ).is_bound


def test_exact_sums_are_a_lower_bound() -> None:
    case = case_of('particles.interpolation="fourier"')
    found = predict_case(case, Allocation(NODE, 1, 2))
    assert any("particles.interpolation" in why for why in found.bounds)
    rest = parts_of(case_of("particles.count=0"))
    assert {p.name: p.seconds for p in found.parts}["column exchange"] == rest["column exchange"]


def test_the_data_set_of_particles_takes_time_to_write() -> None:
    case, place = case_of(), Allocation(NODE, 1, 2)
    silent = predict_case(case_of("particles.every=0"), place)
    each = 8 * (3 + 3 + 1) + 16  # position, velocity, dissipation and vertex, in eleven outputs
    once = 8  # identity
    assert predict_case(case, place).output_bytes - silent.output_bytes == 40_000 * (once + 11 * each)


def test_particles_of_the_largest_grids_on_frontier() -> None:
    large = ["grid.shape=[32768,32768,32768]", "particles.count=1000000000", 'grid.decomposition="pencils"']
    place = Allocation.of(find_machine("frontier"), 4096)
    found, rest = (predict_case(case_of(*large, *more), place) for more in ((), ("particles.count=0",)))
    parts = {part.name: part.seconds or 0.0 for part in found.parts}
    assert 0 < parts[PARTS[0]] < 0.1 * found.seconds
    assert 0 < parts[PARTS[1]] < 0.3 * found.seconds
    assert 1.2 < found.seconds / rest.seconds < 1.5
    assert any("Eq. 9" in note and "particles" in note for note in found.notes)
