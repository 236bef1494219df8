"""Points, sides and order of elements of meshes from files: those of the box, however elements are turned."""

import numpy as np
import pytest

from mesh_files import BoxFile
from ridgeline.elements.hexahedron import face_places
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.elements.meshes.hexahedra import build_mesh
from ridgeline.runtime.errors import ConfigError

ELEMENTS, LENGTHS = (2, 3, 2), (1.0, 2.0, 3.0)
PERIODIC = {
    (False, False, False): {},
    (True, False, False): {"z_min": "z_max"},
    (True, True, True): {"z_max": "z_min", "x_min": "x_max", "y_min": "y_max"},
}


def keys(coordinates, around):
    """Return places [m, 3] as rows that are equal where points are one."""
    rows = np.moveaxis(coordinates, 0, -1).reshape(-1, 3).copy()
    for column, axis in enumerate((2, 1, 0)):
        if around[axis]:
            rows[:, column][np.abs(rows[:, column] - LENGTHS[axis]) < 1e-9] = 0.0
    return np.round(rows, 9) + 0.0


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("around", PERIODIC)
def test_points_are_numbered_as_they_are_shared(around, order):
    mesh = build_mesh(BoxFile(ELEMENTS, LENGTHS, 2, seed=order).raw(), PERIODIC[around])
    box = BoxMesh.box(ELEMENTS, LENGTHS, periodic=around)
    grid, expected = ElementGrid(mesh, order), ElementGrid(box, order)
    assert mesh.n_unique((order,) * 3) == box.n_unique((order,) * 3)
    places, number = np.unique(keys(grid.coordinates, around), axis=0, return_inverse=True)
    pairs = np.unique(np.stack([number.ravel(), grid.ids.ravel()]), axis=1)
    assert pairs.shape[1] == len(places) == mesh.n_unique((order,) * 3) == grid.ids.max() + 1
    for side in mesh.sides:
        here, there = (keys(g.coordinates, around)[g.side_points([side])] for g in (grid, expected))
        np.testing.assert_array_equal(
            np.sort(here.view("f8,f8,f8").ravel()), np.sort(there.view("f8,f8,f8").ravel())
        )


def test_points_of_faces_are_numbered_alike_from_both_sides():
    mesh = build_mesh(BoxFile(ELEMENTS, LENGTHS, 1, seed=5).raw(), PERIODIC[True, True, True])
    positions, n = mesh.range(0, 12), 4
    element, face = np.repeat(positions, 6), np.tile(np.arange(6), 12)
    of_face = mesh.face_ids(element, face, (n,) * 3)
    ids = mesh.ids(positions, (n - 1,) * 3).reshape(12, -1)
    of_point = ids[element[:, None], face_places(n).reshape(6, -1)[face]]
    assert len(np.unique(of_face)) == 36 * n * n  # 72 faces of elements, two and two one
    assert np.unique(np.stack([of_face.ravel(), of_point.ravel()]), axis=1).shape[1] == 36 * n * n


def test_neighbours_and_lengths_across():
    mesh = build_mesh(BoxFile(ELEMENTS, LENGTHS, 1, seed=6).raw())
    positions = mesh.range(0, mesh.n_elements)
    across, lengths = mesh.neighbours(positions), mesh.extents_across(positions)
    assert (across >= 0).sum() == 2 * (mesh.counts.faces - 32)  # 32 faces at the surface
    for e in positions:
        for f in range(6):
            if across[e, f] < 0:
                assert lengths[e, f] == 0
                continue
            assert e in across[across[e, f]]
            step = mesh.places(np.array([across[e, f], e]), np.zeros(1)).reshape(3, 2)
            assert lengths[e, f] == pytest.approx(np.abs(step[:, 0] - step[:, 1]).max())
    np.testing.assert_allclose(np.sort(mesh.extents(positions), axis=1), [[0.5, 2 / 3, 1.5]] * 12)


