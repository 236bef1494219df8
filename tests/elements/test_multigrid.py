import numpy as np
import pytest
from mpi4py import MPI

from multigrid_cases import Problem, annulus, box, duct, hill, random_field, wavy
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.multigrid.cycle import SchwarzMultigrid
from ridgeline.elements.multigrid.level import PolynomialLevel, level_orders
from ridgeline.elements.multigrid.schwarz_reference import ReferenceMultigrid
from ridgeline.runtime.regions import Regions

COMM = MPI.COMM_SELF

MESHES = {
    "neumann": (box((2, 3, 2)), ()),
    "outflow": (box((2, 2, 3)), ("x_max",)),
    "walls": (box((3, 2, 2)), ("x_min", "x_max", "y_min", "z_max")),
    "periodic": (box((2, 1, 3), (1.0, 0.5, 1.5), periodic=(True, True, False)), ()),
    "long": (box((2, 2, 3), (8.0, 3.0, 1.0)), ("z_min",)),
    "wavy": (wavy(2), ()),
    "annulus": (annulus(2), ("y_max",)),
}


def centred(z, dirichlet):
    return z if dirichlet else z - z.mean()


LONGER = ("neumann", "outflow", "long", "annulus")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full) if name in LONGER else name for name in MESHES]
)
def test_compiled_multigrid_is_what_its_matrices_say(name):
    mesh, dirichlet = MESHES[name]
    grid = ElementGrid(mesh, 5)
    fast = SchwarzMultigrid(grid, ElementGeometry(grid), COMM, dirichlet, dtype="float64")
    slow = ReferenceMultigrid(mesh, fast.orders, dirichlet, [level.damping for level in fast.levels])
    top = slow.levels[0]
    r = np.where(top.free, random_field(np.arange(top.n_unique)), 0.0)
    r -= 0.0 if dirichlet else r.mean()
    z = np.empty(grid.shape)
    fast.apply(r[grid.ids], z)
    expected = slow.apply(r)
    found = np.empty_like(expected)
    found[grid.ids] = z
    assert np.array_equal(found[grid.ids], z)  # continuous
    np.testing.assert_allclose(
        centred(found, dirichlet), centred(expected, dirichlet), rtol=0, atol=1e-10 * abs(expected).max()
    )


def test_one_sweep_of_one_element_is_the_inverse():
    mesh = box((1, 1, 1), (1.0, 2.0, 3.0))
    grid = ElementGrid(mesh, 4)
    multigrid = SchwarzMultigrid(grid, ElementGeometry(grid), COMM, ("x_min",), dtype="float64")
    level = multigrid.levels[0]
    u = np.where(level.level.constrained, 0.0, random_field(grid.ids))
    z = np.empty(u.size)
    level.smooth(np.ascontiguousarray(level.level.stiffness(u)).reshape(-1), z)
    np.testing.assert_allclose(z.reshape(u.shape), u, atol=1e-11)


@pytest.mark.full
def test_iterations_are_bounded_and_float32_is_as_good():
    counts = {
        (e, p, dtype): Problem(COMM, box((e, e, e)), p).iterations(dtype=dtype)
        for e, p in ((4, 7), (8, 7), (4, 15))
        for dtype in ("float32", "float64")
    }
    first = counts[4, 7, "float32"]
    assert first <= 12
    assert max(counts.values()) <= first + 3
    for e, p in ((4, 7), (8, 7), (4, 15)):
        assert abs(counts[e, p, "float32"] - counts[e, p, "float64"]) <= 1


@pytest.mark.full
@pytest.mark.parametrize(
    ("mesh", "most"),
    [
        (wavy(4), 18),
        (annulus(4), 18),
        (hill(4), 22),
        (duct(4), 15),
        (box((4, 4, 4), (20.0, 5.0, 1.0)), 15),
        (box((4, 4, 4), (20.0, 1.0, 1.0)), 15),
    ],
)
def test_curved_and_stretched_meshes_converge(mesh, most):
    assert Problem(COMM, mesh, 7).iterations() <= most


