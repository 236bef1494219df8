"""Data sets of points: whole arrays for `ridgeline.open`, blocks and vertices for ParaView, on any ranks."""

import numpy as np
import pytest

import ridgeline
from ridgeline.io import bp, bp_blocks
from ridgeline.io.bp import BPWriter, Variable
from ridgeline.io.bp_attributes import vertices
from ridgeline.io.data_set_check import check_data_set
from ridgeline.io.particle_output import ParticleWriter
from ridgeline.models import case_class, create, estimate
from ridgeline.particles.identity_ranges import IdentityRanges
from ridgeline.particles.particles import ParticleField
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import OutputError
from ridgeline.simulation.callbacks import Callbacks
from ridgeline.simulation.outputs import Outputs
from vtx_reader import VtxPoints

RANKS = (1, 2, 3)
QUICK_RANKS = (3,)
TIMEOUT = 240
FIELDS = {
    "position": ParticleField(np.float64, 3),
    "velocity": ParticleField(np.float32, 3),
    "image": ParticleField(np.int32, 3),
    "gradient": ParticleField(np.float64, 9),
    "dissipation": ParticleField(np.float64),
}


def values_of(n, step):
    """The same numbers for all particles, whatever rank writes them: [components, n] each."""
    rng = np.random.default_rng(step)
    return {name: (100 * rng.random(field.shape(n))).astype(field.dtype) for name, field in FIELDS.items()}


def write(comm, path, n, steps, keep=None):
    ranges = IdentityRanges(comm, n)
    writer = ParticleWriter(path, comm, ranges, FIELDS, {"made by": "a test"}, keep_steps=keep)
    mine = slice(ranges.first, ranges.first + ranges.n)
    for step in steps:
        whole = values_of(n, step)
        writer.write(step, 0.5 * step, {name: value[..., mine] for name, value in whole.items()})
    writer.close()
    comm.Barrier()


def assert_holds(path, n, steps):
    with ridgeline.open(path) as found:
        assert found.step.values.tolist() == list(steps)
        assert set(found.variables) == {"step", "time", "particle", "axis", *FIELDS}
        assert found.particle.values.tolist() == list(range(n))
        for k, step in enumerate(steps):
            for name, value in values_of(n, step).items():
                np.testing.assert_array_equal(found[name].isel(step=k).values, value.T)


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_both_readers_see_all_points_in_the_order_of_identities(comm, folder, n):
    write(comm, folder / "p.bp", n, (0, 10, 20))
    assert_holds(folder / "p.bp", n, (0, 10, 20))
    for k, step in enumerate((0, 10, 20)):
        seen, whole = VtxPoints(folder / "p.bp", k), values_of(n, step)
        np.testing.assert_array_equal(seen.points, whole.pop("position").T)
        assert seen.cells.tolist() == [[1, i] for i in range(n)]
        assert seen.type == 1, "VTK_VERTEX"
        assert seen.data.keys() == whole.keys()
        for name, value in whole.items():
            np.testing.assert_array_equal(seen.data[name], value.T)
        assert seen.times.tolist() == [0.0, 5.0, 10.0]
        assert seen.piece.attrib == {"NumberOfPoints": str(n), "NumberOfCells": str(n)}


def test_blocks_that_are_cut_on_their_way_have_the_same_vertices(comm, folder, monkeypatch):
    monkeypatch.setattr(bp_blocks, "SLAB", 1000)
    write(comm, folder / "p.bp", 300, (0,))
    assert_holds(folder / "p.bp", 300, (0,))
    seen = VtxPoints(folder / "p.bp", 0)
    np.testing.assert_array_equal(seen.points, values_of(300, 0)["position"].T)
    assert seen.cells.tolist() == [[1, i] for i in range(300)]


def test_parts_are_read_across_blocks(comm, folder):
    write(comm, folder / "p.bp", 100, (0, 1))
    whole = values_of(100, 1)["gradient"].T
    with ridgeline.open(folder / "p.bp") as found:
        last = found.gradient.isel(step=1)
        np.testing.assert_array_equal(last.isel(particle=slice(20, 80)).values, whole[20:80])
        np.testing.assert_array_equal(
            last.isel(particle=[99, 3, 50, 3], derivative=4), whole[[99, 3, 50, 3], 4]
        )
        np.testing.assert_array_equal(
            last.isel(particle=slice(45, 55), derivative=slice(2, 5)), whole[45:55, 2:5]
        )
        assert last.isel(particle=slice(30, 30)).shape == (0, 9)


