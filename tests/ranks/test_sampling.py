"""Element fields on a lattice of points: exact for polynomials, the same on any ranks, NaN outside the domain."""

import numpy as np
import pytest

from ridgeline.elements.mappings import annulus, wavy
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.models.navier_stokes.sampling import Lattice, Sampler, image_lattice

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
TIMEOUT = 120


def polynomial(x, y, z):
    return 1.0 + x * y - 2.0 * z**3 + 0.5 * x**2 * y * z + y**3


def whole(comm, sampler, part):
    """The image of all ranks."""
    assert part.shape == sampler.shape_local
    return np.concatenate(comm.allgather(part))


def box(comm, order=4, **more):
    mesh = BoxMesh.box((2, 3, 4), (1.0, 2.0, 3.0), origin=(-1.0, 0.0, 0.5), **more)
    return ElementGrid(mesh, order, comm.size, comm.rank)


@pytest.mark.parametrize("distribution", ["uniform", "sine"])
def test_polynomials_are_sampled_exactly_in_boxes(comm, distribution):
    grid = box(comm, distribution=(distribution,) * 3)
    lattice = image_lattice(comm, grid, (5, 6, 7))
    np.testing.assert_allclose(lattice.origin, (-0.9, 2 / 12, 0.5 + 3 / 14))
    np.testing.assert_allclose(lattice.spacing, (0.2, 2 / 6, 3 / 7))
    np.testing.assert_allclose(
        image_lattice(comm, grid, (1, 6, 1)).spacing, (1.0, 2 / 6, 3.0)
    )  # whole depths
    sampler = Sampler(comm, grid, lattice)
    image = whole(comm, sampler, sampler.sample(polynomial(*grid.coordinates)))
    z, y, x = np.meshgrid(lattice.z, lattice.y, lattice.x, indexing="ij")
    np.testing.assert_allclose(image, polynomial(x, y, z), rtol=0, atol=1e-12)


def test_points_on_the_elements_are_copied(comm):
    """Ends, inner edges and Gauss-Lobatto points: the values that are there."""
    grid = box(comm, order=2)
    lattice = Lattice(np.linspace(-1, 0, 5), np.linspace(0, 2, 7), np.linspace(0.5, 3.5, 9))
    sampler = Sampler(comm, grid, lattice)
    assert sampler.missing == 0
    image = whole(comm, sampler, sampler.sample(grid.ids.astype(float)))
    np.testing.assert_allclose(image, np.arange(5 * 7 * 9).reshape(5, 7, 9), atol=1e-9)


def test_points_beyond_the_box_are_nan(comm):
    grid = box(comm)
    lattice = Lattice(np.array([-2.0, -0.5, 0.5]), np.array([0.5]), np.array([1.0, 4.0]))
    sampler = Sampler(comm, grid, lattice)
    image = whole(comm, sampler, sampler.sample(grid.coordinates[0]))
    assert np.isnan(image).tolist() == [[[True, True]], [[False, True]], [[True, True]]]
    assert image[1, 0, 0] == pytest.approx(1.0)


def test_places_of_a_curved_mesh_are_found(comm):
    """The map's inverse: where x, y, z are the fields, the image is the lattice itself."""
    lengths, origin = (1.0, 2.0, 3.0), (-1.0, 0.0, 0.5)
    grid = box(comm, order=6, mapping=wavy(origin, lengths, 0.04))
    sampler = Sampler(comm, grid, image_lattice(comm, grid, (6, 7, 8)))
    z, y, x = np.meshgrid(*(getattr(sampler.lattice, a) for a in "zyx"), indexing="ij")
    for field, expected in zip(grid.coordinates, (x, y, z)):
        image = whole(comm, sampler, sampler.sample(field))
        np.testing.assert_allclose(image, expected, rtol=0, atol=1e-9)


def test_a_ring_has_a_hole(comm):
    origin, lengths = (0.0, 1.0, 0.0), (1.0, 1.0, 2 * np.pi)
    mesh = BoxMesh.box(
        (1, 2, 6), lengths, origin, periodic=(False, False, True), mapping=annulus(origin, lengths, 0.0)
    )
    grid = ElementGrid(mesh, 7, comm.size, comm.rank)
    sampler = Sampler(comm, grid, image_lattice(comm, grid, (2, 24, 25)))
    x, y, _ = grid.coordinates
    image = whole(comm, sampler, sampler.sample(x**2 - y))
    _, y, x = np.meshgrid(*(getattr(sampler.lattice, a) for a in "zyx"), indexing="ij")
    radius = np.hypot(x, y)
    outside = (radius < 0.999) | (radius > 2.001)
    inside = (radius > 1.001) & (radius < 1.999)
    assert outside.sum() > 100
    assert np.isnan(image[outside]).all()
    np.testing.assert_allclose(image[inside], (x**2 - y)[inside], rtol=0, atol=1e-5)


def test_an_image_does_not_depend_on_ranks(comm):
    """A field that jumps between elements: also at shared points the value is that of one element, always."""
    for mapping in (None, wavy((-1.0, 0.0, 0.5), (1.0, 2.0, 3.0), 0.02)):
        grid = box(comm, mapping=mapping)
        lattice = Lattice(np.linspace(-1, 0, 5), np.linspace(0, 2, 7), np.linspace(0.5, 3.5, 9))
        sampler = Sampler(comm, grid, lattice)
        jumps = grid.number[:, None, None, None] + grid.coordinates[0] * 0.01
        image = whole(comm, sampler, sampler.sample(jumps))
        alone = comm.Split(comm.rank)
        serial = ElementGrid(grid.mesh, 4)
        one = Sampler(alone, serial, lattice)
        jumps = serial.number[:, None, None, None] + serial.coordinates[0] * 0.01
        np.testing.assert_array_equal(image, one.sample(jumps))
        alone.Free()
