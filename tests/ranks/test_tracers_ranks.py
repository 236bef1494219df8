"""Fluid particles on slabs and pencils: the same bits on any ranks, through checkpoints and in data sets."""

import numpy as np
import pytest
from mpi4py import MPI

import ridgeline
from export_toys import assert_viewer_files_equal_an_export
from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.ghost_planes import BELOW, PADDING, GhostPlanes, padded_shape
from ridgeline.io.checkpoint import CheckpointStore
from ridgeline.models import create
from ridgeline.models.turbulence.estimate import estimate
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import ParticleError
from spectral_toys import process_grids, recorders_of_particles

RANKS = (1, 2, 3, 4)
TIMEOUT = 300
SHAPE = (12, 10, 16)
N = 240


def case_of(
    process_grid=(1, 1), scheme="rk2", precision="float64", steps=8, folder=".", scalars=1, **particles
):
    return TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": steps, "precision": precision, "seed": 4},
            "grid": {
                "shape": list(SHAPE),
                "lengths": [2.0, 3.0, 5.0],
                "decomposition": "pencils",
                "process_grid": list(process_grid),
            },
            "model": {"viscosity": 0.02, "dt": 0.016, "scheme": scheme, "fft": {"effort": "estimate"}},
            "initial": {"kind": "spectrum", "energy": 3.0},
            "forcing": {"kind": "linear", "coefficient": 0.1},
            "scalar": scalars * [{"schmidt": 0.7, "variance": 1.0}],
            "output": {"path": f"{folder}/u.bp", "viewer": "pvd"},
            "particles": {"count": N, "path": f"{folder}/p.bp", **particles},
        }
    )


def model_of(comm, case):
    model = create("turbulence")
    model.setup(case, Context(comm))
    model.compile()
    return model


def run(comm, case, steps=None):
    model = model_of(comm, case)
    model.initialize()
    for _ in range(case.run.steps if steps is None else steps):
        model.step(1)
    return model


def everything(comm, model):
    """What all ranks have of the particles, in the order of identities."""
    tracers = model._particles.tracers
    fields = [tracers.paths(), tracers.ranges.gather(tracers.particles, "velocity")]
    return np.concatenate([np.concatenate(comm.allgather(field), axis=1) for field in fields])


def flow(comm, model):
    """What all ranks have of a velocity, in the canonical order of modes."""
    return np.concatenate(comm.allgather(model.state()["velocity_x"].local))


def assert_same(comm, model, expected, precision="float64"):
    """The bits of one rank, unless FFTW's plans of this process grid give the flow itself another rounding."""
    particles, modes = expected
    found = everything(comm, model)
    if (flow(comm, model) == modes).all():
        np.testing.assert_array_equal(found, particles)
    else:
        np.testing.assert_allclose(found, particles, atol=1e-10 if precision == "float64" else 1e-2)


@pytest.fixture(scope="module")
def alone():
    """The particles of runs on one rank, computed once for each scheme and precision."""
    known = {}

    def find(*of, **particles):
        key = (*of, *particles.items())
        if key not in known:
            model = run(MPI.COMM_SELF, case_of((1, 1), *of, **particles))
            known[key] = everything(MPI.COMM_SELF, model), flow(MPI.COMM_SELF, model)
        return known[key]

    return find


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("scalars", [0, 1])
def test_any_process_grid_moves_particles_to_the_same_bits(comm, alone, scheme, precision, scalars):
    """Without scalars the flow takes its velocity at points from the splines of the particles."""
    expected = alone(scheme, precision, scalars=scalars)
    for process_grid in process_grids(comm.size, SHAPE):
        model = run(comm, case_of(process_grid, scheme, precision, scalars=scalars))
        assert_same(comm, model, expected, precision)
        assert comm.size == 1 or comm.allreduce(model._particles.tracers._migration.moved) > 20


@pytest.mark.parametrize("interpolation", ["trilinear", "fourier"])
def test_other_interpolations_do_not_depend_on_ranks_either(comm, alone, interpolation):
    expected = alone("rk2", "float64", interpolation=interpolation)
    for process_grid in process_grids(comm.size, SHAPE):
        model = run(comm, case_of(process_grid, interpolation=interpolation))
        assert_same(comm, model, expected)


