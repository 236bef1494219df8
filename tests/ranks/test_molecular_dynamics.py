"""The melt on any ranks is the melt on one, bit for bit; so is what goes on from a checkpoint on other ranks."""

from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI
from scipy.spatial import cKDTree

from ridgeline.io.checkpoint import CheckpointStore
from ridgeline.models import case_class, create
from ridgeline.models.molecular_dynamics.estimate import remarks, traffic_of
from ridgeline.models.molecular_dynamics.initial import lattice_places
from ridgeline.models.molecular_dynamics.reference import ReferenceSolver
from ridgeline.particles import ghosts
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import ParticleError

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
NAMES = ("position", "velocity", "force", "image")


def case_of(precision="float64", **sections):
    run_of = {"model": "molecular_dynamics", "steps": 60, "seed": 3, "precision": precision}
    document = {"run": run_of, "grid": {"cells": [4, 5, 6]}, **sections}
    return case_class("molecular_dynamics").model_validate(document)


def started(case, comm, threads=1):
    model = create("molecular_dynamics")
    model.setup(case, Context(comm, threads=threads))
    model.compile()
    model.initialize()
    return model


def run(model, steps):
    for _ in range(steps):
        model.step(1)
    return model


def whole(model, comm) -> dict[str, np.ndarray]:
    """All atoms in the order of identities, [3, atoms]."""
    arrays = model.outputs(NAMES)
    return {name: np.concatenate(comm.allgather(array.local)).T for name, array in arrays.items()}


RULES = [
    {},
    {"every": 7, "check": True, "skin": 0.2},
    {"newton": True, "every": 10},
]
LANGEVIN = {"kind": "langevin", "temperature": 0.9, "damping": 0.1}


@pytest.mark.parametrize(("rule", "thermostat"), [*((rule, {}) for rule in RULES), ({}, LANGEVIN)])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_any_ranks_give_the_same_bits(comm, rule, thermostat, precision):
    if precision == "float32" and rule.get("newton"):
        pytest.skip("pairs of half lists are computed in float64")
    case = case_of(neighbour=rule, thermostat=thermostat, precision=precision)
    alone, together = started(case, MPI.COMM_SELF), started(case, comm, threads=2)
    assert alone.series() == together.series()
    run(alone, 45), run(together, 45)
    assert alone.series() == together.series()
    mine, others = (model.profiles()["radial_distribution"].values for model in (alone, together))
    np.testing.assert_array_equal(mine, others)
    mine = whole(alone, MPI.COMM_SELF)
    for name, values in whole(together, comm).items():
        np.testing.assert_array_equal(values, mine[name], err_msg=name)
    assert mine["image"].any(), "no atom has crossed a side of the box"


@pytest.mark.parametrize("rule", [{}, {"newton": True, "every": 10}])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_an_external_potential_gives_the_same_bits_on_any_ranks_and_after_a_restart(comm, rule, precision):
    if precision == "float32" and rule:
        pytest.skip("pairs of half lists are computed in float64")
    model = {"external_potential": "2*cos(2*pi*x/Lx + t) + 0.3*z"}  # jumps between the sides in z
    case = case_of(neighbour=rule, model=model, precision=precision)
    alone, together = started(case, MPI.COMM_SELF), started(case, comm, threads=2)
    assert alone.series() == together.series()
    run(alone, 45), run(together, 30)
    again = create("molecular_dynamics")
    again.setup(case, Context(comm))
    again.compile()
    read = again.state()
    for name, array in together.state().items():
        read[name].local[...] = array.local
    again.restored(30, together.time(30))
    run(again, 15)
    assert again.series() == alone.series()
    assert alone.series()["E_external"] != 0
    mine = whole(alone, MPI.COMM_SELF)
    for name, values in whole(again, comm).items():
        np.testing.assert_array_equal(values, mine[name], err_msg=name)


