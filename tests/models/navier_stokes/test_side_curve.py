"""Curves along sides: their order, lengths and means, on bent and straight boxes."""

import numpy as np
import pytest

from ridgeline.config.part_selection import SelectionError
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mappings import annulus
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.models.navier_stokes.side_curve import curve_of

UNIT = (1.0, 1.0, 1.0)
RING = (1.0, 1.0, 1.0), (0.0, 1.0, 0.0)


def places_of(side, order=5, elements=(3, 2, 6), lengths=UNIT, **more):
    mesh = BoxMesh.box(elements, lengths, **more)
    geometry = ElementGeometry(ElementGrid(mesh, order))
    return geometry.sides[side].take(geometry.coordinates)


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_flat_side_is_a_line(order, shuffled):
    places = places_of("y_max", order)
    if shuffled:
        places = places[:, np.random.default_rng(3).permutation(places.shape[1])]
    curve = curve_of(places, 2)
    assert curve.n_groups == len(curve.members) == 6 * order + 1
    np.testing.assert_allclose(curve.arc_length, curve.places[0], atol=1e-14)
    assert (np.diff(curve.places[0]) > 0).all()
    np.testing.assert_allclose(curve.places[1:], [[1.0], [0.5]] + 0 * curve.places[1:])
    along_z = curve_of(places, 0)  # the other direction of the side
    assert along_z.n_groups == 3 * order + 1
    np.testing.assert_allclose(along_z.places[2], along_z.arc_length, atol=1e-14)
    values = np.zeros(curve.n_groups)
    np.add.at(values, curve.groups, places[0])
    counts = np.bincount(curve.groups.ravel(), minlength=curve.n_groups)
    np.testing.assert_allclose((values / counts)[curve.members], curve.places[0])


def test_a_cylinder_is_a_circle_from_its_front_over_its_top():
    mapping = annulus(RING[1], RING[0], 0)
    places = places_of("y_max", 6, origin=RING[1], mapping=mapping, periodic=(True, False, True))
    curve = curve_of(places, 2)
    assert (curve.n_groups, len(curve.members)) == (36, 37)
    assert curve.members[0] == curve.members[-1]
    np.testing.assert_allclose(curve.arc_length[-1], 4 * np.pi, rtol=1e-9)
    angle = np.pi - curve.arc_length / 2
    np.testing.assert_allclose(curve.places[0], 2 * np.cos(angle), atol=1e-6)
    np.testing.assert_allclose(curve.places[1], 2 * np.sin(angle), atol=1e-6)


def test_two_walls_are_two_curves():
    both = np.concatenate([places_of("y_max", 3), places_of("y_min", 3)], axis=1)
    curve = curve_of(both, 2)
    assert curve.numbers.tolist() == [0] * 19 + [1] * 19
    np.testing.assert_allclose(curve.places[1], np.repeat([0.0, 1.0], 19))
    length = np.sqrt(2.0)  # of the straight jump back to the start of the other wall
    np.testing.assert_allclose(curve.arc_length[[18, 19, -1]], [1.0, 1.0 + length, 2.0 + length])


def test_points_that_lie_on_no_lines_are_refused():
    skewed = places_of("y_max", 3, mapping=lambda x, y, z: (x + 0.1 * z * y, y, z))
    with pytest.raises(SelectionError, match=r'one axis along which .* "z" is not'):
        curve_of(skewed, 2)
    with pytest.raises(SelectionError, match='which "y" is not'):
        curve_of(places_of("y_max", 3), 1)  # across the side
