"""Elements are owned once, numbered alike on all ranks, and their geometry integrates exactly."""

import math
from itertools import product

import numpy as np
import pytest

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mappings import annulus, periodic_hill, wavy
from ridgeline.elements.mesh import BoxMesh, ElementGrid, curve_range, distribute, side_index
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.runtime.errors import ConfigError, DecompositionError

BOX = ((0.5, -1.0, 2.0), (1.0, 2.0, 3.0))  # origin, lengths


def mesh(elements=(2, 3, 2), mapping=None, periodic=(False, True, False), **more) -> BoxMesh:
    return BoxMesh.box(elements, BOX[1], BOX[0], mapping=mapping, periodic=periodic, **more)


def test_the_curve_visits_every_element_once_and_any_range_of_it_is_the_same() -> None:
    for elements in ((1, 1, 1), (2, 2, 2), (3, 4, 5), (1, 7, 2), (8, 8, 8)):
        total = math.prod(elements)
        whole = curve_range(elements, 0, total)
        assert len(np.unique(whole, axis=0)) == total, f"{elements=}"
        assert (whole.max(axis=0) == np.array(elements) - 1).all(), f"{elements=}"
        for first, count in ((0, 1), (total // 3, total // 2), (total - 1, 1)):
            np.testing.assert_array_equal(
                curve_range(elements, first, count), whole[first : first + count], err_msg=f"{elements=}"
            )


def test_ranks_own_every_element_once_and_evenly() -> None:
    for size in (1, 2, 3, 4, 7, 12):
        grids = [ElementGrid(mesh(), 3, size, rank) for rank in range(size)]
        numbers = np.concatenate([grid.number for grid in grids])
        np.testing.assert_array_equal(np.sort(numbers), np.arange(12), err_msg=f"{size=}")
        assert max(grids[0].counts()) - min(grids[0].counts()) <= 1, f"{size=}"
        assert [grid.first for grid in grids] == np.cumsum([0, *grids[0].counts()[:-1]]).tolist(), f"{size=}"


def test_halves_of_an_even_cube_are_half_boxes() -> None:
    half = ElementGrid(BoxMesh.box((4, 4, 4), (1, 1, 1)), 2, 2, 0)
    assert half.positions[:, 0].max() == 1


def test_points_share_a_number_just_where_they_coincide() -> None:
    directions = [(False, False, False), (True, False, True), (True, True, True)]
    for order, periodic in product([1, 2, 5], directions):
        case = f"{order=}, {periodic=}"
        grid = ElementGrid(mesh(periodic=periodic), order)
        assert len(np.unique(grid.ids)) == grid.n_unique, case
        wrapped = grid.coordinates.reshape(3, -1).copy()
        for row, axis in zip(wrapped, (2, 1, 0)):
            if periodic[axis]:
                row[:] = (row - BOX[0][axis]) % BOX[1][axis]
                row[row > BOX[1][axis] - 1e-12] = 0.0
        order_of = np.argsort(grid.ids.ravel(), kind="stable")
        same = np.diff(grid.ids.ravel()[order_of]) == 0
        assert same.any(), case
        assert np.abs(np.diff(wrapped[:, order_of], axis=1)[:, same]).max() < 1e-12, case


def test_too_many_ranks_and_wrong_orders_are_refused() -> None:
    with pytest.raises(DecompositionError, match="13 ranks cannot share 12 elements"):
        ElementGrid(mesh(), 3, 13, 0)
    for order in (0, 32):
        with pytest.raises(ConfigError, match="from 1 to 31"):
            ElementGrid(mesh(), order)


def test_distributions_fill_the_interval() -> None:
    kinds = [
        ("uniform", 1.0),
        ("geometric", 1.3),
        ("geometric-walls", 1.5),
        ("sine", 1.2),
        ("offset-sine", 0.4),
    ]
    for (kind, parameter), n in product(kinds, [1, 2, 5, 8]):
        case = f"{kind=}, {n=}"
        edges = distribute(kind, n, parameter)
        assert edges[0] == pytest.approx(0.0, abs=1e-15), case
        assert edges[-1] == pytest.approx(1.0, abs=1e-15), case
        lengths = np.diff(edges)
        assert (lengths > 0).all(), case
        if kind == "geometric":
            np.testing.assert_allclose(lengths[1:] / lengths[:-1], 1.3, err_msg=case)
        if kind in ("sine", "offset-sine", "geometric-walls"):
            np.testing.assert_allclose(lengths, lengths[::-1], err_msg=case)
            assert lengths[0] <= lengths[n // 2], case


def test_the_offset_sine_mesh_is_that_of_the_paper() -> None:
    """Table 1 of Hadri et al. to its printed digits: smallest spacings in wall units at Re_tau = 2000."""
    re_tau, length = 2000, 48  # in half widths of the duct
    for across, along, order, alpha, dx_min, dz_min in (
        (128, 1024, 15, 0.22, 0.15, 1.426),
        (64, 512, 31, 0.36, 0.111, 0.693),
    ):
        points = gauss_lobatto(order + 1)[0]
        first = (points[1] - points[0]) / 2  # over the length of an element
        edges = distribute("offset-sine", across, alpha)
        spacings = [2 * edges[1] * first * re_tau, length / along * first * re_tau]
        assert [round(spacing, 3) for spacing in spacings] == [dx_min, dz_min], alpha
        np.testing.assert_array_equal(edges, distribute("sine", across, np.pi / 2 - alpha))


def test_wrong_distributions_are_refused() -> None:
    for kind, parameter in (("sine", 2.0), ("offset-sine", np.pi / 2), ("geometric", 0.0), ("random", 1.0)):
        with pytest.raises(ConfigError):
            distribute(kind, 3, parameter)


def maps():
    return {
        "box": None,
        "wavy": wavy(*BOX, 0.03),
        "hill": periodic_hill(*BOX, 0.3),
    }


def test_volumes_and_surfaces_close() -> None:
    for name in ("box", "wavy", "hill"):
        geometry = ElementGeometry(ElementGrid(mesh(mapping=maps()[name]), 7))
        if name != "hill":
            assert geometry.mass.sum() == pytest.approx(6.0, rel=1e-8), name
        # The outward area of a closed surface is zero, and its flux of position is three volumes.
        sides = geometry.sides.values()
        assert sum(len(side.elements) for side in sides) == 2 * (6 + 4 + 6), name
        total = sum(side.normal_area.sum(axis=(0, 2, 3)) for side in sides)
        np.testing.assert_allclose(total, 0.0, atol=1e-12, err_msg=name)
        flux = sum(
            (side.normal_area * side.take(geometry.coordinates).transpose(1, 0, 2, 3)).sum() for side in sides
        )
        assert flux == pytest.approx(3 * geometry.mass.sum(), rel=1e-6), name
        assert (side_index("x_max")[3], side_index("z_min")[1]) == (-1, 0), name
        outward = geometry.sides["x_max"].normal_area
        assert outward[:, 0].min() > 0, name


def test_metrics_invert_the_map_and_factors_follow() -> None:
    geometry = ElementGeometry(ElementGrid(mesh(mapping=maps()["wavy"]), 6))
    metrics = geometry.metrics.reshape(-1, 3, 3, 7, 7, 7)
    tangents = geometry._tangents(slice(None))
    product = np.einsum("eacxyz,cbexyz->abexyz", metrics, tangents)
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(3)[:, :, None, None, None, None], product.shape),
                               atol=1e-12)  # fmt: skip
    g_st = (metrics[:, 1] * metrics[:, 2]).sum(axis=1) * geometry.mass
    np.testing.assert_allclose(geometry.factors[:, 4], g_st, rtol=1e-13)
    assert geometry.scale.shape == (0, 3)


def test_a_curved_mesh_without_curvature_is_the_box() -> None:
    box = ElementGeometry(ElementGrid(mesh(), 4))
    same = ElementGeometry(ElementGrid(mesh(mapping=lambda x, y, z: (x, y, z)), 4))
    np.testing.assert_allclose(same.mass, box.mass, rtol=1e-12)
    np.testing.assert_allclose(same.extents, box.extents, rtol=1e-12)
    np.testing.assert_allclose(same.metrics[:, 4, 0, 0, 0], box.scale[:, 1], rtol=1e-12)
    np.testing.assert_allclose(same.metrics[:, 1], 0.0, atol=1e-12)
    for name, side in same.sides.items():
        np.testing.assert_allclose(side.normal_area, box.sides[name].normal_area, atol=1e-13)


def test_an_annulus_is_a_ring() -> None:
    origin, lengths = (0.0, 1.0, 0.0), (1.0, 1.0, 1.0)
    ring = BoxMesh.box(
        (1, 2, 6), lengths, origin, mapping=annulus(origin, lengths, 0.0), periodic=(True, False, True)
    )
    geometry = ElementGeometry(ElementGrid(ring, 9))
    assert geometry.mass.sum() == pytest.approx(3 * np.pi, rel=1e-9)
    assert geometry.sides["y_max"].area.sum() == pytest.approx(4 * np.pi, rel=1e-9)
    grid = geometry.grid
    order_of = np.argsort(grid.ids.ravel(), kind="stable")
    same = np.diff(grid.ids.ravel()[order_of]) == 0
    plane = grid.coordinates[:2].reshape(2, -1)[:, order_of]
    assert np.abs(np.diff(plane, axis=1)[:, same]).max() < 1e-12
    with pytest.raises(ConfigError, match="radius"):
        annulus((0, 0, 0), lengths, 0.0)


def test_a_folded_element_is_named() -> None:
    with pytest.raises(ConfigError, match=r"folds element \(z=\d, y=\d, x=\d\)"):
        ElementGeometry(ElementGrid(mesh(mapping=wavy(*BOX, 0.4)), 5))
