"""Exports of particles as text, read with ASE, and of element fields as Nek5000 files, read with pymech."""

import numpy as np
import pytest

import export_toys as toys
import ridgeline
from ridgeline.io.export import trajectories
from ridgeline.io.export.nek5000_fields import write_field_files
from ridgeline.io.export.source import ExportSource
from ridgeline.io.export.trajectories import write_extxyz, write_lammps_dump
from ridgeline.runtime.errors import ConfigError

ENDS = np.array([4.0, 5.0, 6.0])


@pytest.fixture
def ase_read(monkeypatch):
    monkeypatch.setattr(trajectories, "_LINES", 4)  # fewer than the atoms
    return pytest.importorskip("ase.io", reason="ASE is not installed: pip install ase").read


def test_lammps_dump(tmp_path, ase_read):
    data = toys.particles()
    write_lammps_dump(ExportSource(data), tmp_path / "a.lammpstrj")
    frames = ase_read(tmp_path / "a.lammpstrj", ":", format="lammps-dump-text", units="metal")
    assert len(frames) == 3
    for index, frame in enumerate(frames):
        assert np.array_equal(frame.positions, data.position.values[index])
        assert np.array_equal(frame.cell.lengths(), ENDS)
        assert frame.pbc.tolist() == [True, True, False]
    lines = (tmp_path / "a.lammpstrj").read_text().splitlines()
    assert lines[8] == "ITEM: ATOMS id type x y z vx vy vz fx fy fz ix iy iz energy"
    steps = [int(lines[i + 1]) for i, line in enumerate(lines) if line == "ITEM: TIMESTEP"]
    assert steps == list(toys.STEPS)
    numbers = np.array([line.split() for line in lines[9:20]], float)
    assert numbers[:, 0].tolist() == list(range(1, 12))
    assert np.array_equal(numbers[:, 5:8], data.velocity.values[0])
    assert np.array_equal(numbers[:, 11:14], data.image.values[0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_extended_xyz(tmp_path, ase_read, dtype):
    data = toys.particles(dtype=dtype)
    write_extxyz(ExportSource(data), tmp_path / "a.extxyz")
    frames = ase_read(tmp_path / "a.extxyz", ":")
    assert [(frame.info["Step"], frame.info["Time"]) for frame in frames] == list(zip(toys.STEPS, toys.TIMES))
    for index, frame in enumerate(frames):
        assert np.array_equal(frame.positions, data.position.values[index])
        assert np.array_equal(frame.get_forces(), data.force.values[index])
        assert np.array_equal(frame.arrays["velo"].astype(dtype), data.velocity.values[index])
        assert np.array_equal(frame.arrays["image"], data.image.values[index])
        assert np.array_equal(frame.cell.lengths(), ENDS)
        assert frame.pbc.tolist() == [True, True, False]


def test_the_box_is_that_of_the_particles_where_the_data_set_has_none(tmp_path, ase_read):
    data = toys.particles().drop_attrs()
    write_extxyz(ExportSource(data), tmp_path / "a.extxyz")
    extent = data.position.values[2].max(axis=0) - data.position.values[2].min(axis=0)
    frame = ase_read(tmp_path / "a.extxyz", 2)
    assert np.array_equal(frame.cell.lengths(), extent)
    assert not frame.pbc.any()


def test_chosen_atoms_keep_their_identities(tmp_path, ase_read):
    data = toys.particles()
    source = ExportSource(data, step="last", region="x=0:2.0")
    write_extxyz(source, tmp_path / "a.extxyz")
    inside = np.flatnonzero(data.position.values[-1, :, 0] <= 2.0)
    assert 0 < len(inside) < 11
    frame = ase_read(tmp_path / "a.extxyz")
    assert frame.arrays["id"].tolist() == (inside + 1).tolist()
    assert np.array_equal(frame.positions, data.position.values[-1, inside])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_nek5000_field_files(tmp_path, dtype):
    pymech = pytest.importorskip("pymech")
    data = toys.elements(5, bent=0.2, dtype=dtype)
    data = data.assign_coords({name: data[name].astype(dtype) for name in "xyz"})
    write_field_files(ExportSource(data), tmp_path / "duct.nek5000")
    with ridgeline.open(tmp_path / "duct.nek5000") as back:  # compares the extremes of all elements
        assert back.step.values.tolist() == list(toys.STEPS)
        for name in (*data.data_vars, "x", "y", "z"):
            assert np.array_equal(back[name].values, data[name].values), name
    for index in range(3):
        file = pymech.readnek(str(tmp_path / f"duct0.f0000{index + 1}"))
        assert file.time == toys.TIMES[index]
        for number in range(3):
            velocity = [data[f"velocity_{axis}"].values[index, number] for axis in "xyz"]
            assert np.array_equal(file.elem[number].vel, velocity)
            assert np.array_equal(file.elem[number].temp[0], data.scalar_0.values[index, number])
            assert np.array_equal(file.elem[number].pos[0], data.x.values[number])


def test_fields_that_nek5000_does_not_have_are_refused(tmp_path):
    data = toys.elements().rename(pressure="q_criterion")
    with pytest.raises(ConfigError, match="but not q_criterion"):
        write_field_files(ExportSource(data), tmp_path / "a.nek5000")
    assert not list(tmp_path.iterdir())