@pytest.mark.parametrize("placement", ["pairs", "tetrads"])
def test_figures_have_the_same_bits_on_any_ranks(comm, placement):
    """Also where the particles of a pair are on different ranks."""
    settings = {"placement": placement, "separation": 0.4, "sample": ["acceleration", "dissipation"]}
    alone = run(MPI.COMM_SELF, case_of(**settings), 2)
    expected, profile = alone._particles.series(), alone.profiles()["acceleration_density"].values
    model = run(comm, case_of((1, comm.size), **settings), 2)
    found = model._particles.series()
    assert found == expected
    assert set(found) < set(model.series())
    np.testing.assert_array_equal(model.profiles()["acceleration_density"].values, profile)


@pytest.mark.parametrize(("scheme", "scalars"), [("rk2", 1), ("rk4", 0), ("rk2", 0)])
def test_a_resumed_run_has_the_same_bits_on_other_ranks(comm, folder, scheme, scalars):
    case = case_of((1, comm.size), scheme, scalars=scalars)
    model = run(comm, case, 3)
    with CheckpointStore(comm, folder / "c") as store:
        state = model.state()
        store.save(state, step=3, time=model.time(3), identity=case.identity())
        for _ in range(5):
            model.step(1)
        expected, figures = everything(comm, model), model._particles.series()
    few = comm.Split(comm.rank % 2, -comm.rank)
    case = case_of((few.size, 1), scheme, scalars=scalars)
    model = model_of(few, case)
    with CheckpointStore(few, folder / "c") as store:
        loaded = store.load(model.state(), case.identity())
        model.restored(loaded.step, loaded.time)
    for _ in range(5):
        model.step(1)
    np.testing.assert_array_equal(everything(few, model), expected)
    assert model._particles.series() == figures
    few.Free()


SAMPLED = ("gradient", "acceleration", "scalars", "dissipation", "enstrophy")


def test_the_data_set_holds_all_particles_and_what_they_met(comm, folder):
    case = case_of(
        (1, comm.size), folder=folder, every=4, sample=list(SAMPLED), placement="pairs", separation=0.1
    )
    model = run(comm, case, 0)
    output, for_viewers = recorders_of_particles(model, comm)
    recorder, viewer = output.open({}, None), for_viewers.open({}, None)
    for step in (0, 4):
        for _ in range(step):
            model.step(1)
        recorder.write(step)
        viewer.write(step)
    recorder.close()
    assert (output.name, output.path, output.every.steps, recorder.count) == (
        "particles",
        f"{folder}/p.bp",
        4,
        2,
    )
    now = everything(comm, model)
    series = model.series()
    comm.Barrier()
    if comm.rank == 0:
        assert_viewer_files_equal_an_export(folder / "p.bp")
    with ridgeline.open(folder / "p.bp") as ds:
        assert ds.particle.values.tolist() == list(range(N))
        np.testing.assert_array_equal(ds.position.isel(step=1).values, now[:3].T)
        np.testing.assert_array_equal(ds.velocity.isel(step=1).values, now[3:].T)
        start = ds.position.isel(step=0).values
        np.testing.assert_allclose(np.linalg.norm(start[1::2] - start[::2], axis=1), 0.1, rtol=1e-12)
        gradient = ds.velocity_gradient.isel(step=1).values.reshape(N, 3, 3)
        scale = np.abs(gradient).max()
        np.testing.assert_allclose(np.trace(gradient, axis1=1, axis2=2), 0.0, atol=0.05 * scale)
        strain = 0.5 * (gradient + gradient.transpose(0, 2, 1))
        np.testing.assert_allclose(ds.dissipation.isel(step=1), 0.04 * (strain**2).sum((1, 2)), rtol=1e-12)
        assert ds.scalar_0.isel(step=1).std() > 0.1
        # Averages over particles are near those over the box: there are few of them.
        assert float(ds.enstrophy.isel(step=1).mean()) == pytest.approx(2 * series["enstrophy"], rel=0.3)


