"""Meshes of Nek5000: what is written is read, in every version; damage and what is not read have a sentence."""

from itertools import product

import numpy as np
import pytest
from scipy.spatial import cKDTree

from mesh_files import BoxFile
from re2_files import EDGE_OF, FACE_OF, write_re2
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.elements.meshes import checks
from ridgeline.elements.meshes.hexahedra import build_mesh
from ridgeline.io import nek5000_mesh
from ridgeline.io.nek5000_mesh import read_re2
from ridgeline.runtime.errors import ConfigError

CODES = {"x_min": "v", "x_max": "O", "y_min": "W", "y_max": "W", "z_min": "SYM", "z_max": "SYM"}


def box_re2(path, seed=1, around=False, **how):
    box = BoxFile((2, 3, 2), (1.0, 2.0, 3.0), seed=seed)
    raw = box.raw()
    faces = [(e, f, CODES[raw.sides[s]], ()) for e, f, s in raw.named.tolist()]
    if around:
        mesh = build_mesh(raw, {"z_min": "z_max"})
        place = np.argsort(mesh.rows.names)  # of elements of the file
        faces = [face for face in faces if face[2] != "SYM"]
        z = [(e, f) for e, f, s in raw.named.tolist() if raw.sides[s].startswith("z")]
        for e, f in z:
            other = mesh.rows.names[mesh.neighbours(place[[e]])[0, f]] - 1
            (face,) = [g for o, g in z if o == other]
            faces.append((e, f, "P", (other + 1, FACE_OF[face])))
    return write_re2(path, raw.corner_places(), faces=faces, **how)


@pytest.mark.parametrize(("version", "order"), list(product(("#v001", "#v002", "#v003", "#v004"), "<>")))
def test_a_box_comes_back(tmp_path, version, order):
    mesh = build_mesh(read_re2(box_re2(tmp_path / "box.re2", version=version, order=order)))
    assert mesh.sides == ("O", "SYM", "W", "v")
    assert [mesh.side_size(side) for side in mesh.sides] == [6, 12, 8, 6]
    grid, box = ElementGrid(mesh, 3), ElementGrid(BoxMesh.box((2, 3, 2), (1.0, 2.0, 3.0)), 3)
    assert mesh.n_unique((3,) * 3) == box.n_unique == grid.ids.max() + 1
    np.testing.assert_allclose(
        np.sort(grid.coordinates.reshape(3, -1)), np.sort(box.coordinates.reshape(3, -1)), atol=1e-6
    )
    x, _, z = grid.coordinates.reshape(3, -1)
    for side, on in (("v", x < 1e-6), ("O", x > 3 - 1e-6), ("SYM", (z < 1e-6) | (z > 1 - 1e-6))):
        np.testing.assert_array_equal(grid.side_points([side]), np.flatnonzero(on))


def test_periodic_faces_of_the_file(tmp_path):
    mesh = build_mesh(read_re2(box_re2(tmp_path / "box.re2", around=True)))
    assert mesh.sides == ("O", "W", "v")
    assert np.unique(np.round(np.abs(mesh.translations), 5), axis=0).tolist() == [[0, 0, 1]]
    box = BoxMesh.box((2, 3, 2), (1.0, 2.0, 3.0), periodic=(True, False, False))
    assert mesh.n_unique((4,) * 3) == box.n_unique((4,) * 3)
    assert (mesh.neighbours(mesh.range(0, 12)) < 0).sum() == 20


@pytest.mark.parametrize("letters", ["MSH", "EXO"])
def test_each_number_of_a_surface_without_condition_is_a_side(tmp_path, letters):
    box = BoxFile((2, 3, 2), (1.0, 2.0, 3.0), seed=2)
    raw = box.raw()
    number = {"x_min": 1, "x_max": 2, "y_min": 3, "y_max": 3, "z_min": 14, "z_max": 14}
    faces = [(e, f, letters, (0, 0, 0, 0, number[raw.sides[s]])) for e, f, s in raw.named.tolist()]
    mesh = build_mesh(read_re2(write_re2(tmp_path / "box.re2", raw.corner_places(), faces=faces)))
    sizes = {side: mesh.side_size(side) for side in mesh.sides}
    assert sizes == {f"{letters}_1": 6, f"{letters}_2": 6, f"{letters}_3": 8, f"{letters}_14": 12}
    faces[0] = (*faces[0][:3], (0, 0, 0, 0, 1.5))
    with pytest.raises(ConfigError, match=f"a face marked {letters} has the surface number 1.5"):
        read_re2(write_re2(tmp_path / "box.re2", raw.corner_places(), faces=faces))


