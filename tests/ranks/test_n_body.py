"""N-body gravity on ranks: the same as on one, Newton's forces, exact solutions, checkpoints."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.io.checkpoint import CheckpointStore
from ridgeline.models import case_class, create
from ridgeline.models.n_body.estimate import memory, process_grid
from ridgeline.models.n_body.initial import lattice_points, pancake_exact
from ridgeline.models.n_body.kernels import MASS_BITS
from ridgeline.models.n_body.reference import ReferenceSolver, forces
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import DecompositionError, ParticleError
from spectral_toys import process_grids

RANKS = (1, 2, 3, 4)
TIMEOUT = 300
NAMES = ("position", "velocity")
FAST = {"fft": {"effort": "estimate"}, "transpose": {"method": "alltoallv"}}


def case_of(n=16, particles=8, length=40.0, process_grid="auto", **sections):
    grid = {
        "shape": [n, n, n],
        "length": length,
        "particles": particles,
        "decomposition": "pencils",
        "process_grid": process_grid,
    }
    run_of = {"model": "n_body", "steps": 10, "seed": 5, **sections.pop("run", {})}
    model = {"steps_to_today": 20, "substeps": 2, **FAST, **sections.pop("model", {})}
    return case_class("n_body").model_validate({"run": run_of, "grid": grid, "model": model, **sections})


def made(case, comm, threads=1):
    model = create("n_body")
    model.setup(case, Context(comm, threads=threads))
    model.compile()
    return model


def started(case, comm, threads=1):
    model = made(case, comm, threads)
    model.initialize()
    return model


def run(model, steps):
    for _ in range(steps):
        model.step(1)
    return model


def whole(model, comm) -> dict[str, np.ndarray]:
    """All particles in the order of identities, [3, particles]."""
    arrays = model.outputs(NAMES)
    return {name: np.concatenate(comm.allgather(array.local)).T for name, array in arrays.items()}


def all_forces(model, comm) -> np.ndarray:
    """Forces of all particles in the order of identities, [n, 3]."""
    engine = model._engine
    parts = comm.allgather((engine.particles.identity.copy(), engine.forces()))
    identity, found = (np.concatenate([part[k] for part in parts], axis=-1) for k in (0, 1))
    return found[:, np.argsort(identity)].T


def assert_same(comm, model, expected, row):
    """The particles and figures of one rank, but for the rounding of FFTW's plans for other process grids."""
    found, length = whole(model, comm), model._case.grid.length
    apart = (found["position"] - expected["position"] + length / 2) % length - length / 2
    assert np.abs(apart).max() < 1e-10 * length
    speed = np.abs(expected["velocity"]).max()
    assert np.abs(found["velocity"] - expected["velocity"]).max() < 1e-9 * speed
    figures = model.series()
    assert figures.pop("layzer_irvine") == pytest.approx(row["layzer_irvine"], abs=1e-9)
    assert figures == pytest.approx({name: row[name] for name in figures}, rel=1e-9, abs=1e-12)


def fits(cut, n=16, radius=3.2) -> bool:
    return max(cut) * radius <= n


@pytest.fixture(scope="module")
def alone():
    """Particles and a row of the series of runs on one rank, computed once for each set of settings."""
    known = {}

    def find(**model):
        key = tuple(sorted(model.items()))
        if key not in known:
            done = run(started(case_of(model=model), MPI.COMM_SELF), 9)
            known[key] = whole(done, MPI.COMM_SELF), done.series()
        return known[key]

    return find


@pytest.mark.parametrize("settings", [{}, {"short_range": False}], ids=["P3M", "PM"])
def test_any_process_grid_gives_the_same_run(comm, alone, settings):
    expected, row = alone(**settings)
    for cut in filter(fits, process_grids(comm.size, (16, 16, 16))):
        model = run(started(case_of(process_grid=list(cut), model=settings), comm, threads=2), 9)
        assert_same(comm, model, expected, row)
        assert comm.size == 1 or comm.allreduce(model._engine._migration.moved) > 20