@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds"])
def test_a_flow_with_particles_is_the_flow_without(comm, dealias):
    """To rounding: a step takes its velocity from splines, also after something else was loaded."""

    def flown(count, sample):
        values = case_of((1, comm.size), scalars=0, count=count, sample=["dissipation"]).model_dump()
        values["model"]["dealias"] = dealias
        values["model"]["dt"], values["model"]["courant"] = None, 0.4
        model = run(comm, TurbulenceCase.model_validate(values), 0)
        for _ in range(6):
            model.step(1)
            if sample:
                model.series()
        return model

    alone, carrying, sampled = flown(0, False), flown(N, False), flown(N, True)
    np.testing.assert_array_equal(flow(comm, sampled), flow(comm, carrying))
    np.testing.assert_allclose(flow(comm, carrying), flow(comm, alone), rtol=0, atol=1e-14)
    assert (flow(comm, carrying) != flow(comm, alone)).any()
    assert carrying.time(6) == pytest.approx(alone.time(6), rel=1e-13)


def test_what_series_spectra_and_data_set_want_is_sampled_once(comm, monkeypatch):
    model = run(comm, case_of((1, comm.size), sample=list(SAMPLED)), 1)
    values, loads = model._particles.tracers._values, []
    real = values.load
    monkeypatch.setattr(
        values, "load", lambda fields, *shift: loads.append(len(fields)) or real(fields, *shift)
    )
    series = model.series()
    assert loads == [3, 3, 3, 3]  # the gradient and the acceleration
    model.profiles()
    model._particles.sample(SAMPLED)
    assert loads[4:] == [1]  # the scalar
    assert model.series() == series
    model.step(1)
    assert model.series()["particle_enstrophy"] != series["particle_enstrophy"]
    assert len(loads) == 5 + 1 + 4


def test_a_correction_of_more_than_a_cell_is_made_on_another_rank(comm):
    """As if the flow of the step before had been another one."""

    def found(comm, process_grid):
        model = run(comm, case_of(process_grid), 1)
        particles = model._particles.tracers.particles
        particles["velocity"][:, particles.identity % 40 == 33] += 100.0
        model.step(1)
        assert (np.abs(particles["velocity"]) < 50.0).all()
        return model

    alone = found(MPI.COMM_SELF, (1, 1))
    expected = everything(MPI.COMM_SELF, alone), flow(MPI.COMM_SELF, alone)
    for process_grid in process_grids(comm.size, SHAPE):
        assert_same(comm, found(comm, process_grid), expected)


def test_accelerations_are_the_rates_of_velocities(comm, folder):
    """Du/Dt against the velocities of particles a short step before and after."""
    small = {"interpolation": "fourier", "count": 40}
    values = case_of((1, comm.size), "rk4", **small).model_dump()
    values["model"]["dt"] = 1e-4
    values["initial"] = {"kind": "taylor_green"}  # of few modes: the truncation takes nothing from products
    model = run(comm, TurbulenceCase.model_validate(values), 0)
    tracers, engine = model._particles.tracers, model._engine
    velocities = [tracers.ranges.gather(tracers.particles, "velocity")]
    for _ in range(2):
        model.step(1)
        velocities.append(tracers.ranges.gather(tracers.particles, "velocity"))
        if len(velocities) == 2:
            sampled = model._particles._samples.sample(("acceleration",), engine.fields, engine.forcing)
            found = tracers.in_order(sampled["acceleration"], tracers.particles.fields["velocity"])
    expected = (velocities[2] - velocities[0]) / 2e-4
    bound = 1e-5 * comm.allreduce(np.abs(expected).max(), MPI.MAX)
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)


def test_a_particle_that_is_not_finite_stops_the_run(comm):
    model = run(comm, case_of((1, comm.size)), 1)
    particles = model._particles.tracers.particles
    particles["velocity"][1, particles.identity == 33] = np.inf
    with pytest.raises(ParticleError, match=r"^particle 33 is at .* in step 2\. Its position is not finite"):
        model.step(1)


