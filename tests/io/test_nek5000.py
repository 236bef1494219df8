"""Nek5000 field files: what is written comes back, here and in pymech; damage is told in a sentence."""

from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI
from pymech import neksuite

import ridgeline
from ridgeline.elements.mappings import wavy
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.io.nek5000 import Nek5000Writer
from ridgeline.io.nek5000_read import read_field_file
from ridgeline.runtime.errors import ConfigError, OutputError

COMM = MPI.COMM_SELF
BOX = ((0.0, 0.0, 0.0), (1.0, 2.0, 3.0))


def make_grid(order: int = 3) -> ElementGrid:
    mesh = BoxMesh.box((2, 3, 2), BOX[1], mapping=wavy(*BOX, 0.03))
    return ElementGrid(mesh, order)


def make_fields(grid: ElementGrid, scalars: int = 3):
    """Velocity, pressure and scalars that differ at every point."""
    values = np.random.default_rng(4).normal(size=(4 + scalars, *grid.shape))
    return values[:3], values[3], values[4:]


def write(folder: Path, precision: str = "float64", scalars: int = 3, **more):
    grid = make_grid()
    fields = make_fields(grid, scalars)
    writer = Nek5000Writer(COMM, folder / "duct", grid, grid.coordinates, precision=precision, **more)
    writer.write(7, 0.35, *fields)
    return grid, fields, writer


def in_order(grid: ElementGrid, field: np.ndarray) -> np.ndarray:
    """The elements of a field [..., e, z, y, x] by their numbers."""
    return np.take(field, np.argsort(grid.number), axis=-4)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("scalars", [0, 1, 3])
def test_what_is_written_is_read(tmp_path, precision, scalars):
    grid, (u, p, s), writer = write(tmp_path, precision, scalars)
    found = read_field_file(writer.name(1))
    assert (found.step, found.time, found.header.n) == (7, 0.35, 4)
    kept = np.dtype(precision).type
    pairs = [(found.coordinates, grid.coordinates), (found.velocity, u), (found.pressure, p)]
    pairs += [(found.temperature, s[0])] if scalars else []
    pairs += list(zip(found.scalars, s[1:], strict=True))
    for got, expected in pairs:
        np.testing.assert_array_equal(got, in_order(grid, expected.astype(kept)))
    assert (found.temperature is None) == (scalars == 0)
    tags = {"X": grid.coordinates, "U": u, "P": p[None]} | ({"T": s[:1]} if scalars else {})
    for tag, expected in tags.items():
        inside = in_order(grid, expected.astype(np.float32)).reshape(len(expected), grid.n_elements, -1)
        np.testing.assert_array_equal(found.extremes[tag], np.stack([inside.min(2), inside.max(2)], -1))


def test_files_are_opened_as_data_sets(tmp_path):
    """One as a step, all by their list; what is indexed is what was written, of whichever file."""
    grid, (u, p, s), writer = write(tmp_path)
    writer.write(9, 0.45, 2 * u, 2 * p, 2 * s)
    fields = {f"velocity_{axis}": values for axis, values in zip("xyz", u)} | {"pressure": p}
    fields = {
        name: in_order(grid, values)
        for name, values in {**fields, "scalar_0": s[0], "scalar_2": s[2]}.items()
    }
    for path, steps in ((writer.name(1), [7]), (writer.name(2), [9]), (tmp_path / "duct.nek5000", [7, 9])):
        with ridgeline.open(path) as data:
            assert data.step.values.tolist() == steps
            assert data.time.values.tolist() == [{7: 0.35, 9: 0.45}[step] for step in steps]
            assert set(data.data_vars) == {*fields, "scalar_1"}
            for axis, places in zip("xyz", grid.coordinates):
                np.testing.assert_array_equal(data[axis], in_order(grid, places))
            for name, values in fields.items():
                whole = np.stack([values * (2 if step == 9 else 1) for step in steps])
                np.testing.assert_array_equal(data[name], whole)
                part = data[name].isel(step=-1, element=[5, 1], t=slice(1, 3), r=0)
                np.testing.assert_array_equal(part, whole[-1][[5, 1], 1:3, :, 0])
    assert ridgeline.open(tmp_path / "duct.nek5000", steps=1).sizes["step"] == 1
    writer.name(1).unlink()
    with pytest.raises(OutputError, match=r"duct0\.f00001"):
        ridgeline.open(writer.name(2))  # whose mesh is in the first


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_pymech_reads_the_same(tmp_path, precision):
    grid, (u, p, s), writer = write(tmp_path, precision)
    found = neksuite.readnek(str(writer.name(1)))
    assert (found.istep, found.time, found.ndim, found.nel) == (7, 0.35, 3, grid.n_elements)
    assert tuple(found.lr1) == (4, 4, 4)
    assert found.endian == "little"
    kept = np.dtype(precision).type
    for local, number in enumerate(grid.number):
        element = found.elem[number]
        for got, expected in [(element.pos, grid.coordinates), (element.vel, u), (element.scal, s[1:])]:
            np.testing.assert_array_equal(got, expected[:, local].astype(kept))
        for got, expected in [(element.pres, p), (element.temp, s[0])]:
            np.testing.assert_array_equal(got[0], expected[local].astype(kept))


