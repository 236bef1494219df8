"""Exports for VTK's programs, read with VTK's own readers: the same bits, and the same polynomials in elements."""

import re

import numpy as np
import pytest

import export_toys as toys
from ridgeline.io.export import source as sources
from ridgeline.io.export.source import ExportSource
from ridgeline.io.export.vtk_files import write_collection, write_vtk_file
from ridgeline.io.export.vtkhdf import write_vtkhdf
from ridgeline.runtime.errors import ConfigError

vtk = pytest.importorskip("vtkmodules.all", reason="VTK is not installed: pip install pyvista")
to_numpy = pytest.importorskip("vtkmodules.util.numpy_support").vtk_to_numpy

READERS = {
    ".vti": "vtkXMLImageDataReader",
    ".vtu": "vtkXMLUnstructuredGridReader",
    ".vtp": "vtkXMLPolyDataReader",
}


def read(path):
    reader = getattr(vtk, READERS[path.suffix])()
    reader.SetFileName(str(path))
    reader.Update()
    assert reader.GetErrorCode() == 0
    return reader.GetOutput()


def collected(path):
    """The step files of a .pvd file, with their times."""
    listed = re.findall(r'timestep="([^"]+)" part="0" file="([^"]+)"', path.read_text())
    return [(float(time), path.parent / name) for time, name in listed]


def array(output, name):
    return to_numpy(output.GetPointData().GetArray(name))


def places(output):
    return to_numpy(output.GetPoints().GetData())


@pytest.fixture(params=[2**40, 200], ids=["whole", "pieces"])
def pieces(request, monkeypatch):
    """Write in one piece, and in pieces of a few numbers."""
    monkeypatch.setattr(sources, "PIECE_BYTES", request.param)


def velocity(data, index):
    return np.stack([data[f"velocity_{axis}"].values[index] for axis in "xyz"], axis=-1)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(5, 4, 7), (1, 3, 6), (2, 1, 1)])
def test_images(tmp_path, shape, dtype):
    data = toys.grid(shape, dtype)
    write_collection(ExportSource(data), tmp_path / "a.pvd")
    files = collected(tmp_path / "a.pvd")
    assert [time for time, _ in files] == list(toys.TIMES)
    for index, (time, file) in enumerate(files):
        image = read(file)
        assert image.GetDimensions() == shape[::-1]
        assert image.GetOrigin() == (2.0, -1.0, 0.5)
        expected = [h if n > 1 else 1.0 for n, h in zip(shape[::-1], (0.125, 0.5, 0.25))]
        assert list(image.GetSpacing()) == expected
        for name in ("U", "V"):
            found = array(image, name)
            assert found.dtype == data[name].dtype
            assert np.array_equal(found, data[name].values[index].reshape(-1))
        assert np.array_equal(array(image, "velocity"), velocity(data, index).reshape(-1, 3))
        assert to_numpy(image.GetFieldData().GetArray("TimeValue"))[0] == time


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("n", [2, 3, 4, pytest.param(6, marks=pytest.mark.full)])
def test_elements_have_the_places_and_values_of_their_polynomials_everywhere(tmp_path, n):
    data = toys.elements(n, bent=0.3)
    write_collection(ExportSource(data), tmp_path / "a.pvd")
    _, file = collected(tmp_path / "a.pvd")[-1]
    mesh = read(file)
    assert mesh.GetNumberOfCells() == 3
    points = (toys.gauss_lobatto(n)[0] + 1.0) / 2.0
    weights = np.empty(n**3)
    for number in range(3):
        cell = mesh.GetCell(number)
        assert cell.GetCellType() == 72
        nodes = [cell.GetPointId(i) for i in range(cell.GetNumberOfPoints())]
        for k, j, i in np.ndindex(n, n, n):
            cell.InterpolateFunctions([points[i], points[j], points[k]], weights)
            at = [data[name].values[number, k, j, i] for name in "xyz"]
            assert weights @ places(mesh)[nodes] == pytest.approx(at, abs=1e-12)
            value = data["pressure"].values[-1, number, k, j, i]
            assert weights @ array(mesh, "pressure")[nodes] == pytest.approx(value, abs=1e-10)
            vector = velocity(data, -1)[number, k, j, i]
            assert weights @ array(mesh, "velocity")[nodes] == pytest.approx(vector, abs=1e-10)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("n", [2, 3, 5])
