"""Exports as NetCDF and Zarr, which xarray opens without Ridgeline: the same bits, CF's names and units."""

import numpy as np
import pytest
import xarray as xr

import export_toys as toys
from ridgeline.io.export import source as sources
from ridgeline.io.export.arrays import write_netcdf, write_zarr
from ridgeline.io.export.source import ExportSource
from ridgeline.runtime.errors import OutputError

FORMATS = {"h5netcdf": ("a.nc", write_netcdf), "zarr": ("a.zarr", write_zarr)}


@pytest.fixture(params=FORMATS)
def exported(request, tmp_path):
    """A function that writes a source and opens the result with xarray alone."""
    pytest.importorskip(request.param)
    name, write = FORMATS[request.param]

    def export(source):
        write(source, tmp_path / name)
        return xr.open_dataset(tmp_path / name, engine=request.param)

    return export


@pytest.mark.parametrize("piece", [2**40, 100])
@pytest.mark.parametrize("kind", ["grid", "elements", "particles"])
def test_every_kind_reads_back_with_the_same_bits(exported, monkeypatch, kind, piece):
    monkeypatch.setattr(sources, "PIECE_BYTES", piece)
    data = getattr(toys, kind)()
    with exported(ExportSource(data)) as found:
        assert set(found.variables) == set(data.variables)
        assert set(found.coords) == set(data.coords)
        for name in set(map(str, data.variables)) - {"axis"}:
            assert found[name].dims == data[name].dims
            assert found[name].dtype == data[name].dtype, name
            assert np.array_equal(found[name].values, data[name].values), name


def test_names_and_units_follow_cf(exported):
    with exported(ExportSource(toys.particles())) as found:
        assert found.attrs["Conventions"].startswith("CF-")
        assert (found.position.units, found.position.long_name) == ("1", "position, in sigma")
        assert (found.velocity.units, found.velocity.long_name) == ("km/s", "velocity")
        assert (found.energy.units, found.energy.long_name) == ("1", "energy")
        assert found.axis.attrs["values"] == "x, y, z"
        assert found.attrs["boxxhi"] == 4.0


def test_axes_are_named_and_attributes_of_other_files_left_out(exported):
    with exported(ExportSource(toys.grid())) as found:
        assert [found[axis].attrs["axis"] for axis in "zyx"] == ["Z", "Y", "X"]
        assert found.attrs["model.F"] == 0.02
        assert not [key for key in found.attrs if key.startswith(("Fides", "vtk"))]
        assert found.attrs["source"].startswith("Ridgeline ")


def test_half_precision(exported):
    data = toys.grid()[["U"]].astype("float16")
    with exported(ExportSource(data)) as found:
        assert np.array_equal(found.U.values, data.U.values)


def test_complex_numbers_are_refused_for_netcdf(tmp_path):
    pytest.importorskip("h5netcdf")
    data = toys.grid()[["U"]].astype("complex128")
    with pytest.raises(OutputError, match="the variable U is complex128, which NetCDF does not have"):
        write_netcdf(ExportSource(data), tmp_path / "a.nc")