def test_single_precision_of_the_mesh_is_near(comm, alone):
    expected, _ = alone()
    model = run(started(case_of(run={"precision": "float32"}), comm), 9)
    apart = np.abs(whole(model, comm)["position"] - expected["position"])
    assert 1e-9 < np.minimum(apart, 40 - apart).max() < 1e-3


def test_forces_are_newtons_of_all_images(comm):
    """The mean over 216 particles of what the mesh's anisotropy leaves, relative to the root mean square force."""
    model = started(case_of(n=32, particles=6, initial={"redshift": 1.0}), comm)
    places = whole(model, comm)["position"].T
    gravity = model._case.gravity
    expected = forces(places, gravity, gravity.softening * gravity.cell)
    found = all_forces(model, comm)
    size = np.sqrt((expected**2).sum(1).mean())
    assert np.sqrt(((found - expected) ** 2).sum(1).mean()) < 0.02 * size
    assert np.abs(found.sum(0)).max() < 1e-9 * size


@pytest.mark.parametrize("clumped", [False, True], ids=["spread", "clumped"])
def test_steps_are_those_of_the_reference(comm, clumped):
    """Direct sums over all pairs and images, kicked and drifted at the same times, whose halves differ much.

    Spread over the box, particles are moved by the mesh; in a clump of three cells by each other.
    """
    few = {"substeps": 1, "steps_to_today": 5, "filter_width": 1.2, "matching_radius": 4.5, "softening": 0.5}
    model = started(case_of(n=16, particles=4, initial={"redshift": 9.0}, model=few), comm)
    gravity, a = model._case.gravity, model.time(0)
    state = whole(model, comm)
    positions, momenta = state["position"].T, state["velocity"].T * a / 100
    if clumped:
        positions = np.random.default_rng(4).normal(20.0, 3 * gravity.cell, (64, 3))
        momenta = np.zeros((64, 3))
        mine = slice(comm.rank, 64, comm.size)
        model._engine.start_anywhere(positions[mine].T.copy(), momenta[mine].T.copy(), np.arange(64)[mine])
    solver = ReferenceSolver(gravity, positions, momenta, gravity.softening * gravity.cell)
    steps = 1 if clumped else 3
    for step in range(steps):
        solver.step(model._schedule, step)
    run(model, steps)
    found, length = whole(model, comm), gravity.length
    apart = (found["position"].T - solver.positions + length / 2) % length - length / 2
    way = (solver.positions - positions + length / 2) % length - length / 2
    assert size_of(apart) < 0.03 * size_of(way)
    a = model.time(steps)
    assert size_of(found["velocity"].T * a / 100 - solver.momenta) < 0.12 * size_of(solver.momenta)


def size_of(vectors) -> float:
    return float(np.sqrt((vectors**2).sum(1).mean()))


def test_a_pancake_follows_its_exact_solution_until_it_collapses(comm):
    """Relative to the largest displacement and momentum; what is off is the response of a lattice of 24 points."""
    case = case_of(
        n=24, particles=24, length=64.0,
        initial={"kind": "pancake", "redshift": 24.0, "collapse": 1.0},
        cosmology={"omega_m": 0.3}, model={"steps_to_today": 48, "substeps": 1},
    )  # fmt: skip
    model = started(case, comm)
    run(model, 20)
    a = model.time(20)
    lattice = lattice_points_of(case)
    assert 0.85 < float(case.universe.growth(a) / case.universe.growth(0.5)) < 0.9
    x, momentum = pancake_exact(lattice[0], 64.0, case.universe, a, 0.5)
    found, shift = whole(model, comm), case.gravity.cell / 2
    apart = (found["position"] - shift - np.array([x, *lattice[1:]]) + 32) % 64 - 32
    assert np.abs(apart[0]).max() < 0.03 * np.abs(x - lattice[0]).max()
    assert np.abs(found["velocity"][0] * a / 100 - momentum).max() < 0.04 * np.abs(momentum).max()
    assert np.abs(apart[1:]).max() < 1e-6, "nothing moves along the sheets"