def test_pymech_writes_what_this_writes(tmp_path):
    """Byte for byte, extremes included, with at most one scalar: of several, pymech mixes the extremes."""
    _, _, writer = write(tmp_path, scalars=2)
    neksuite.writenek(str(tmp_path / "again"), neksuite.readnek(str(writer.name(1))))
    assert (tmp_path / "again").read_bytes() == writer.name(1).read_bytes()


@pytest.mark.parametrize("tag", ["X", "U", "P", "T"])
def test_values_that_are_not_those_of_the_extremes_are_refused(tmp_path, tag):
    """A range of zeros, over one component of an element."""
    _, _, writer = write(tmp_path)
    whole = read_field_file(writer.name(1))
    section = next(section for section in whole.header.sections if section.tag == tag)
    content = bytearray(writer.name(1).read_bytes())
    np.frombuffer(content, "<f8", whole.header.points, section.start)[:] = 0.0
    writer.name(1).write_bytes(content)
    with pytest.raises(
        OutputError, match=rf"in 1 of its 12 elements .*, {tag} does not have .* compare=False"
    ) as caught:
        read_field_file(writer.name(1))
    assert "\n" not in str(caught.value)
    assert read_field_file(writer.name(1), compare=False).step == 7


def test_the_mesh_is_in_the_first_file_alone_unless_asked(tmp_path):
    for mesh, later in (("first", None), ("every", 3)):
        _, fields, writer = write(tmp_path, mesh=mesh)
        writer.write(8, 0.4, *fields)
        assert read_field_file(writer.name(1)).coordinates is not None
        coordinates = read_field_file(writer.name(2)).coordinates
        assert (coordinates if coordinates is None else len(coordinates)) == later


def test_viewers_find_the_files(tmp_path):
    _, fields, writer = write(tmp_path)
    writer.write(8, 0.4, *fields)
    words = (tmp_path / "duct.nek5000").read_text().split()
    told = dict(zip(words[::2], words[1::2]))
    assert told == {"filetemplate:": "duct%01d.f%05d", "firsttimestep:": "1", "numtimesteps:": "2"}
    names = {told["filetemplate:"] % (0, i) for i in (1, 2)}
    assert {path.name for path in tmp_path.iterdir()} == names | {"duct.nek5000"}


def test_a_run_goes_on_after_its_kept_files(tmp_path):
    grid, fields, writer = write(tmp_path)
    for step in (8, 9):
        writer.write(step, 0.4, *fields)
    again = Nek5000Writer(COMM, tmp_path / "duct", grid, grid.coordinates, keep_files=1)
    assert not writer.name(2).exists()
    again.write(10, 0.5, *fields)
    assert [read_field_file(again.name(i)).step for i in (1, 2)] == [7, 10]
    assert read_field_file(again.name(2)).coordinates is None
    with pytest.raises(OutputError, match=r"no .*f00003, which the run had written"):
        Nek5000Writer(COMM, tmp_path / "duct", grid, grid.coordinates, keep_files=3)