@pytest.mark.parametrize("dirichlet", [(), ("x_min", "x_max")])
@pytest.mark.parametrize("coarsest", [1, 20, 150])
def test_algebraic_coarse_solve_is_as_good_as_the_direct_one(dirichlet, coarsest, monkeypatch):
    monkeypatch.setattr("ridgeline.elements.coarse.hierarchy.COARSEST", coarsest)
    problem = Problem(COMM, box((6, 6, 6), (1.0, 1.0, 2.0)), 3, dirichlet)
    direct, algebraic = (problem.iterations(coarse=coarse) for coarse in ("direct", "amg"))
    assert algebraic <= direct + 2
    assert "->" in problem.multigrid(coarse="amg").coarse.describe()


@pytest.mark.full
@pytest.mark.parametrize("order", [3, 5, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("length", [0.785, 2.0])
def test_a_single_element_that_closes_on_itself_has_constants_alone(order, length):
    """Its stiffness is rounding, which must not be inverted."""
    mesh = box((1, 4, 4), (length, 6.283, 6.283), periodic=(True, True, True))
    assert Problem(COMM, mesh, order).iterations(coarse="direct") <= 14


# Each order costs seconds of compiling.
@pytest.mark.full
@pytest.mark.parametrize("order", [1, 2, 3, *(pytest.param(p, marks=pytest.mark.slow) for p in (6, 10))])
def test_every_order_has_levels_that_work(order):
    assert Problem(COMM, box((3, 3, 3)), order).iterations() <= 14


@pytest.mark.slow
def test_high_order():
    assert Problem(COMM, box((2, 2, 2)), 31).iterations() <= 14


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.full), 5])
@pytest.mark.parametrize("coarse", ["direct", "amg"])
@pytest.mark.parametrize(
    "mesh",
    [
        box((1, 1, 1)),
        box((1, 1, 6), (1.0, 1.0, 6.0)),
        box((1, 1, 1), periodic=(True, True, True)),
        box((2, 1, 3), (2.0, 1.0, 3.0), periodic=(True, True, False)),
    ],
)
def test_single_elements_along_a_direction(mesh, coarse, order):
    for dirichlet in ((), ("x_max",)):
        if not (dirichlet and mesh.periodic[2]):
            assert Problem(COMM, mesh, order, dirichlet).iterations(coarse=coarse) <= 12


def test_levels_keep_long_directions_fine():
    assert level_orders(7, (1.0, 1.0, 1.0)) == [(7, 7, 7), (3, 3, 3), (1, 1, 1)]
    assert level_orders(15, (1.0, 1.9, 1.0)) == [(15, 15, 15), (7, 13, 7), (3, 6, 3), (1, 1, 1)]
    assert level_orders(7, (20.0, 5.0, 1.0)) == [(7, 7, 7), (7, 7, 3), (7, 3, 1)]


def test_level_operator_is_the_geometry_s():
    for mesh in (box((2, 1, 2), (1.0, 2.0, 0.5)), wavy(2)):
        problem = Problem(COMM, mesh, 6)
        level = PolynomialLevel(mesh, problem.grid.positions, (6, 6, 6), ())
        u = random_field(problem.grid.ids)
        expected = np.empty_like(u)
        problem.operator.apply(u, expected)
        found = level.stiffness(u)
        problem.operator.gather_scatter.sum(found)
        np.testing.assert_allclose(found, expected, atol=1e-10 * abs(expected).max())


def test_regions_are_charged_with_work():
    problem = Problem(COMM, box((2, 2, 2)), 7)
    regions = Regions()
    multigrid = problem.multigrid(regions=regions)
    multigrid.apply(problem.b, np.empty(problem.grid.shape, np.float32))
    assert set(regions.table) == {"schwarz", "transfer", "coarse"}
    assert regions.table["schwarz"].flops > 8 * 12 * 10**4


def test_what_does_not_fit_is_refused():
    grid = ElementGrid(wavy(2), 5)
    geometry = ElementGeometry(grid)
    with pytest.raises(ValueError, match="amg"):
        SchwarzMultigrid(grid, geometry, COMM, coarse="direct")
    with pytest.raises(ValueError, match="order 5"):
        SchwarzMultigrid(grid, geometry, COMM, orders=[(4, 4, 4), (1, 1, 1)])