def test_ghosts_are_the_points_of_neighbours_on_any_cut(comm):
    """Also planes of fewer points than a stencil reaches."""
    shape = (6, 4, 8)
    whole = np.random.default_rng(1).random((*shape, 2))
    for process_grid in process_grids(comm.size, shape, "none"):
        grid = PencilGrid(shape, "none", process_grid, comm.rank)
        block = np.full((*padded_shape(grid.block), 2), np.nan)
        z, y, x = (
            (np.arange(n + PADDING) - BELOW + first) % size
            for n, first, size in zip(grid.block, grid.offset, shape)
        )
        expected = whole[np.ix_(z, y, x)]
        inside = tuple(slice(BELOW, BELOW + n) for n in grid.block[:2])
        block[inside] = expected[inside]
        GhostPlanes(grid, comm, 2, np.float64).fill(block)
        np.testing.assert_array_equal(block, expected)


@pytest.mark.parametrize("width", [(3, 3), (1, 2), (0, 1)])
def test_what_ghosts_have_is_added_to_the_points_that_they_are_of(comm, width):
    shape, below = (6, 4, 8), width[0]
    for process_grid in process_grids(comm.size, shape, "none"):
        grid = PencilGrid(shape, "none", process_grid, comm.rank)
        fields = np.random.default_rng(comm.rank).integers(0, 100, (2, *padded_shape(grid.block, width)))
        fields = np.ascontiguousarray(fields[..., : shape[2]])  # x is never cut, and has no ghosts here
        places = (np.arange(n + sum(width)) - below + first for n, first in zip(grid.block, grid.offset))
        z, y, _ = (place % size for place, size in zip(places, shape))
        whole = np.zeros((2, *shape), np.int64)
        np.add.at(whole, (slice(None), z[:, np.newaxis], y), fields)
        whole = comm.allreduce(whole)
        GhostPlanes(grid, comm, 2, np.int64, width).add(np.moveaxis(fields, 0, -1))
        (nz, ny, _), (at_z, at_y, _) = grid.block, grid.offset
        mine = fields[:, below : below + nz, below : below + ny]
        np.testing.assert_array_equal(mine, whole[:, at_z : at_z + nz, at_y : at_y + ny])


@pytest.mark.parametrize("interpolation", ["spline", "fourier"])
def test_the_estimate_states_the_memory_that_is_held(comm, interpolation):
    case = case_of((1, comm.size), "rk4", interpolation=interpolation, count=8 * 10**4, placement="uniform")
    model = run(comm, case, 0)
    total = comm.allreduce(sum(model.describe()["memory"].values()), MPI.MAX)
    assert total == pytest.approx(estimate(case, comm.size).memory_per_rank, rel=0.2)


def test_fewer_particles_than_ranks_are_written_and_saved(comm, folder):
    case = case_of((1, comm.size), folder=folder, count=1, every=1)
    model = run(comm, case, 1)
    output, _ = recorders_of_particles(model, comm)
    recorder = output.open({}, None)
    recorder.write(1)
    recorder.close()
    expected = everything(comm, model)
    comm.Barrier()
    with ridgeline.open(folder / "p.bp") as ds:
        np.testing.assert_array_equal(ds.position.isel(step=0).values, expected[:3].T)
    with CheckpointStore(comm, folder / "c") as store:
        store.save(model.state(), step=1, time=model.time(1), identity={})
        again = model_of(comm, case)
        store.load(again.state(), {})
    again.restored(1, model.time(1))
    np.testing.assert_array_equal(everything(comm, again), expected)


def test_without_particles_nothing_is_there(comm):
    case = case_of((1, comm.size), count=0)
    model = run(comm, case, 1)
    assert not hasattr(model._particles, "tracers")
    assert not [name for name in model.state() if name.startswith("particles")]
    assert (recorders_of_particles(model, comm), "particles" in model.phases) == ([], False)
    assert not [key for key in case.identity() if key.startswith("particles")]
    assert len(model._engine.stages()) == 0