@pytest.mark.parametrize(
    ("rule", "precision"), [({}, "float64"), ({"newton": True}, "float64"), ({}, "float32")]
)
def test_forces_computed_while_ghosts_travel_have_the_same_bits(comm, monkeypatch, rule, precision):
    """Every piece of the inner atoms is computed under way, as if messages were slow."""
    slow = SimpleNamespace(Testall=lambda requests: False, Waitall=MPI.Request.Waitall)
    monkeypatch.setattr(ghosts, "MPI", SimpleNamespace(Request=slow, PROC_NULL=MPI.PROC_NULL))
    long = {"cells": [4, 4, 15], "process_grid": [1, 1, comm.size]}
    made, sizes = [], []
    for overlap in (True, False):
        case = case_of(neighbour={**rule, "overlap": overlap}, precision=precision, grid=long)
        made.append(started(case, comm))
    usual, waiting = (model._engine for model in made)
    compute = usual._compute_forces_on
    monkeypatch.setattr(usual, "_compute_forces_on", lambda atoms: sizes.append(len(atoms)) or compute(atoms))
    for model in made:
        run(model, 25)
    np.testing.assert_array_equal(usual.forces[: usual.particles.n], waiting.forces[: waiting.particles.n])
    assert made[0].series() == made[1].series()
    if comm.size > 1:
        assert len(sizes) == 25 * (1 + ghosts.PROGRESS_CALLS)
        assert usual.lists.inner > 0
    assert made[0]._case.identity() == made[1]._case.identity()


def test_the_melt_is_that_of_the_reference(comm):
    case = case_of()
    model, solver = started(case, comm), ReferenceSolver(case.melt)
    run(model, 40)
    for _ in range(40):
        solver.step()
    found, expected = model.series(), solver.thermo()
    wanted = (expected.temperature, expected.pair_energy, expected.total_energy, expected.pressure)
    assert [found[key] for key in ("Temp", "E_pair", "TotEng", "Press")] == pytest.approx(wanted, rel=1e-10)
    got = whole(model, comm)
    path = got["position"] + np.array(case.melt.lengths)[:, None] * got["image"]
    np.testing.assert_allclose(path, solver.places.T, atol=1e-10)
    np.testing.assert_allclose(got["force"], solver.forces.T, atol=1e-8)
    ways = solver.places - lattice_places(case.melt, np.arange(case.melt.atoms))
    assert found["MSD"] == pytest.approx((ways**2).sum(1).mean(), rel=1e-9)


def test_outputs_are_in_the_box_at_every_step(comm):
    """Lists are rebuilt every 20 steps, and atoms cross the sides in between."""
    model = started(case_of(), comm)
    engine, left = model._engine, False
    lengths = np.array(model.output_attributes()["length"])
    np.testing.assert_allclose(lengths, model._case.melt.lengths, rtol=1e-14)
    for _ in range(3):
        run(model, 13)
        got = whole(model, comm)
        assert (got["position"] >= 0).all()
        assert (got["position"] < lengths[:, None]).all()
        own = engine.particles.position
        left |= bool(((own < 0) | (own >= lengths[:, None])).any())
        path = got["position"] + lengths[:, None] * got["image"]
        np.testing.assert_array_equal(
            path[:, engine.particles.identity], own + lengths[:, None] * engine.particles["image"]
        )
    assert comm.allreduce(left, MPI.LOR), "no atom was outside"


def test_the_radial_distribution_is_that_of_a_second_code(comm):
    """SciPy's tree counts the pairs below each distance."""
    case = case_of(neighbour={"every": 1})
    model = run(started(case, comm), 30)
    lengths = np.array(case.melt.lengths)
    places = whole(model, comm)["position"].T % lengths
    tree = cKDTree(places, boxsize=lengths)
    profiles = model.profiles()
    edges = np.linspace(0, case.melt.cutoff, len(profiles["r"].values) + 1)
    pairs = np.diff(tree.count_neighbors(tree, edges))
    pairs[0] -= len(places)  # of each atom with itself
    density = case.melt.atoms / case.melt.volume
    expected = pairs / (case.melt.atoms * density * 4 / 3 * np.pi * np.diff(edges**3))
    found = profiles["radial_distribution"].values
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-12, atol=1e-12)
    assert found[0] == 0
    assert profiles["r"].values[np.argmax(found)] == pytest.approx(1.09, abs=0.06)


