import numpy as np

from multigrid_cases import box, wavy
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.multigrid.fast_diagonalisation import (
    DIRICHLET,
    NEIGHBOUR,
    NEUMANN,
    eigenpairs,
    extended_eigenpairs,
    extended_operators,
    line_problems,
)


def test_eigenpairs_diagonalise_both_matrices():
    lengths = np.array([[0.5, 1.0, 2.0], [0.0, 1.0, 2.0], [0.5, 1.0, 0.0], [0.0, 1.0, 0.0]])
    kinds = np.array([[NEIGHBOUR] * 2, [NEUMANN, NEIGHBOUR], [NEIGHBOUR, DIRICHLET], [NEUMANN] * 2])
    stiffness, mass, active = extended_operators(6, lengths, kinds)
    s, values = eigenpairs(stiffness, mass, active)
    for place in range(4):
        kept = active[place]
        count = kept.sum()
        vectors = s[place][kept][:, :count]
        a, b = stiffness[place][np.ix_(kept, kept)], mass[place][kept]
        np.testing.assert_allclose(vectors.T @ (b[:, None] * vectors), np.eye(count), atol=1e-12)
        np.testing.assert_allclose(
            vectors.T @ a @ vectors, np.diag(values[place, :count]), atol=1e-9 * values[place].max()
        )
        assert not s[place][~kept].any()
    assert active.sum(axis=1).tolist() == [8, 7, 6, 6]
    assert (values == 0).sum(axis=1).tolist() == [0, 0, 0, 1]  # a constant is free between two Neumann ends


def test_extended_stiffness_is_a_block_of_the_whole_line():
    lengths, n = np.array([0.5, 1.0, 2.0]), 5
    whole, whole_mass = np.zeros((13, 13)), np.zeros(13)
    for element, length in enumerate(lengths):
        one = extended_operators(n, np.array([[0.0, length, 0.0]]), np.array([[NEUMANN] * 2]))
        places = slice(4 * element, 4 * element + n)
        whole[places, places] += one[0][0, 1:-1, 1:-1]
        whole_mass[places] += one[1][0, 1:-1]
    stiffness, mass, _ = extended_operators(n, lengths[None], np.array([[NEIGHBOUR] * 2]))
    np.testing.assert_allclose(stiffness[0], whole[3:10, 3:10], atol=1e-12)
    np.testing.assert_allclose(mass[0], whole_mass[3:10])


def test_neighbours_and_lengths():
    mesh = box(
        (1, 2, 3),
        distribution=("uniform", "uniform", "geometric"),
        parameter=(1, 1, 2),
        periodic=(False, True, False),
    )
    positions = np.array([[0, 0, 1], [0, 1, 2]])
    assert mesh.neighbours(positions).tolist() == [[0, 2, 4, 4, -1, -1], [4, -1, 2, 2, -1, -1]]
    lengths, kinds = line_problems(mesh, positions, ("x_max",))
    np.testing.assert_allclose(lengths[0, 0] * 7, [1, 2, 4])
    assert kinds[1].tolist() == [[NEIGHBOUR, DIRICHLET], [NEIGHBOUR] * 2, [NEUMANN] * 2]


def test_mean_extents_are_the_geometry_s():
    grid = ElementGrid(wavy(3, 0.02), 6)
    np.testing.assert_allclose(grid.mesh.extents(grid.positions), ElementGeometry(grid).extents, rtol=1e-2)


def test_equal_lines_share_their_matrices():
    mesh = box((5, 5, 5))
    positions = ElementGrid(mesh, 3).positions
    vectors, values, index = extended_eigenpairs(4, *line_problems(mesh, positions, ()))
    assert len(vectors) == len(values) == 3  # lower end, inside, upper end
    assert index.shape == (125, 3)