def test_a_run_on_other_ranks_goes_on_with_the_same_vertices(comm, folder):
    few = comm.Split(comm.rank == 0, comm.rank)
    if comm.rank == 0:
        write(few, folder / "p.bp", 50, (0, 1))
    few.Free()
    comm.Barrier()
    write(comm, folder / "p.bp", 50, (1, 2), keep=1)
    assert_holds(folder / "p.bp", 50, (0, 1, 2))
    for k in range(3):
        seen = VtxPoints(folder / "p.bp", k)
        np.testing.assert_array_equal(seen.points, values_of(50, k)["position"].T)
        assert seen.cells.tolist() == [[1, i] for i in range(50)]
    check = check_data_set(folder / "p.bp")
    assert check.damages == ()
    assert check.bytes_compared == 50 * (8 + 3 * (3 * 8 + 3 * 4 + 3 * 4 + 9 * 8 + 8))


def test_a_data_set_of_a_version_that_wrote_the_cells_once_goes_on(comm, folder, monkeypatch):
    """It also had no attributes of step and time, nor a unit of arrays."""
    with monkeypatch.context() as patch:
        cells = iter([vertices(0), vertices(50)])
        patch.setattr(bp, "vertices", lambda n: next(cells, {}))
        patch.setattr(bp, "COORDINATES", {})
        write(comm, folder / "p.bp", 50, (0, 1))
    write(comm, folder / "p.bp", 50, (2, 3), keep=2)
    assert_holds(folder / "p.bp", 50, (0, 1, 2, 3))
    with ridgeline.open(folder / "p.bp") as found:
        assert found.time.attrs == {"units": "1", "long_name": "model time"}
    assert check_data_set(folder / "p.bp").damages == ()


def test_a_changed_value_of_a_block_is_found(comm, folder):
    write(comm, folder / "p.bp", 40, (0,))
    if comm.rank == 0:
        data = folder / "p.bp" / "data.0"
        content = bytearray(data.read_bytes())
        there = content.index(values_of(40, 0)["dissipation"][37:38].tobytes())
        content[there] ^= 1
        data.write_bytes(content)
        (damage,) = check_data_set(folder / "p.bp").damages
        assert damage.startswith("dissipation is not as it was written at output step 0")


def test_a_data_set_of_the_older_layout_is_not_continued(comm, folder):
    n = comm.size
    block = (n, 3), (comm.rank, 0), (1, 3)
    variable = Variable("place", np.float64, *block, dims=("atom", "axis"))
    with BPWriter(folder / "p.bp", comm, [variable], {}) as writer:
        writer.write(0, 0.0, {"place": np.zeros((1, 3))})
    with pytest.raises(
        OutputError, match=r"has its arrays in the layout of an older version of Ridgeline. Set output\.path"
    ):
        BPWriter(folder / "p.bp", comm, [variable], {}, keep_steps=1, points="place")


MODELS = {
    "molecular_dynamics": ({"cells": [6, 4, 4]}, 384),
    "n_body": ({"shape": [16, 16, 16], "particles": 8, "length": 40.0}, 512),
}


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("molecular_dynamics", ["position", "velocity", "image"]),
        ("molecular_dynamics", ["velocity"]),
        ("n_body", ["position", "velocity"]),
    ],
)
def test_particles_are_points_where_their_places_are_written(comm, folder, name, names):
    grid, n = MODELS[name]
    output = {"path": f"{folder}/a.bp", "variables": names, "every": 1, "initial": True, "series_every": 0}
    case = case_class(name).model_validate(
        {"run": {"model": name, "steps": 1, "check_memory": False}, "grid": grid, "output": output}
    )
    model = create(name)
    model.setup(case, Context(comm))
    model.compile()
    model.initialize()
    outputs = Outputs(case, model, comm, {"settings": {}}, 0, None, Callbacks(case, comm))
    outputs.write_initial()
    outputs.close()
    comm.Barrier()
    whole = {key: np.concatenate(comm.allgather(model.outputs([key])[key].local)) for key in names}
    with ridgeline.open(folder / "a.bp") as found:
        vertices = 16 * n if "position" in names else 0
        assert estimate(case, comm.size).output_bytes == 2 * (
            vertices + sum(found[key][0].nbytes for key in names)
        )
        for key, value in whole.items():
            np.testing.assert_array_equal(found[key].isel(step=0).values, value)
        assert ("vtk.xml" in found.attrs) == ("position" in names)
    if "position" in names:
        seen = VtxPoints(folder / "a.bp", 0)
        np.testing.assert_array_equal(seen.points, whole["position"])
        assert seen.cells.tolist() == [[1, i] for i in range(n)]
        assert seen.data.keys() == {*names} - {"position"}