def test_order_is_that_of_places_alone_and_parts_are_compact():
    meshes = [build_mesh(BoxFile((4, 4, 4), seed=seed).raw()) for seed in (1, 2)]
    centres = [m.places(m.range(0, 64), np.zeros(1)).reshape(3, 64) for m in meshes]
    np.testing.assert_allclose(*centres, atol=1e-12)
    octants = centres[0].reshape(3, 8, 8)
    assert (np.ptp(octants, axis=2) < 0.3).all()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_parts_answer_as_the_whole(size):
    whole = build_mesh(BoxFile(ELEMENTS, LENGTHS, 2, seed=7).raw(), {"x_min": "x_max"})
    for rank in range(size):
        grid = ElementGrid(whole, 3, size, rank)
        part = ElementGrid(whole.part(grid.first, grid.n_elements), 3, size, rank)
        np.testing.assert_array_equal(part.ids, grid.ids)
        np.testing.assert_array_equal(part.coordinates, grid.coordinates)
        for side in whole.sides:
            np.testing.assert_array_equal(part.side_places(side), grid.side_places(side))
            np.testing.assert_array_equal(part.side_points([side]), grid.side_points([side]))
        assert part.mesh.rows.nodes.nbytes * whole.n_elements == whole.rows.nodes.nbytes * grid.n_elements