def test_solids_are_refused(tmp_path):
    with pytest.raises(
        ConfigError, match=r"has 12 elements, of which 5 are fluid and the others solid\. Solids are"
    ):
        read_re2(box_re2(tmp_path / "box.re2", fluid=5))


def ring(n=4, inner=1.0, outer=2.0, height=0.5):
    """Return corners and arcs of a ring of n elements, r outwards as the first direction."""
    angle = 2 * np.pi * np.arange(n + 1) / n
    corners, curves = [], []
    for e in range(n):
        flat = [(r * np.cos(a), r * np.sin(a)) for a in angle[e : e + 2] for r in (inner, outer)]
        corners.append([(x, y, z) for z in (0.0, height) for x, y in flat])
        for edge in (2, 6):
            curves.append((e, edge, (outer,), "C"))
        for edge in (4, 8):
            curves.append((e, edge, (-inner,), "C"))
    faces = [(e, f, {0: "in", 1: "out", 4: "z0", 5: "z1"}[f], ()) for e in range(n) for f in (0, 1, 4, 5)]
    return np.array(corners), curves, faces


@pytest.mark.parametrize("n", [4, 7])
def test_arcs_are_circles(tmp_path, n):
    corners, curves, faces = ring(n)
    mesh = build_mesh(read_re2(write_re2(tmp_path / "ring.re2", corners, curves, faces)))
    grid = ElementGrid(mesh, 9)
    for side, radius in (("in", 1.0), ("out", 2.0)):
        x, y, _ = grid.coordinates.reshape(3, -1)[:, grid.side_points([side])]
        np.testing.assert_allclose(np.hypot(x, y), radius, rtol=1e-8 if n > 4 else 1e-6)


def test_points_in_the_middle_of_edges(tmp_path):
    corners, _, faces = ring(8)
    curves = []
    for e, element in enumerate(corners):
        for edge, (a, b) in EDGE_OF.items():
            middle = (element[a] + element[b]) / 2
            if edge in (2, 4, 6, 8):
                middle[:2] *= np.hypot(*element[a][:2]) / np.hypot(*middle[:2])
                curves.append((e, edge, middle, "m"))
    mesh = build_mesh(read_re2(write_re2(tmp_path / "ring.re2", corners, curves, faces)))
    places = mesh.places(mesh.range(0, 8), np.array([-1.0, 0.0, 1.0]))
    np.testing.assert_allclose(np.hypot(*places[:2])[..., 0], 1.0)
    np.testing.assert_allclose(np.hypot(*places[:2])[..., -1], 2.0)
    outside = [(e, f, "W", ()) for e in (0, 1) for f in range(6) if f != 1 - e]
    two = np.array([[(x + s, y, z) for z in (0, 1) for y in (0, 1) for x in (0, 1)] for s in (0, 1)], float)
    raw = read_re2(write_re2(tmp_path / "two.re2", two, [(0, 2, (1.1, 0.5, 0), "m")], outside))
    with pytest.raises(ConfigError, match="are the same face but are curved differently"):
        build_mesh(raw)


@pytest.mark.parametrize("scalars", [0, 2])
def test_every_shorter_or_longer_file_says_so(tmp_path, scalars):
    path = box_re2(tmp_path / "box.re2", version="#v001", scalars=scalars)
    whole = path.read_bytes()
    assert len(read_re2(path).sides) == 4
    for more in (b"\0", bytes(7), bytes([9]) * 17):
        path.write_bytes(whole + more)
        with pytest.raises(ConfigError, match=r"ends in its .*faces of a scalar|is damaged: it has"):
            read_re2(path)
    for length in [0, 3, 40, 79, 82, 84, 100, 500, len(whole) - 1, *range(84, len(whole), 97)]:
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError, match=r"ends in its|is not a .re2 file"):
            read_re2(path)