def test_what_is_no_field_file_is_not_deleted(tmp_path):
    (tmp_path / "duct0.f00004").write_text("my notes")
    with pytest.raises(OutputError, match="would be replaced"):
        write(tmp_path)
    assert (tmp_path / "duct0.f00004").read_text() == "my notes"


@pytest.mark.parametrize("name", ["a duct", "duct%d"])
def test_names_that_viewers_cannot_read_are_refused(tmp_path, name):
    grid = make_grid()
    with pytest.raises(ConfigError, match=r"output\.nek5000"):
        Nek5000Writer(COMM, tmp_path / name, grid, grid.coordinates)


def test_a_full_disk_is_told_before_anything_is_written(tmp_path, monkeypatch):
    _, fields, writer = write(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(OutputError, match=r"cannot write .* are needed, but 0\.0 MiB are free"):
        writer.write(8, 0.4, *fields)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["duct.nek5000", "duct0.f00001"]
    assert writer.files == 1


def test_a_folder_that_refuses_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    grid = make_grid()
    with pytest.raises(OutputError, match=r"cannot write Nek5000 files .*set output\.nek5000"):
        Nek5000Writer(COMM, tmp_path / "file" / "duct", grid, grid.coordinates)


def swapped(raw: bytes, n_elements: int, word: int, data_end: int) -> bytes:
    """The file as a machine of the other order of bytes writes it."""
    head = raw[:132] + np.frombuffer(raw[132 : 136 + 4 * n_elements], "<i4").astype(">i4").tobytes()
    data = np.frombuffer(raw[136 + 4 * n_elements : data_end], f"<f{word}").astype(f">f{word}").tobytes()
    return head + data + np.frombuffer(raw[data_end:], "<f4").astype(">f4").tobytes()


def test_files_of_the_other_order_of_bytes_are_read(tmp_path):
    grid, (u, _, _), writer = write(tmp_path)
    header = read_field_file(writer.name(1)).header
    path = tmp_path / "swapped"
    path.write_bytes(swapped(writer.name(1).read_bytes(), grid.n_elements, 8, header.data_end))
    np.testing.assert_array_equal(read_field_file(path).velocity, in_order(grid, u))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda raw: raw[:-100], "is cut off: it has"),
        (lambda raw: raw[:50], "is damaged: its header"),
        (lambda raw: raw + b"more", "is damaged: it has"),
        (lambda raw: b"#xyz" + raw[4:], "is not a Nek5000 field file"),
        (lambda raw: b"", "is not a Nek5000 field file"),
        (lambda raw: raw[:132] + b"\0\0\0\0" + raw[136:], "byte order"),
        (lambda raw: raw[:136] + raw[140:144] + raw[140:], "not numbered 1 to 12"),
        (lambda raw: raw.replace(b" 4  4  4", b" 4  4  1", 1), "elements with the same number of points"),
        (lambda raw: raw.replace(b"0      1 XUPTS02", b"0      4 XUPTS02", 1), "one of 4 parts"),
        (lambda raw: raw.replace(b"XUPTS02", b"XUPTS2 ", 1), "is damaged: its header"),
        (lambda raw: raw.replace(b"XUPTS02", b"XUPTS03", 1), "is cut off: it has"),
    ],
)
def test_damage_is_told_in_a_sentence(tmp_path, damage, words):
    _, _, writer = write(tmp_path)
    raw = writer.name(1).read_bytes()
    assert damage(raw) != raw
    writer.name(1).write_bytes(damage(raw))
    with pytest.raises(OutputError, match=words) as caught:
        read_field_file(writer.name(1))
    assert "duct0.f00001" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(OutputError, match=r"cannot read .*duct0\.f00001: No such file"):
        read_field_file(tmp_path / "duct0.f00001")


def test_fields_of_another_shape_are_refused(tmp_path):
    _, (u, p, _), writer = write(tmp_path)
    with pytest.raises(ValueError, match="does not fit the shape"):
        writer.write(8, 0.4, u, p[1:])