def lattice_points_of(case):
    n = case.grid.particles
    return lattice_points(PencilGrid((n, n, n), "none", (1, 1), 0), (case.grid.length,) * 3)[0]


def test_small_waves_grow_as_linear_theory_says(comm):
    """D(a) within 1 %, of the six longest waves of a box in which nothing is dense yet."""
    case = case_of(
        n=24, particles=24, length=600.0, cosmology={"sigma8": 0.2},
        initial={"redshift": 19.0}, model={"steps_to_today": 24, "substeps": 1, "spacing": "logarithmic"},
    )  # fmt: skip
    model = started(case, comm)
    mesh = model._engine.mesh
    kz, ky, kx = mesh.transform.modes.expand()
    number = np.sqrt(kz**2 + ky**2 + kx**2) * 600 / (2 * np.pi)
    long = (number > 0) & (number < 1.1)
    before = mesh.modes[long].copy()
    run(model, 18)
    universe = case.universe
    expected = float(universe.growth(model.time(18)) / universe.growth(case.begin))
    assert expected > 8
    dot, square = (
        comm.allreduce(float(part))
        for part in ((mesh.modes[long] * before.conj()).real.sum(), (np.abs(before) ** 2).sum())
    )
    assert dot / square == pytest.approx(expected, rel=0.01)


def test_energy_follows_the_equation_of_layzer_and_irvine(comm):
    model = started(
        case_of(n=24, particles=24, length=60.0, model={"steps_to_today": 40, "substeps": 2}), comm
    )
    run(model, 24)
    figures = model.diagnostics()
    assert figures["kinetic"] > 3 * model._budget.terms[0]
    assert 0 < abs(figures["layzer_irvine"]) < 0.01


def test_momentum_stays_nothing_to_rounding(comm):
    model = run(started(case_of(), comm), 9)
    figures = model.diagnostics()
    typical = np.sqrt(2 * figures["kinetic"]) * figures["a"]
    assert max(abs(figures[f"momentum_{c}"]) for c in "xyz") < 1e-12 * typical


@pytest.mark.parametrize("settings", [{}, {"short_range": False}], ids=["P3M", "PM"])
def test_a_run_goes_on_from_other_ranks(comm, folder, alone, settings):
    case = case_of(model=settings)
    first = run(started(case, MPI.COMM_SELF), 4)
    if comm.rank == 0:
        with CheckpointStore(MPI.COMM_SELF, folder) as store:
            store.save(first.state(), step=4, time=first.time(4), identity=case.identity())
    comm.Barrier()
    second = made(case, comm)
    with CheckpointStore(comm, folder) as store:
        loaded = store.load(second.state(), case.identity())
    second.restored(loaded.step, loaded.time)
    kept = whole(first, MPI.COMM_SELF)
    for name, values in whole(second, comm).items():
        np.testing.assert_array_equal(values, kept[name], err_msg=name)
    run(second, 5)
    assert_same(comm, second, *alone(**settings))


def test_a_run_goes_on_to_the_same_bits_on_the_same_ranks(comm, folder):
    case = case_of()
    first = run(started(case, comm), 3)
    with CheckpointStore(comm, folder) as store:
        store.save(first.state(), step=3, time=first.time(3), identity=case.identity())
        second = made(case, comm)
        loaded = store.load(second.state(), case.identity())
    second.restored(loaded.step, loaded.time)
    run(first, 3), run(second, 3)
    expected = whole(first, comm)
    for name, values in whole(second, comm).items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)
    assert second.series() == first.series()