def test_an_edge_alone_on_a_side_is_on_it():
    """Three quadrilaterals around a corner of an L: the middle one touches the walls of the notch with an edge."""
    box = BoxFile((1, 2, 2), order=1)
    kept = [e for e, c in enumerate(box.points[box.lattice].mean(axis=(1, 2, 3))) if not (c[:2] > 0.5).all()]
    box.lattice = box.lattice[kept]
    box.sides["x_max"] = box.sides["x_max"][:1]
    box.sides["y_max"] = box.sides["y_max"][:1]
    for side in ("z_min", "z_max"):
        centres = box.points[box.sides[side]].mean(axis=(1, 2))
        box.sides[side] = box.sides[side][~(centres[:, :2] > 0.5).all(axis=1)]
    inner = [
        n for n, p in enumerate(box.points) if p[0] == 0.5 and p[1] >= 0.5
    ]  # the wall of the notch across x
    box.sides["notch_x"] = np.array(inner).reshape(1, 2, 2)
    upper = [n for n, p in enumerate(box.points) if p[1] == 0.5 and p[0] >= 0.5]
    box.sides["notch_y"] = np.array(upper).reshape(1, 2, 2)
    mesh = build_mesh(box.raw())
    grid = ElementGrid(mesh, 3)
    for side in ("notch_x", "notch_y"):
        points = grid.side_points([side])
        x, y, _ = grid.coordinates.reshape(3, -1)[:, points]
        at_corner = (np.abs(x - 0.5) < 1e-12) & (np.abs(y - 0.5) < 1e-12)
        assert len(np.unique(points[at_corner] // 4**3)) == 3
        assert len(points) == 16 + 2 * 4


@pytest.mark.parametrize("order", [1, 2])
def test_mirror_images_are_turned_round(order):
    raw = BoxFile(ELEMENTS, order=order, seed=1).raw()
    expected = build_mesh(raw, {"x_min": "x_max"})
    for e in (0, 4, 5):
        raw.nodes[:, e] = raw.nodes[:, e][..., ::-1]
        raw.corners[e] = raw.corners[e].reshape(2, 2, 2)[..., ::-1].ravel()
        swapped = (raw.named[:, 0] == e) & (raw.named[:, 1] < 2)
        raw.named[swapped, 1] = 1 - raw.named[swapped, 1]
    mesh = build_mesh(raw, {"x_min": "x_max"})
    assert (mesh.counts.mirrored, expected.counts.mirrored) == (3, 0)
    here, there = ElementGrid(mesh, 3), ElementGrid(expected, 3)
    assert here.n_unique == there.n_unique
    for points in ([grid.side_points([side]) for grid in (here, there)] for side in expected.sides):
        found, right = (
            sorted(np.round(grid.coordinates.reshape(3, -1)[:, some].T, 9).tolist())
            for grid, some in zip((here, there), points)
        )
        assert found == right


def test_a_folded_element():
    box = BoxFile(ELEMENTS, order=2)
    box.points[box.lattice[3, 1, 1, 1]] += (0.4, 0.0, 0.0)
    with pytest.raises(
        ConfigError,
        match=r"element 4 \(about .*\) is folded, with a Jacobian of -.*\. The Jacobian must have",
    ):
        build_mesh(box.raw())


def test_a_face_without_partner_and_side():
    box = BoxFile(ELEMENTS, seed=2)
    box.sides["y_max"] = box.sides["y_max"][1:]
    with pytest.raises(
        ConfigError,
        match=r"a face of element \d+ \(about x=.*, y=1, .*\) belongs to no other element and to no side\. Assign",
    ):
        build_mesh(box.raw())
    box = BoxFile(ELEMENTS, seed=2)
    twin = len(box.points)  # a corner that is there twice: what it touches is torn
    box.points = np.concatenate([box.points, box.points[box.lattice[0, :1, 0, 0]]])
    box.lattice = box.lattice.copy()
    box.lattice[0, 0, 0, 0] = twin
    with pytest.raises(ConfigError, match=r"belongs to no other element and to no side, like .* more faces"):
        build_mesh(box.raw())


def test_a_hanging_face():
    fine, coarse = BoxFile((1, 2, 2)), BoxFile((1, 1, 1), origin=(0.0, 0.0, 1.0))
    fine.lattice = np.concatenate([fine.lattice, coarse.lattice + len(fine.points)])
    fine.points = np.concatenate([fine.points, coarse.points])
    del fine.sides["x_max"], coarse.sides["x_min"]
    fine.sides = {
        name: np.concatenate([box[name] for box in (fine.sides, {k: v + len(fine.points) - 8 for k, v in
        coarse.sides.items()}) if name in box]) for name in ("x_min", "x_max", "y_min", "y_max", "z_min", "z_max")
    }  # fmt: skip
    with pytest.raises(
        ConfigError,
        match=r"a face of element 5 \(about x=1, .*\) is not conforming, because a corner of element \d lies inside",
    ):
        build_mesh(fine.raw())


def test_elements_that_are_there_twice():
    box = BoxFile(ELEMENTS)
    box.lattice = np.concatenate([box.lattice, box.lattice[5:6]])
    with pytest.raises(
        ConfigError, match=r"a face of element \d+ .* is shared by the elements .*6, .*13\. A face"
    ):
        build_mesh(box.raw())
    alone = BoxFile((1, 1, 1))
    alone.lattice = np.concatenate([alone.lattice, alone.lattice])
    with pytest.raises(ConfigError, match="elements 1 and 2 are at the same position"):
        build_mesh(alone.raw())


def test_a_face_of_two_sides():
    raw = BoxFile(ELEMENTS).raw()
    raw.named[1, :2] = raw.named[0, :2]
    raw.named[1, 2] = (raw.named[0, 2] + 1) % 6
    with pytest.raises(ConfigError, match=r'belongs to the sides "._m.." and "._m.."\. A face'):
        build_mesh(raw)


def test_periodic_sides_that_do_not_match():
    with pytest.raises(ConfigError, match='"x_min" and "y_min" are periodic but have 6 and 4 faces'):
        build_mesh(BoxFile(ELEMENTS, LENGTHS).raw(), {"x_min": "y_min"})
    bent = BoxFile(
        ELEMENTS, LENGTHS, bend=lambda x, y, z: (x + 0.1 * y * y * x, y + 0.1 * x * y * (2 - y), z)
    )
    with pytest.raises(ConfigError, match=r"periodic with the translation .* has no partner\. The sides"):
        build_mesh(bent.raw(), {"x_min": "x_max"})