@pytest.mark.parametrize(
    ("place", "found", "match"),
    [
        (
            0,
            b"#v007",
            "is not a .re2 file of Nek5000. It must have one of the versions #v001, #v002, #v003, #v004, but begins "
            "with '#v007'",
        ),
        (16, b"2", "has 2 dimensions, but it must have three"),
        (80, b"\0\0\0\0", "has no number that shows its byte order"),
        (84 + 8, np.array(np.nan).tobytes(), "has corners that are not finite"),
        (84 + 8, np.array(1e300).tobytes(), "or that are 1e.75 or more away"),
        (
            84 + 12 * 200,
            np.array(1e9).tobytes(),
            r"is damaged: it has 1000000000.0 curved edges for 12 elements",
        ),
        (
            84 + 12 * 200 + 16,
            np.array(99.0).tobytes(),
            "one of its faces of the surface has the element number 99, but there are 12",
        ),
        (
            84 + 12 * 200 + 24,
            np.array(7.0).tobytes(),
            "one of its faces of the surface has the part number 7, but there are 6",
        ),
        (84 + 12 * 200 + 72, b"J  ", "has hanging faces"),
    ],
)
def test_damaged_files(tmp_path, place, found, match):
    path = box_re2(tmp_path / "box.re2")
    data = bytearray(path.read_bytes())
    data[place : place + len(found)] = found
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=match):
        read_re2(path)


def test_a_hole_of_zeros_is_an_element_without_corners(tmp_path):
    path = box_re2(tmp_path / "box.re2")
    data = bytearray(path.read_bytes())
    data[84 + 3 * 200 : 84 + 9 * 200] = bytes(6 * 200)
    path.write_bytes(data)
    match = r"has an element 4 \(about x=0, y=0, z=0\) with two corners at the same place\. Every element must have"
    with pytest.raises(ConfigError, match=match):
        read_re2(path)


@pytest.mark.parametrize("apart", [0.0, 1e-3])
def test_elements_at_one_place_are_not_compared_each_with_each(tmp_path, apart, monkeypatch):
    data, n = box_re2(tmp_path / "box.re2").read_bytes(), 2000
    elements = np.zeros(n, [("group", "<f8"), ("places", "<f8", (3, 8))])
    elements["places"] = np.frombuffer(data, "<f8", 24, 84 + 8).reshape(3, 8)
    elements["places"] += apart * np.random.default_rng(1).uniform(-1, 1, (n, 3, 8))
    path = tmp_path / "same.re2"
    path.write_bytes(
        f"#v002{n:9d}  3{n:9d}".ljust(80).encode() + data[80:84] + elements.tobytes() + bytes(16)
    )
    points = []
    monkeypatch.setattr(nek5000_mesh, "cKDTree", lambda places: points.append(len(places)) or cKDTree(places))
    with pytest.raises(ConfigError, match="is shared by the elements 1, 2, 3"):
        build_mesh(read_re2(path))
    assert points[0] <= 8 * 8  # of 16000 corners, however near each other


def test_a_face_around_all_others_is_not_compared_with_each_of_them(tmp_path, monkeypatch):
    outer = np.array([[(x, y, z) for z in (-40, 60) for y in (-40, 60) for x in (-40, 60)]], float)
    turn = np.array([[1, 0.2, 0.1], [-0.3, 1, 0.2], [0.1, -0.4, 1]])
    raw = BoxFile((4, 4, 4)).raw()
    path = write_re2(tmp_path / "a.re2", np.concatenate([outer @ turn, raw.corner_places()]))
    tried = []
    monkeypatch.setattr(checks, "MOST_PLACES", 20)
    monkeypatch.setattr(checks, "_is_inside", lambda *args: tried.append(1))
    with pytest.raises(ConfigError, match="belongs to no other element and to no side, like 101 more faces"):
        build_mesh(read_re2(path))
    assert len(tried) <= 20


def test_what_is_not_read(tmp_path):
    corners, curves, faces = ring()
    with pytest.raises(ConfigError, match=r"has curved edges of kind 's'\. They must be"):
        read_re2(write_re2(tmp_path / "a.re2", corners, [(0, 5, (0, 0, 0, 1), "s")], faces))
    with pytest.raises(ConfigError, match="is damaged: values of its curved edges are not finite"):
        read_re2(write_re2(tmp_path / "a.re2", corners, [(0, 5, (0, np.nan, 0), "m")], faces))
    with pytest.raises(
        ConfigError, match=r"has an arc of radius 0.1 at element 3, whose chord has the length 2.8"
    ):
        read_re2(write_re2(tmp_path / "a.re2", corners, [(2, 2, (0.1,), "C")], faces))
    faces[0] = (0, 0, "P", (2, 4))
    with pytest.raises(
        ConfigError, match="has a periodic face of element 1 whose partner, of element 2, names"
    ):
        read_re2(write_re2(tmp_path / "a.re2", corners, curves, faces))
    faces[0] = (0, 0, "P", (9, 4))
    with pytest.raises(ConfigError, match="periodic face of element 1 has face 4 of element 9"):
        read_re2(write_re2(tmp_path / "a.re2", corners, curves, faces))
