"""Settings of N-body runs: what is refused, with words, and what they come to."""

import numpy as np
import pytest
from pydantic import ValidationError

from ridgeline.models import case_class, estimate
from ridgeline.models.n_body.problem import Stepping
from ridgeline.runtime.errors import ConfigError


def case_of(grid=None, **sections):
    document = {**sections, "grid": {"shape": [32, 32, 32], "length": 64.0, **(grid or {})}}
    document["run"] = {"model": "n_body", "steps": 10, **sections.get("run", {})}
    return case_class("n_body").model_validate(document)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"grid": {"shape": [32, 32, 30]}}, "three equal even numbers"),
        ({"grid": {"shape": [33, 33, 33]}}, "three equal even numbers"),
        ({"grid": {"particles": 31}}, "an even number >= 4"),
        ({"grid": {"length": -1.0}}, "greater than 0"),
        ({"grid": {"shape": [6, 6, 6]}}, "at least 7 cells in each direction, because the matching radius"),
        ({"cosmology": {"omega_m": 1.2}}, "less than or equal to 1"),
        ({"cosmology": {"omega_b": 0.4}}, "below cosmology.omega_m"),
        ({"cosmology": {"spectrum": "power-law", "index": 1.0}}, "-3 and < 1"),
        ({"cosmology": {"spectrum": "table"}}, "a path with cosmology.spectrum"),
        ({"cosmology": {"spectrum": "table", "table": "nowhere.txt"}}, "the path of a file that exists"),
        ({"initial": {"kind": "pancake", "redshift": 9.0, "collapse": 10.0}}, "below initial.redshift"),
        ({"model": {"matching_radius": 1.0}}, "greater than or equal to 2.5"),
        ({"model": {"softening": 0.0}}, "greater than or equal to 0.001"),
        ({"run": {"device": "cuda"}}, "cpu"),
        ({"output": {"variables": ["position", "position"]}}, "each name at most once"),
    ],
)
def test_what_cannot_be_is_refused(sections, words) -> None:
    with pytest.raises(ValidationError, match=words):
        case_of(**sections)


def test_one_particle_a_cell_unless_said_otherwise() -> None:
    assert case_of().gravity.n_global == 32**3
    assert case_of({"particles": 16}).gravity.n_global == 16**3
    shrunk = case_of({"particles": 16}).grid.shrunk(0.125)
    assert (shrunk.shape, shrunk.particles) == ((16, 16, 16), 8)


def test_without_a_short_range_force_a_step_is_one_substep() -> None:
    assert case_of(model={"substeps": 5}).substeps == 5
    mesh_alone = case_of(model={"substeps": 5, "short_range": False})
    assert mesh_alone.substeps == 1
    assert mesh_alone.gravity.radius is None
    assert estimate(mesh_alone, 2).work.flops < 0.5 * estimate(case_of(), 2).work.flops


def test_the_check_states_the_matching_error() -> None:
    (remark,) = estimate(case_of(), 1).remarks
    assert remark.startswith(
        "the mean force agrees with Newton's law within 0.48 %; it is matched at 6.4 Mpc/h"
    )
    assert "200 kpc/h" in remark


@pytest.mark.parametrize("spacing", ["linear", "logarithmic"])
def test_steps_end_today_and_their_parts_add_up(spacing) -> None:
    schedule = case_of(model={"spacing": spacing, "steps_to_today": 7, "substeps": 3}).schedule
    assert isinstance(schedule, Stepping)
    assert schedule.scale_factor(0) == pytest.approx(0.02)
    assert schedule.scale_factor(7) == pytest.approx(1.0)
    a, b = schedule.scale_factor(2), schedule.scale_factor(3)
    parts = schedule.substep_factors(2)
    assert len(parts) == 3
    universe = schedule.cosmology
    assert sum(part.drift for part in parts) == pytest.approx(universe.drift_factor(a, b))
    kicks = sum(part.first_kick + part.second_kick for part in parts)
    assert kicks == pytest.approx(universe.kick_factor(a, b))
    assert sum(schedule.mesh_kicks(2)) == pytest.approx(universe.kick_factor(a, b))


def test_spectra_are_those_of_the_settings(tmp_path) -> None:
    k = np.array([0.05, 0.5])
    table = tmp_path / "power.txt"
    table.write_text("0.01 2.0\n1.0 4.0\n")
    assert case_of(cosmology={"spectrum": "table", "table": str(table)}).linear_spectrum()(k)[0] > 2
    law = case_of(cosmology={"spectrum": "power-law", "index": -2.0}).linear_spectrum()(k)
    assert law[0] / law[1] == pytest.approx(100)
    brighter = case_of(cosmology={"sigma8": 1.6}).linear_spectrum()(k)
    np.testing.assert_allclose(brighter, 4 * case_of().linear_spectrum()(k))
    table.write_text("0.01 2.0\n1.0 nothing\n")
    with pytest.raises(ConfigError, match=r"power\.txt:2: "):
        case_of(cosmology={"spectrum": "table", "table": str(table)}).linear_spectrum()


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (64.0, None),
        (
            3000.0,
            "32 cells along 3000 Mpc/h are 93.8 Mpc/h wide each, and a particle has 7.1e+16 solar masses / h.",
        ),
        (0.02, "a particle has 21 solar masses / h. The unit of the length is Mpc/h, not kpc/h."),
    ],
)
def test_a_length_in_another_unit_is_doubted(length, words) -> None:
    found = dict(case_of({"length": length}).doubts())
    assert (words is None) == (not found)
    assert words is None or words in found["grid.length"]
    assert not [*case_of({"length": length}, initial={"kind": "pancake"}).doubts()]
