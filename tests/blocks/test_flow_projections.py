"""Projections of velocities: divergence, what they keep and what they take out, sides, and their order."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sparse
import scipy.sparse.linalg
from mpi4py import MPI

from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.halo import HaloExchange
from ridgeline.blocks.projection import MacProjection, NodalProjection, cell_table, multigrid_sides

PERIODIC = ("periodic",) * 3
CHANNEL = (("wall", "slip"), "periodic", ("inflow", "outflow"))
WIDTHS = (np.linspace(0.05, 0.15, 10), 0.1, 0.125)


def start(cells, sides):
    periodic = tuple(pair == "periodic" for pair in sides)
    cartesian, block = decompose(MPI.COMM_SELF, cells, periodic=periodic)
    velocity = [BlockArray.allocate(block, "float64") for _ in range(3)]
    halo = HaloExchange.of_fields(cartesian, [velocity], corners=True, method="pack")
    return cartesian, block, velocity, halo


def set_cells(velocity, halo, values):
    for field, each in zip(velocity, values, strict=True):
        field.owned[...] = each
    halo.exchange()


def waves(n):
    """A velocity that is free of divergence and a gradient, on the cells of a periodic cube of size 1."""
    c = 2 * np.pi * (np.arange(n) + 0.5) / n
    z, y, x = c[:, None, None], c[:, None], c
    swirl = [np.zeros((n, n, n)), -np.cos(x) * np.sin(y) + 0 * z, np.sin(x) * np.cos(y) + 0 * z]
    sin, cos = np.sin, np.cos
    return swirl, [-cos(x) * cos(y) * sin(z), -cos(x) * sin(y) * cos(z), -sin(x) * cos(y) * cos(z)]


def largest(fields, others):
    return max(abs(field.owned - other).max() for field, other in zip(fields, others, strict=True))


def test_the_nodal_divergence_is_the_integral_with_each_function() -> None:
    """Against a sum over the cells around each node, with walls, inflow and widths that vary."""
    cells = (10, 6, 5)
    cartesian, block, velocity, halo = start(cells, CHANNEL)
    rng = np.random.default_rng(1)
    set_cells(velocity, halo, rng.standard_normal((3, *cells)))
    inflow = rng.standard_normal((12, 8))
    inflow[:, 0], inflow[:, -1] = inflow[:, -2], inflow[:, 1]
    velocity[2].ghosted[:, :, 0] = inflow
    projection = NodalProjection(cartesian, block, WIDTHS, CHANNEL)
    projection.set_divergence(velocity)
    h = [np.broadcast_to(w, n) for w, n in zip(WIDTHS, cells)]
    expected = np.zeros((11, 6, 6))
    for k, j, i in np.ndindex(11, 6, 6):
        for up in np.ndindex(2, 2, 2):
            z, y, x = k - 1 + up[0], (j - 1 + up[1]) % 6, i - 1 + up[2]
            sign = 1 - 2 * np.array(up)
            if 0 <= z < 10 and 0 <= x < 5:
                area = [h[1][y] * h[2][x] / 4, h[0][z] * h[2][x] / 4, h[0][z] * h[1][y] / 4]
                expected[k, j, i] += sum(sign[d] * area[d] * velocity[d].owned[z, y, x] for d in range(3))
            elif 0 <= z < 10 and x < 0:
                expected[k, j, i] += h[0][z] * h[1][y] / 4 * inflow[z + 1, y + 1]
    assert projection.solver.b.owned == pytest.approx(expected, abs=1e-15)


def test_gradients_go_to_second_order_and_swirls_stay() -> None:
    left = []
    for n in (16, 32):
        cartesian, block, velocity, halo = start((n, n, n), PERIODIC)
        projection = NodalProjection(cartesian, block, (1 / n,) * 3, PERIODIC)
        swirl, gradient = waves(n)
        set_cells(velocity, halo, swirl)
        projection.project(velocity, absolute=1e-16)
        assert largest(velocity, swirl) < 1e-14
        set_cells(velocity, halo, [a + b + 0.3 for a, b in zip(swirl, gradient)])
        momentum = [field.owned.mean() for field in velocity]
        assert projection.project(velocity, 1e-11).converged
        left.append(largest(velocity, [a + 0.3 for a in swirl]))
        assert [field.owned.mean() for field in velocity] == pytest.approx(momentum, abs=1e-15)
        # A second projection takes out what the first left, but for terms of fourth order.
        halo.exchange()
        projection.project(velocity, 1e-11)
        assert largest(velocity, [a + 0.3 for a in swirl]) < 1.1 * left[-1] ** 2
    assert left[0] / left[1] == pytest.approx(4.0, rel=0.1)


def test_kinetic_energy_does_not_grow() -> None:
    """Also of noise, which is not smooth at all: the projection takes a part out, and never adds."""
    cells = (13, 12, 11)
    sides = (("wall", "wall"), "periodic", "periodic")
    cartesian, block, velocity, halo = start(cells, sides)
    set_cells(velocity, halo, np.random.default_rng(2).standard_normal((3, *cells)))
    projection = NodalProjection(cartesian, block, (0.2, 0.1, 0.1), sides)
    energies = []
    for _ in range(4):
        energies.append(sum((field.owned**2).sum() for field in velocity))
        assert projection.project(velocity, 1e-11).converged
        halo.exchange()
    assert all(0.5 * a < b < a for a, b in pairwise(energies))


def test_a_uniform_inflow_leaves_through_the_outflow_unchanged() -> None:
    cells = (10, 6, 5)
    cartesian, block, velocity, halo = start(cells, CHANNEL)
    set_cells(velocity, halo, [0.0, 0.0, 2.0])
    velocity[2].ghosted[:, :, 0] = 2.0
    projection = NodalProjection(cartesian, block, WIDTHS, CHANNEL)
    assert projection.project(velocity, absolute=1e-15).converged
    assert largest(velocity, [0.0, 0.0, 2.0]) < 1e-13
    # Half the inflow: the fluid in the box slows down.
    velocity[2].ghosted[:, :, 0] = 1.0
    assert projection.project(velocity, 1e-12).converged
    assert velocity[2].owned == pytest.approx(np.ones(cells), abs=1e-9)


class DirectCellSolver:
    """-div grad phi = b at the cells of one block, by sparse LU; singular problems with phi = 0 at the first cell."""

    def __init__(self, widths, sides):
        tables = [cell_table(w, side, 0, len(w)) for w, side in zip(widths, sides)]
        self.sides, matrices = multigrid_sides(sides), []
        for table, w, side in zip(tables, widths, sides):
            n = len(w)
            gradient = np.zeros((n + 1, n))
            for face in range(n + 1):
                # Beyond outflow, phi is mirrored with the opposite sign; at other sides the table holds 0.
                high, low = (face % n, 1), (face - 1, 1)
                if side != "periodic":
                    high, low = (high if face < n else (n - 1, -1)), (low if face else (0, -1))
                gradient[face, high[0]] += table[1, face] * high[1]
                gradient[face, low[0]] -= table[1, face] * low[1]
            matrices.append(-np.diff(gradient, axis=0) * table[0, :n, None])
        eye = [sparse.eye(len(w)) for w in widths]
        parts = [matrices[0], eye[1], eye[2]], [eye[0], matrices[1], eye[2]], [eye[0], eye[1], matrices[2]]
        self.matrix = sum(sparse.kron(sparse.kron(z, y), x) for z, y, x in parts).tocsc()
        self.singular = all(pair == "periodic" or "dirichlet" not in pair for pair in self.sides)

    def solve(self, b, x, tolerance, max_cycles, absolute):
        kept = slice(1, None) if self.singular else slice(None)
        phi = np.zeros(self.matrix.shape[0])
        phi[kept] = scipy.sparse.linalg.spsolve(self.matrix[kept, kept], b.owned.ravel()[kept])
        x.owned[...] = phi.reshape(x.owned.shape)
        for axis, side in enumerate(self.sides):
            values = np.moveaxis(x.ghosted, axis, 0)
            if side == "periodic":
                values[0], values[-1] = values[-2].copy(), values[1].copy()
            else:
                signs = [-1 if each == "dirichlet" else 1 for each in side]
                values[0], values[-1] = signs[0] * values[1], signs[1] * values[-2]
        return tolerance


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("sides", [PERIODIC, CHANNEL])
def test_face_velocities_become_free_of_divergence(sides, direct) -> None:
    cells = (10, 6, 5)
    _, block, faces, halo = start(cells, sides)
    set_cells(faces, halo, np.random.default_rng(4).standard_normal((3, *cells)))
    if sides is CHANNEL:
        faces[0].ghosted[1], faces[0].ghosted[-1] = 0.0, 0.0
        faces[2].ghosted[:, :, 1], faces[2].ghosted[:, :, -1] = 1.0, 7.0
    widths = [np.broadcast_to(w, n) for w, n in zip(WIDTHS, cells)]
    solver = DirectCellSolver(widths, sides) if direct else None
    mac = MacProjection(MPI.COMM_SELF, block, WIDTHS, sides, solver)
    before = [faces[0].ghosted[1].copy(), faces[0].ghosted[-1].copy(), faces[2].ghosted[:, :, 1].copy()]
    divergence = BlockArray.allocate(block, "float64")
    mac.set_divergence(faces, divergence)
    assert abs(divergence.owned).max() > 1.0
    result = mac.project(faces, 1e-12)
    assert result == 1e-12 if direct else result.converged
    mac.free()
    mac.set_divergence(faces, divergence)
    assert abs(divergence.owned).max() < 1e-9
    if sides is CHANNEL:
        after = [faces[0].ghosted[1], faces[0].ghosted[-1], faces[2].ghosted[:, :, 1]]
        for a, b in zip(before, after):
            np.testing.assert_array_equal(a[1:-1, 1:-1], b[1:-1, 1:-1])
        area = widths[0][:, None] * widths[1]
        outflow = (faces[2].ghosted[1:-1, 1:-1, -1] * area).sum()
        assert outflow == pytest.approx(area.sum(), rel=1e-10)
    else:
        for axis in range(3):
            moved = np.moveaxis(faces[axis].ghosted, axis, 0)[:, 1:-1, 1:-1]
            np.testing.assert_array_equal(moved[1], moved[-1])


def test_wrong_sides_and_fields_are_named() -> None:
    cartesian, block, velocity, _ = start((8, 8, 8), PERIODIC)
    with pytest.raises(ValueError, match="lower side first"):
        NodalProjection(cartesian, block, (1.0,) * 3, (("wall", "open"), "periodic", "periodic"))
    projection = NodalProjection(cartesian, block, (1.0,) * 3, PERIODIC)
    with pytest.raises(ValueError, match="three fields"):
        projection.project(velocity[:2])
    _, _, other, _ = start((8, 8, 9), PERIODIC)
    with pytest.raises(ValueError, match="8, 8, 9"):
        projection.project(other)
