"""Meshes of Gmsh: what is written is read, at every order; damage and what is not read have a sentence."""

import numpy as np
import pytest

from mesh_files import BoxFile, quadrilateral
from ridgeline.elements.meshes.hexahedra import build_mesh
from ridgeline.io.gmsh import node_places, read_gmsh
from ridgeline.io.mesh_file import read_mesh
from ridgeline.runtime.errors import ConfigError


def test_nodes_of_the_third_order_are_where_gmsh_says():
    """Typed from gmsh.model.mesh.getElementProperties(92), times 3: edges, two faces, the inside."""
    places = node_places(3)
    assert len(set(places)) == len(places) == 64
    assert places[:12] == (
        (0, 0, 0), (3, 0, 0), (3, 3, 0), (0, 3, 0), (0, 0, 3), (3, 0, 3), (3, 3, 3), (0, 3, 3),
        (1, 0, 0), (2, 0, 0), (0, 1, 0), (0, 2, 0),
    )  # fmt: skip
    assert places[32:40] == (
        (1, 1, 0), (1, 2, 0), (2, 2, 0), (2, 1, 0), (1, 0, 1), (2, 0, 1), (2, 0, 2), (1, 0, 2),
    )  # fmt: skip
    assert places[56:60] == ((1, 1, 1), (2, 1, 1), (2, 2, 1), (1, 2, 1))


