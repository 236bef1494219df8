"""The counted work of a step of the wind model, against what the solvers count and the cycles that they take."""

import math

import pytest
from mpi4py import MPI
from tests.wind_flows import advance_engine, layer_case

from ridgeline.models.wind.estimate import FACTORS, NODE_VALUES, flow_counts, least_work, step_solves
from ridgeline.models.wind.problem_of_case import make_problem

GRID = {"shape": [16, 20, 24], "lengths": [160.0, 200.0, 240.0]}


@pytest.mark.parametrize("name", ["neutral", "stable, implicit"])
def test_expected_cycles_are_those_of_a_run(name):
    tolerance = 1e-8
    case = layer_case(name, GRID, tolerance=tolerance)
    problem = make_problem(case)
    _, engine = advance_engine(MPI.COMM_SELF, problem, "auto", False, 2, 0.5, case=case, tolerance=tolerance)
    solves = step_solves(case)
    counted = {solve: count for solve, count in engine.solves.items() if count.solves}
    assert set(counted) == set(solves.number)
    for solve, count in counted.items():
        assert 0.5 < solves.cycles[solve] / (count.iterations / count.solves) < 2.0, solve
    nodal = engine._projections._nodal.solver.work_of_cycle()
    expected = NODE_VALUES * 2.0 * 8 / 7
    assert nodal.bytes / 8 / math.prod(case.grid.shape) == pytest.approx(expected, rel=0.25)


def test_work_counts_the_solves():
    case = layer_case("neutral", GRID)
    cells = math.prod(case.grid.shape)
    flow = 8 * flow_counts(case)[0] * cells
    few, many = (least_work(case, 0.0, 0.0, {"mac": n, "nodal": n}).bytes_memory for n in (1.0, 10.0))
    assert few > flow
    # A cycle of each projection moves 8 and 6 values a cell, and a seventh of that on coarser levels.
    assert (many - few) / 9 == pytest.approx(8 * 14 * 8 / 7 * cells, rel=0.1)
    expected = math.log(case.model.tolerance) / math.log(FACTORS["mac"])
    assert step_solves(case).cycles["mac"] == pytest.approx(expected)
    twice = layer_case("neutral", GRID, advection="method-of-lines")
    assert step_solves(twice).number == {"mac": 2, "nodal": 2}