@pytest.mark.parametrize(("rule", "thermostat"), [(RULES[0], LANGEVIN), (RULES[1], {})])
def test_a_run_goes_on_from_other_ranks_between_two_rebuilds(comm, folder, rule, thermostat):
    """The checkpoint holds where lists were built, so that even the pairs that a list misses are the same."""
    case = case_of(neighbour=rule, thermostat=thermostat)
    first = run(started(case, MPI.COMM_SELF), 33)
    if comm.rank == 0:
        with CheckpointStore(MPI.COMM_SELF, folder) as store:
            store.save(first.state(), step=33, time=first.time(33), identity=case.identity())
    comm.Barrier()
    second = create("molecular_dynamics")
    second.setup(case, Context(comm))
    second.compile()
    with CheckpointStore(comm, folder) as store:
        loaded = store.load(second.state(), case.identity())
    second.restored(loaded.step, loaded.time)
    assert second.series() == first.series()
    run(first, 25), run(second, 25)
    mine = whole(first, MPI.COMM_SELF)
    for name, values in whole(second, comm).items():
        np.testing.assert_array_equal(values, mine[name], err_msg=name)


def test_momentum_is_kept_to_rounding(comm):
    """Forces of a pair are opposite integers: momentum changes by the rounding of velocities alone."""
    figures = run(started(case_of(neighbour={"newton": True}), comm), 60).diagnostics()
    assert max(abs(figures[f"momentum_{c}"]) for c in "xyz") < 1e-11


def test_the_energy_error_is_of_second_order_in_the_time_step(comm):
    """In a cold crystal, where no atom crosses the cut-off, between two shells of neighbours."""
    errors = []
    for steps in (8, 16):
        dt = 0.08 / steps
        model = started(case_of(initial={"temperature": 0.01}, model={"dt": dt, "cutoff": 2.52}), comm)
        energies = [model.series()["TotEng"]]
        for _ in range(2):
            energies.append(run(model, steps).series()["TotEng"])
        errors.append(max(abs(energy - energies[0]) for energy in energies))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.05)
    assert errors[1] < 1e-4


def test_the_thermostat_keeps_its_temperature(comm):
    """The lattice that melts would cool to 0.76; four standard deviations of 480 atoms are 0.13."""
    model = run(started(case_of(thermostat=LANGEVIN), comm), 150)
    assert model.series()["Temp"] == pytest.approx(0.9, abs=4 * 0.9 * np.sqrt(2 / (3 * 480)))


@pytest.mark.parametrize(("rule", "precision"), [({"newton": True}, "float64"), ({}, "float32")])
def test_ghosts_and_migrating_atoms_are_as_many_as_check_says(comm, rule, precision):
    case = case_of(neighbour=rule, precision=precision, initial={"temperature": 4.0})
    model = run(started(case, comm), 80)  # until it has melted: planes of the lattice are sides of boxes
    begun = model._engine._migration.moved
    run(model, 80)
    engine, said = model._engine, traffic_of(case, model._grid)
    row = {"float64": 32, "float32": 16}[precision]
    counted = comm.allreduce(engine.ghosts.bytes_sent) / comm.size / 32 * (row + 32 * engine._method.newton)
    assert counted == pytest.approx(said.ghosts, rel=0.15)
    assert said.messages == comm.allreduce(engine.ghosts.messages) / comm.size * (1 + engine._method.newton)
    moved = comm.allreduce(engine._migration.moved - begun) / comm.size / (80 / case.neighbour.every)
    assert 0.4 * said.migrants <= moved <= 1.2 * said.migrants
    found = remarks(case, model._grid)
    assert len(found) == (comm.size > 1)


def test_an_atom_that_is_not_finite_is_named(comm):
    model = started(case_of(neighbour={"every": 3}), comm)
    particles = model._engine.particles
    here = np.flatnonzero(particles.identity == 77)
    particles["velocity"][0, here] = np.nan
    assert model.locate_nonfinite().startswith("atom 77 at ")
    with pytest.raises(ParticleError, match=r"particle 77 is at .* in step 3"):
        run(model, 3)
