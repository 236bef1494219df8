"""Files for viewers have the same bytes on any number of ranks, continue after a resume, and survive damage."""

import re

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.io import viewer
from ridgeline.io.bp_blocks import Variable
from ridgeline.io.viewer import ViewerWriter, viewer_layout
from ridgeline.parallel.partition import split
from ridgeline.runtime import serial_mpi
from ridgeline.runtime.errors import ConfigError, OutputError

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
SHAPES = {"grid": (7, 5, 6), "elements": (5, 3, 3, 3), "particles": (10, 3), "few": (2, 3)}
NAMES = {
    "grid": {"U": "float64", "v_x": "float32", "v_y": "float32", "v_z": "float32"},
    "elements": {"p": "float64", "v_x": "float64", "v_y": "float64", "v_z": "float64"},
    "particles": {"position": "float64", "velocity": "float32", "image": "int32"},
    "few": {"position": "float64"},
}


def block_of(comm, kind):
    """This rank's (offset, shape): blocks in all three directions of a grid, and rows of the others."""
    shape = SHAPES[kind]
    if kind != "grid":
        first, n = split(shape[0], comm.size, comm.rank)
        return (first, *(0,) * (len(shape) - 1)), (n, *shape[1:])
    parts = {1: (1, 1, 1), 2: (1, 1, 2), 3: (1, 3, 1), 4: (1, 2, 2)}[comm.size]
    place = np.unravel_index(comm.rank, parts)
    offset, local = zip(*(split(n, p, int(i)) for n, p, i in zip(shape, parts, place)))
    return offset, local


def fields_of(kind, step):
    """Whole arrays, the same on all ranks."""
    random = np.random.default_rng(step)
    names = NAMES[kind] | (dict.fromkeys("xyz", "float64") if kind == "elements" else {})
    return {name: (100 * random.normal(size=SHAPES[kind])).astype(dtype) for name, dtype in names.items()}


def make(comm, folder, kind, keep=None, name="a"):
    offset, local = block_of(comm, kind)
    dims = {"grid": (), "elements": ("element", "t", "s", "r")}.get(kind, ("atom", "axis"))
    variables = [Variable(n, d, SHAPES[kind], offset, local, dims=dims) for n, d in NAMES[kind].items()]
    position = "position" if "position" in NAMES[kind] else ""
    layout = viewer_layout(variables, (0.5, 1.0, -1.0), (0.25, 1.0, 2.0), position)
    return ViewerWriter(folder, name, comm, layout, variables[0], keep_steps=keep)


def write(writer, comm, kind, *steps):
    offset, local = block_of(comm, kind)
    here = tuple(slice(first, first + n) for first, n in zip(offset, local))
    for step in steps:
        values = {name: array[here] for name, array in fields_of(kind, step).items()}
        assert writer.write(step, 0.1 * step, values) > 0


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("round_bytes", [32 << 20, 100])
@pytest.mark.parametrize("kind", SHAPES)
def test_files_do_not_depend_on_ranks(comm, folder, monkeypatch, kind, round_bytes):
    monkeypatch.setattr(viewer, "ROUND_BYTES", round_bytes)
    write(make(comm, folder / "all", kind), comm, kind, 3, 4)
    comm.Barrier()
    monkeypatch.undo()
    if comm.rank == 0:
        write(make(MPI.COMM_SELF, folder / "alone", kind), MPI.COMM_SELF, kind, 3, 4)
        assert contents(folder / "all") == contents(folder / "alone")
        monkeypatch.setattr(viewer, "mpi", serial_mpi)
        write(make(serial_mpi.COMM_SELF, folder / "serial", kind), serial_mpi.COMM_SELF, kind, 3, 4)
        assert contents(folder / "all") == contents(folder / "serial")
        listed = re.findall(r'timestep="([^"]+)".*file="([^"]+)"', (folder / "all" / "a.pvd").read_text())
        assert [(float(time), name[:10]) for time, name in listed] == [
            (0.1 * 3, "a_00000003"),
            (0.4, "a_00000004"),
        ]
    comm.Barrier()


def test_a_continued_run_has_the_files_of_one_that_never_stopped(comm, folder):
    write(make(comm, folder / "whole", "grid"), comm, "grid", 1, 2, 3)
    write(make(comm, folder / "parts", "grid"), comm, "grid", 1, 2, 7)
    if comm.rank == 0:  # of a run that was killed while it wrote
        (folder / "parts" / "a_00000008.vti.partial").write_text("half")
    comm.Barrier()
    write(make(comm, folder / "parts", "grid", keep=2), comm, "grid", 3)
    comm.Barrier()
    assert contents(folder / "parts") == contents(folder / "whole")
    comm.Barrier()


def test_files_of_an_earlier_run_are_set_aside(comm, folder):
    write(make(comm, folder / "v", "grid"), comm, "grid", 1)
    comm.Barrier()
    before = contents(folder / "v")
    comm.Barrier()
    write(make(comm, folder / "v", "grid"), comm, "grid", 2)
    comm.Barrier()
    assert contents(folder / "v.previous") == before
    assert set(contents(folder / "v")) == {"a.pvd", "a_00000002.vti"}
    comm.Barrier()


@pytest.mark.parametrize("damage", ["missing file", "missing list", "foreign file", "foreign list"])
def test_damage_is_one_sentence_on_all_ranks_and_nothing_is_lost(comm, folder, damage):
    write(make(comm, folder / "v", "grid"), comm, "grid", 1, 2)
    comm.Barrier()
    if comm.rank == 0:
        if damage == "missing file":
            (folder / "v" / "a_00000002.vti").unlink()
        elif damage == "missing list":
            (folder / "v" / "a.pvd").unlink()
        elif damage == "foreign list":
            (folder / "v" / "a.pvd").write_text("<VTKFile/>")
        else:
            (folder / "v" / "notes.txt").write_text("mine")
        before = contents(folder / "v")
    comm.Barrier()
    words = "does not list 2 files that exist" if damage.startswith("missing") else "was not written by a run"
    with pytest.raises(OutputError, match=words):
        make(comm, folder / "v", "grid", keep=2)
    comm.Barrier()
    if comm.rank == 0:
        assert contents(folder / "v") == before
    comm.Barrier()


def test_a_full_disk_is_an_error_on_all_ranks_and_earlier_files_stay(comm, folder, monkeypatch):
    writer = make(comm, folder / "v", "grid")
    write(writer, comm, "grid", 1)
    comm.Barrier()
    before = contents(folder / "v")
    full = type("Usage", (), {"free": 10})
    monkeypatch.setattr(viewer.shutil, "disk_usage", lambda path: full)
    comm.Barrier()
    with pytest.raises(OutputError, match=r"are needed, but 0\.0 MiB are free"):
        write(writer, comm, "grid", 2)
    comm.Barrier()
    assert contents(folder / "v") == before
    comm.Barrier()


def test_outputs_that_vtk_cannot_show_are_refused():
    velocity = Variable("velocity", "float64", (10, 3), (0, 0), (10, 3), dims=("atom", "axis"))
    with pytest.raises(ConfigError, match=r'add "position" to output\.variables'):
        viewer_layout([velocity], (0.0,) * 3, (1.0,) * 3, "position")
    with pytest.raises(ConfigError, match="requires fields on a grid, on spectral elements or of particles"):
        viewer_layout([Variable("u", "float64", (10,), (0,), (10,))], (0.0,) * 3, (1.0,) * 3, "")