def test_mass_and_near_forces_have_the_same_bits_on_any_ranks(comm):
    """Integers: no order of particles and ranks matters."""
    random = np.random.default_rng(8)
    places = 40 * random.normal(0.5, 0.15, (3, 1500)) % 40
    found = []
    for some in (MPI.COMM_SELF, comm):
        model = made(case_of(n=16, particles=12, process_grid=[1, some.size]), some)
        mine = slice(some.rank, 1500, some.size)
        engine = model._engine
        engine.start_anywhere(
            places[:, mine].copy(), np.zeros((3, len(range(1500)[mine]))), np.arange(1500)[mine]
        )
        mass = np.concatenate(some.allgather(engine.mesh.mass[:-1, :-1]), axis=1)
        parts = some.allgather(
            (engine.particles.identity.copy(), engine.near.forces[: engine.particles.n].copy())
        )
        order = np.argsort(np.concatenate([part[0] for part in parts]))
        found.append((mass, np.concatenate([part[1] for part in parts])[order]))
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)
    (mass, near), total = found[0], 1500 * 2**MASS_BITS
    assert abs(int(mass.sum()) - total) < 1500 * 8
    assert not near.sum(0).any(), "integer forces of all particles add up to exactly nothing"


def test_profiles_have_one_shape_and_count_the_same_on_any_ranks(comm):
    settings = {"output": {"spectra_every": 1}, "analysis": {"least_halo": 4, "pixels": 16}}
    found = []
    for some in (MPI.COMM_SELF, comm):
        model = started(case_of(n=16, particles=16, length=24.0, **settings), some)
        first = model.profiles()
        run(model, 16)
        last = model.profiles()
        assert {name: profile.values.shape for name, profile in first.items()} == {
            name: profile.values.shape for name, profile in last.items()
        }
        found.append((first, last))
    (first, last), (_, other) = found
    assert first["halo_count"].values.sum() == 0
    assert last["halo_count"].values.sum() > 5
    np.testing.assert_array_equal(last["halo_count"].values, other["halo_count"].values)
    np.testing.assert_allclose(last["surface_density"].values, other["surface_density"].values, atol=1e-3)
    np.testing.assert_allclose(last["matter_power"].values, other["matter_power"].values, rtol=1e-8)
    assert last["surface_density"].values.mean() == pytest.approx(1, abs=0.8)
    grown = last["linear_power"].values / first["linear_power"].values
    np.testing.assert_allclose(grown, grown[0])
    assert (first["matter_power"].values > 0).all(), "a lattice has no shot noise that could be taken out"


def test_the_estimate_states_the_memory_that_is_held(comm):
    """Of particles that are spread evenly, as at first."""
    case = case_of(n=32, particles=32)
    model = started(case, comm)
    held = model._engine.memory()
    needed = memory(case, model._process_grid)
    assert set(held) | {"transforms"} == set(needed)
    for name in ("particles", "short range"):
        assert 0.5 * needed[name] < held[name] < 1.3 * needed[name], name
    mesh = needed["mesh"] + needed["transforms"]
    assert 0.8 * mesh < comm.allreduce(held["mesh"], MPI.MAX) < 1.05 * mesh


def test_a_particle_that_is_not_finite_is_named(comm):
    model = started(case_of(), comm)
    particles = model._engine.particles
    particles["momentum"][0, particles.identity == 77] = np.nan
    assert model.locate_nonfinite().startswith("particle 77 at ")
    with pytest.raises(ParticleError, match=r"particle 77 is at .* in step 1"):
        model.step(1)


def test_boxes_thinner_than_the_matching_radius_are_refused(comm):
    """Five boxes of 16 cells are thinner than 3.2 of them, on however many ranks there are."""
    with pytest.raises(DecompositionError, match="which is less than the"):
        process_grid(case_of(process_grid=[1, 6]), 6)
    assert process_grid(case_of(process_grid=[1, 6], model={"short_range": False}), 6) == (1, 6)