def test_faces_of_a_side_have_the_places_and_values_of_their_polynomials_everywhere(tmp_path, n):
    data = toys.faces(n, bent=0.3)
    write_collection(ExportSource(data), tmp_path / "a.pvd")
    _, file = collected(tmp_path / "a.pvd")[-1]
    mesh = read(file)
    assert mesh.GetNumberOfCells() == 3
    points = (toys.gauss_lobatto(n)[0] + 1.0) / 2.0
    weights = np.empty(n**2)
    for number in range(3):
        cell = mesh.GetCell(number)
        assert cell.GetCellType() == 70
        nodes = [cell.GetPointId(i) for i in range(cell.GetNumberOfPoints())]
        for j, i in np.ndindex(n, n):
            cell.InterpolateFunctions([points[i], points[j], 0.0], weights)
            at = [data[name].values[number, j, i] for name in "xyz"]
            assert weights @ places(mesh)[nodes] == pytest.approx(at, abs=1e-12)
            value = data["pressure"].values[-1, number, j, i]
            assert weights @ array(mesh, "pressure")[nodes] == pytest.approx(value, abs=1e-10)
            vector = [data[f"wall_shear_{axis}"].values[-1, number, j, i] for axis in "xyz"]
            assert weights @ array(mesh, "wall_shear")[nodes] == pytest.approx(vector, abs=1e-10)


def test_vtk_finds_the_value_at_any_place_of_an_element(tmp_path):
    """VTK's probe inverts the map of the cells, and so depends on the order of the nodes."""
    data = toys.elements(4).isel(step=[0])
    write_vtk_file(ExportSource(data), tmp_path / "a.vtu")
    targets = np.random.default_rng(1).random((40, 3)) * [3.0, 1.0, 1.0]
    cloud, points = vtk.vtkPolyData(), vtk.vtkPoints()
    for target in targets:
        points.InsertNextPoint(target)
    cloud.SetPoints(points)
    probe = vtk.vtkProbeFilter()
    probe.SetInputData(cloud)
    probe.SetSourceData(read(tmp_path / "a.vtu"))
    probe.Update()
    placed = places(probe.GetOutput())  # VTK's points are float32
    expected = 4.0 * toys.polynomial(*placed.T.astype("float64"))
    assert array(probe.GetOutput(), "pressure") == pytest.approx(expected, abs=1e-5)


@pytest.mark.usefixtures("pieces")
def test_particles(tmp_path):
    data = toys.particles()
    write_collection(ExportSource(data), tmp_path / "a.pvd")
    for index, (_, file) in enumerate(collected(tmp_path / "a.pvd")):
        cloud = read(file)
        assert cloud.GetNumberOfVerts() == 11
        assert np.array_equal(places(cloud), data.position.values[index])
        for name in ("velocity", "force", "image", "energy"):
            assert np.array_equal(array(cloud, name), data[name].values[index])


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("steps", [[1], [0, 1, 2]])
@pytest.mark.parametrize("kind", ["grid", "elements", "faces", "particles"])
def test_vtkhdf_holds_what_the_xml_files_hold(tmp_path, kind, steps):
    pytest.importorskip("h5py")
    data = getattr(toys, kind)().isel(step=steps)
    write_collection(ExportSource(data), tmp_path / "a.pvd")
    write_vtkhdf(ExportSource(data), tmp_path / "a.vtkhdf")
    reader = vtk.vtkHDFReader()
    reader.SetFileName(str(tmp_path / "a.vtkhdf"))
    reader.UpdateInformation()
    for time, file in collected(tmp_path / "a.pvd"):
        if len(steps) > 1:
            reader.UpdateTimeStep(time)
        else:
            reader.Update()
        found, expected = reader.GetOutputDataObject(0), read(file)
        assert found.GetNumberOfCells() == expected.GetNumberOfCells()
        names = [
            expected.GetPointData().GetArrayName(i)
            for i in range(expected.GetPointData().GetNumberOfArrays())
        ]
        for name in names:
            assert np.array_equal(array(found, name), array(expected, name)), name
        if kind == "grid":
            assert (found.GetOrigin(), found.GetSpacing()) == (expected.GetOrigin(), expected.GetSpacing())
            continue
        assert np.array_equal(places(found), places(expected))
        for number in range(found.GetNumberOfCells()):
            cells = [output.GetCell(number).GetPointIds() for output in (found, expected)]
            ids = [[cell.GetId(i) for i in range(cell.GetNumberOfIds())] for cell in cells]
            assert ids[0] == ids[1]


def test_uneven_grids_are_refused(tmp_path):
    data = toys.grid().assign_coords(x=("x", np.arange(7.0) ** 2))
    with pytest.raises(ConfigError, match="the points along x are not evenly spaced"):
        write_collection(ExportSource(data), tmp_path / "a.pvd")