@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_nodes_are_where_gmsh_itself_says(order):
    gmsh = pytest.importorskip("gmsh", exc_type=ImportError)
    gmsh.initialize(interruptible=False)
    try:
        kind = {2: 12, 3: 92, 4: 93, 5: 94}[order]
        _, _, _, _, places, _ = gmsh.model.mesh.getElementProperties(kind)
    finally:
        gmsh.finalize()
    here = np.array(node_places(order)) * 2 / order - 1
    np.testing.assert_allclose(here, np.reshape(places, (-1, 3)), atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_a_box_comes_back(tmp_path, order):
    box = BoxFile((2, 1, 3), (1.0, 2.0, 3.0), order, seed=order, bend=lambda x, y, z: (x + 0.1 * y * y, y, z))
    expected, found = box.raw(), read_mesh(box.write(tmp_path / "box.msh"))
    assert found.sides == expected.sides
    np.testing.assert_allclose(found.nodes, expected.nodes, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(found.corners, expected.corners)
    np.testing.assert_array_equal(
        found.named[np.lexsort(found.named.T)], expected.named[np.lexsort(expected.named.T)]
    )


def write_new(path, groups, binary):
    """Write two elements in a row in version 4.1 of the format: groups of their six sides, each a surface."""
    box = BoxFile((1, 1, 2), (1.0, 1.0, 2.0))
    data = []

    def put(dtype, *values):
        made = np.array(values, dtype)
        data.append(made.tobytes() if binary else " ".join(map(repr, made.tolist())).encode() + b"\n")

    data.append(b"$MeshFormat\n4.1 %d 8\n" % binary + (b"\1\0\0\0\n" if binary else b""))
    data.append(b'$EndMeshFormat\n$PhysicalNames\n2\n2 1 "inlet"\n2 5 "open"\n$EndPhysicalNames\n$Entities\n')
    put("u8", 0, 0, 6, 1)
    for dimension, number, of in [(2, i, of) for i, of in enumerate(groups, 1)] + [(3, 1, (10,))]:
        put("i4", number)
        put("f8", *6 * [0.0])
        put("u8", len(of))
        put("i4", *of)
        put("u8", 0 if dimension == 2 else 6)
        if dimension == 3:
            put("i4", *range(1, 7))
    data.append(b"\n$EndEntities\n$Nodes\n")
    put("u8", 1, len(box.points), 1, len(box.points))
    put("i4", 3, 1, 0)
    put("u8", len(box.points))
    put("u8", *range(1, len(box.points) + 1))
    put("f8", *box.points.ravel())
    data.append(b"\n$EndNodes\n$Elements\n")
    x, y, z = np.array(node_places(1)).T
    blocks = [
        (2, i, 3, [quadrilateral(face) for face in faces]) for i, faces in enumerate(box.sides.values(), 1)
    ]
    blocks += [(3, 1, 5, [element[z, y, x] for element in box.lattice])]
    total = sum(len(cells) for *_, cells in blocks)
    put("u8", len(blocks), total, 1, total)
    for dimension, number, kind, cells in blocks:
        put("i4", dimension, number, kind)
        put("u8", len(cells))
        for nodes in cells:
            put("u8", 1, *np.array(nodes) + 1)
    data.append(b"\n$EndElements\n")
    path.write_bytes(b"".join(data))
    return path


def test_names_become_those_of_settings(tmp_path):
    box = BoxFile((1, 1, 1))
    box.sides = dict(zip(("no slip", "2nd", "a.b", "y_max", "z-min", "ä"), box.sides.values()))
    assert read_gmsh(box.write(tmp_path / "a.msh")).sides == (
        "no_slip",
        "side_2nd",
        "a_b",
        "y_max",
        "z-min",
        "_",
    )
    box.sides = dict(zip(("a b", "a.b"), box.sides.values()))
    with pytest.raises(ConfigError, match="has two surfaces with the same name"):
        read_gmsh(box.write(tmp_path / "a.msh"))


def test_names_of_surfaces_that_are_turned_round_or_called_like_a_volume(tmp_path):
    box = BoxFile((1, 1, 1))
    box.sides = dict(zip(("in", "out", "fluid", "c", "d", "e"), box.sides.values()))
    path = box.write(tmp_path / "a.msh")
    expected = read_gmsh(path)
    assert expected.sides == ("in", "out", "fluid", "c", "d", "e")
    path.write_text(path.read_text().replace(" 3 2 1 1 ", " 3 2 -1 1 "))
    found = read_gmsh(path)
    assert found.sides == expected.sides
    np.testing.assert_array_equal(found.named, expected.named)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        (
            " 5 2 99",
            " 17 2 99",
            "has elements without inner nodes. Set Mesh.SecondOrderIncomplete = 0 in Gmsh",
        ),
        ("2.2 0 8", "9.9 0 8", "has version 9.9 of the format. Write it with Mesh.MshFileVersion = 4.1"),
        ("2.2 0 8", "2.2 0 4", "has version 2.2 with numbers of 4 bytes. Write it with"),
        ("$Nodes", "$ParametricNodes", "has parametric nodes. Write it with Mesh.SaveParametric = 0"),
        ("$Nodes", "$PartitionedEntities", "is divided into partitions. .*unpartition"),
        ("$Nodes", "$Notes", r"ends in its \$Notes, before \$EndNotes. Write it again"),
        ("$MeshFormat", "MeshFormat", r"is not a mesh file of Gmsh: it does not begin with \$MeshFormat"),
        ("$Elements\n", "$Elements\nmany ", r"is damaged: not all of its \$Elements are numbers"),
        (
            "$Elements\n12",
            "$Elements\n13",
            r"is damaged: its \$Elements has fewer numbers than its head says",
        ),
        ("$Elements\n12", "$Elements\n11", r"is damaged: its \$Elements has more numbers than its head says"),
        ("$Nodes\n12", "$Nodes\n12.5", r"is damaged: a number in its \$Nodes is not an integer"),
        ("$Nodes\n12\n1 ", "$Nodes\n12\n77 ", "its elements name nodes that it does not have"),
        (
            "1 0.0 0.0 0.0",
            "1 0.0 1e300 0.0",
            r"has points that are not finite, or that are 1e\+75 or more away",
        ),
    ],
)
def test_damaged_files(tmp_path, old, new, match):
    path = BoxFile((1, 1, 2)).write(tmp_path / "box.msh")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=match):
        read_gmsh(path)


