"""Size laws: what grows in weak scaling, what is divided in strong scaling, and what is said where nothing fits."""

import math
from fractions import Fraction

import pytest

from ridgeline.bench.benchmark import Scaling, available, find_benchmark
from ridgeline.config.size_law import CountPerRank, GlobalGrid, multiplied, prime_factors
from ridgeline.models import case_class
from ridgeline.models.navier_stokes.settings import growing_directions
from ridgeline.runtime.errors import ConfigError

GRID = GlobalGrid("grid.shape")


def shape(law, ranks, first=1, **settings):
    settings = {f"grid.{key}": value for key, value in settings.items()}
    return law.weak(settings, first, ranks)


def test_directions_grow_in_turn():
    grown = [shape(GRID, n, shape=[64, 64, 64]).get("grid.shape") for n in (1, 2, 4, 8, 16, 3, 6)]
    assert grown == [
        None,
        [128, 64, 64],
        [128, 128, 64],
        [128, 128, 128],
        [256, 128, 128],
        [192, 64, 64],
        [192, 128, 64],
    ]


@pytest.mark.parametrize(("nodes", "edge", "process_grid"), [
    (128, 4608, (32, 24, 16)), (1024, 9216, (64, 48, 32)), (8192, 18432, (128, 96, 64)),
])  # fmt: skip
def test_cubes_of_hacc_on_aurora(nodes, edge, process_grid):
    """Ibeid et al., Table 3: eight times the nodes double the grid in every direction."""
    assert math.prod(process_grid) == 96 * nodes
    assert shape(GRID, nodes, 128, shape=[4608] * 3).get("grid.shape", [4608] * 3) == [edge] * 3


def test_a_cube_stays_one():
    """Exactly where the growth is a cube, as HACC's (Ibeid et al., Table 3); else by the nearest even edge."""
    law = case_class("n_body").SIZE_LAW
    size = {"shape": [4608] * 3, "length": 3000.0, "particles": "none"}
    assert shape(law, 1024, 128, **size) == {"grid.shape": [9216] * 3, "grid.length": 6000.0}
    assert shape(law, 128, 128, **size) == {}
    twice = shape(law, 2, shape=[64] * 3, length=128.0, particles=32)
    assert twice == {"grid.shape": [80] * 3, "grid.length": 160.0, "grid.particles": 40}
    with pytest.raises(
        ConfigError, match=r"no cube .* 2 times the points of grid.shape = \[6, 6, 6\].* 8 ranks"
    ):
        shape(law, 2, shape=[6] * 3, length=8.0, particles="none")
    assert law.strong({}, 1, 2) == {}


def test_a_growth_that_is_no_integer():
    assert multiplied([64, 64, 64], Fraction(3, 2)) == [96, 64, 64]
    assert multiplied([64, 66, 70], Fraction(3, 2), multiple=2) == [96, 66, 70]
    assert multiplied([63, 63, 63], Fraction(3, 2)) is None
    assert multiplied([66, 66, 66], Fraction(5, 4), multiple=2) is None


def test_sizes_that_do_not_divide_say_what_would_fit():
    with pytest.raises(ConfigError, match=r"from 2 to 3 ranks multiplies the points by 3/2.*\[63, 63, 63\]"):
        shape(GRID, 3, 2, shape=[63, 63, 63])
    even = GlobalGrid("grid.shape", multiple=2)
    with pytest.raises(
        ConfigError, match=r"into a multiple of 2\. Choose multiples of 2 ranks, or .* multiples of 4"
    ):
        shape(even, 3, 2, shape=[66, 66, 66])


def test_boxes_grow_with_their_grids():
    law = case_class("turbulence").SIZE_LAW
    assert law.logarithmic
    found = shape(law, 4, shape=[64, 32, 64], lengths=[1.0, 1.0, 2.0])
    assert found == {"grid.shape": [128, 64, 64], "grid.lengths": [2.0, 2.0, 2.0]}


def test_a_duct_grows_along_itself():
    settings = {"grid.periodic": [False, False, True], "grid.distribution": ["sine", "sine", "uniform"]}
    assert growing_directions(settings) == (2,)
    walls = {"grid.periodic": [False] * 3, "grid.distribution": ["uniform"] * 3}
    assert growing_directions(walls) == (0, 1, 2)
    with pytest.raises(
        ConfigError, match=r'grid\.mesh = "a\.msh" has a fixed size\. Study the mesh with --strong'
    ):
        growing_directions(settings | {"grid.mesh": "a.msh"})
    with pytest.raises(ConfigError, match=r"grid\.edges leaves none\. Study the box with --strong"):
        growing_directions(settings | {"grid.edges.x": [0.0, 1.0]})
    assert growing_directions(settings | {"grid.edges.y": [0.0, 1.0]}) == (2,)
    law = case_class("navier_stokes").SIZE_LAW
    found = law.weak(
        {**settings, "grid.elements": [4, 4, 2], "grid.lengths": [2.0, 2.0, 1.5]}, first=2, ranks=8
    )
    assert found == {"grid.elements": [4, 4, 8], "grid.lengths": [2.0, 2.0, 6.0]}


def test_strong_scaling_keeps_a_global_grid():
    assert GRID.strong({"grid.shape": [5, 7, 9]}, 1, 4) == {}


def test_numbers_of_a_rank():
    law = CountPerRank("elements")
    assert law.weak({"elements": 100}, 1, 8) == {}
    assert law.strong({"elements": 100}, 2, 8) == {"elements": 25}
    assert law.strong({"elements": 100}, 2, 2) == {}
    with pytest.raises(
        ConfigError,
        match=r"from 1 to 3 ranks divides elements = 100 per rank.*Choose a total that is a multiple of 3",
    ):
        law.strong({"elements": 100}, 1, 3)
    with pytest.raises(ConfigError, match="by 8"):
        law.strong({"elements": 1}, 1, 8)


def test_prime_factors():
    assert [prime_factors(n) for n in (1, 2, 12, 35)] == [[], [2], [3, 2, 2], [7, 5]]


def test_benchmarks_that_scale():
    able = [one for one in available().values() if one.scaling is not None]
    assert {"hpcg", "hpcg-iteration", "nekbone", "transpose"} <= {one.name for one in able}
    for one in able:
        if isinstance(one.scaling, str):
            assert isinstance(find_benchmark(one.scaling).scaling, Scaling)
            continue
        assert callable(one.find(one.scaling.figures))
        settings = vars(one.make_options())
        assert set(one.scaling.law.keys) <= settings.keys()
        assert one.scaling.law.weak(settings, 1, 8) is not None


def test_a_count_grows_as_the_points_do():
    law = GlobalGrid("grid.shape", count="particles.count")
    given = {"grid.shape": [6, 6, 6], "particles.count": 10}
    assert law.weak(given, 1, 3) == {"grid.shape": [18, 6, 6], "particles.count": 30}
    assert law.weak(given, 2, 3) == {"grid.shape": [9, 6, 6], "particles.count": 15}
    assert law.weak(given, 2, 2) == {}
    assert law.strong(given, 1, 3) == {}
    assert "particles.count" not in law.weak(given | {"particles.count": 0}, 1, 3)
    with pytest.raises(
        ConfigError, match=r"multiplies particles\.count = 5 by 3/2, which is not a whole number"
    ):
        law.weak(given | {"particles.count": 5}, 2, 3)