@pytest.mark.parametrize("binary", [False, True])
def test_a_surface_in_two_groups_is_refused_in_every_version(tmp_path, binary):
    path = write_new(tmp_path / "a.msh", [(1,), (2,), (3,), (3,), (4,), (4,)], binary)
    mesh = build_mesh(read_gmsh(path))
    assert {side: mesh.side_size(side) for side in mesh.sides} == {
        "inlet": 1,
        "side_2": 1,
        "side_3": 4,
        "side_4": 4,
    }
    for second, name in ((5, "open"), (7, "side_7")):  # with and without a name
        path = write_new(tmp_path / "a.msh", [(1, second), (2,), (3,), (3,), (4,), (4,)], binary)
        with pytest.raises(ConfigError, match=f'belongs to the sides "inlet" and "{name}". A face'):
            build_mesh(read_gmsh(path))


@pytest.mark.parametrize("write", ["2.2", "4.1", "4.1 binary"])
def test_files_that_end_early_say_so(tmp_path, write):
    path = tmp_path / "box.msh"
    if write == "2.2":
        BoxFile((1, 2, 2)).write(path)
    else:
        write_new(path, [(1,), (2,), (3,), (3,), (4,), (4,)], "binary" in write)
    whole = path.read_bytes()
    read_gmsh(path)
    for length in [0, 5, *range(20, len(whole) - 1, 37), len(whole) - 2]:
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError, match=r"ends (in|before) its \$|does not begin with \$MeshFormat"):
            read_gmsh(path)


def test_a_volume_in_two_groups_is_there_once(tmp_path):
    """Version 2 lists its elements once for each group."""
    path = BoxFile((1, 2, 2)).write(tmp_path / "box.msh")
    expected = read_gmsh(path)
    lines = path.read_text().splitlines()
    twice = [
        line
        for old in lines
        for line in ([old, old.replace(" 5 2 99", " 5 2 98")] if " 5 2 99" in old else [old])
    ]
    twice[twice.index("$Elements") + 1] = str(len(twice) - twice.index("$Elements") - 3)
    path.write_text("\n".join([*twice, ""]))
    found = read_gmsh(path)
    np.testing.assert_array_equal(found.corners, expected.corners)
    np.testing.assert_array_equal(found.named, expected.named)


@pytest.mark.parametrize("binary", [False, True])
def test_surfaces_in_no_group_keep_their_numbers(tmp_path, binary):
    mesh = build_mesh(read_gmsh(write_new(tmp_path / "a.msh", [(1,), (-5,), (), (), (7,), (7,)], binary)))
    assert {side: mesh.side_size(side) for side in mesh.sides} == {
        "inlet": 1,
        "open": 1,
        "side_7": 4,
        "surface_3": 2,
        "surface_4": 2,
    }


def test_what_is_no_mesh_of_hexahedra(tmp_path):
    path = tmp_path / "a.msh"
    head = (
        '$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$PhysicalNames\n1\n3 1 "all"\n$EndPhysicalNames\n$Nodes\n8\n'
    )
    nodes = "".join(f"{4 * k + 2 * j + i + 1} {i} {j} {k}\n" for k in (0, 1) for j in (0, 1) for i in (0, 1))
    for cells, match in (
        ("1 4 2 1 1 1 2 3 5", "has elements of kind tetrahedra. All elements must be hexahedra"),
        ("1 3 2 1 1 1 2 4 3", "has no hexahedra. Extrude quadrilaterals by one recombined layer"),
        ("1 2 2 1 1 1 2 4", "has no hexahedra. Extrude"),
    ):
        path.write_text(f"{head}{nodes}$EndNodes\n$Elements\n1\n{cells}\n$EndElements\n")
        with pytest.raises(ConfigError, match=match):
            read_gmsh(path)
    for name, match in (
        ("none.msh", "No such file"),
        (".", "must be a .msh or .re2 file"),
        ("a.stl", "must be a .msh or .re2 file"),
    ):
        with pytest.raises(ConfigError, match=match):
            read_mesh(tmp_path / name)
