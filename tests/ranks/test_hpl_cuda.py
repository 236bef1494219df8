"""HPL and HPL-MxP on one GPU per rank, in numba-cuda's simulator, on every grid: pivots and solutions of hosts."""

from simulator import simulate

simulate()

import numpy as np
import pytest

from hpl_cases import whole_solution
from hpl_order import noted
from ridgeline.bench.hpl.device import panels_cuda
from ridgeline.bench.hpl.hpl_solve import solve_mixed, solve_system
from ridgeline.bench.hpl.record import HplSettings
from ridgeline.bench.hpl.update import RowSwap

RANKS = (2, 3, 4)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}

pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered"),
    pytest.mark.filterwarnings("ignore:invalid value encountered"),
]


def grids(comm):
    return [(p, comm.size // p) for p in range(1, comm.size + 1) if comm.size % p == 0]


# Blocks that processes share evenly and not, fewer blocks than processes, one block alone.
@pytest.mark.parametrize(
    ("n", "nb", "order"), [(26, 4, "row"), (20, 3, "column"), (5, 3, "row"), (4, 6, "row")]
)
def test_pivots_and_solution_of_the_hosts(comm, monkeypatch, n, nb, order) -> None:
    pivots, original = [], RowSwap.__init__

    def noting(self, panel, rows):
        pivots.append(panel.pivots.tolist())
        original(self, panel, rows)

    monkeypatch.setattr(RowSwap, "__init__", noting)
    for p, q in grids(comm):
        settings = HplSettings(n, nb, p, q, nbmin=2, order=order)
        host = solve_system(comm, settings)
        expected = pivots[:]
        run = solve_system(comm, HplSettings(n, nb, p, q, nbmin=2, order=order, device="cuda"))
        assert pivots[len(expected) :] == expected
        pivots.clear()
        assert run.passed, (p, q, run.norms)
        x = whole_solution(comm, host)
        np.testing.assert_allclose(whole_solution(comm, run), x, rtol=0, atol=1e-12 * abs(x).max())
        assert run.norms.a == pytest.approx(host.norms.a, rel=1e-14)
        assert run.norms.b == host.norms.b
        assert comm.allgather(run.norms) == comm.size * [run.norms]


def test_waits_put_all_work_in_order(comm) -> None:
    """Of three streams and the host, however fast each of them is."""
    for p, q in grids(comm):
        with noted():
            assert solve_system(comm, HplSettings(26, 4, p, q, nbmin=2, device="cuda")).passed


def test_a_row_in_a_wrong_place_is_found(comm, monkeypatch) -> None:
    original = RowSwap.__init__

    def broken(self, panel, rows):
        if panel.first == 8:
            panel.pivots[0] = 8.0 if panel.pivots[0] != 8 else 9.0
        original(self, panel, rows)

    monkeypatch.setattr(RowSwap, "__init__", broken)
    for p, q in grids(comm):
        assert not solve_system(comm, HplSettings(24, 4, p, q, device="cuda")).passed


@pytest.mark.parametrize(
    ("n", "nb", "storage"),
    [(26, 4, "float32"), (20, 3, "float16"), (26, 4, "bfloat16"), (5, 3, "float16"), (4, 6, "float32")],
)
def test_mixed_precision_has_the_solution_of_the_hosts(comm, n, nb, storage) -> None:
    for p, q in grids(comm):
        host = solve_mixed(comm, HplSettings(n, nb, p, q), storage)
        run = solve_mixed(comm, HplSettings(n, nb, p, q, device="cuda"), storage)
        assert run.passed, (p, q, run.scaled_residual)
        assert run.iterations == host.iterations
        np.testing.assert_allclose(run.x, host.x, rtol=0, atol=1e-13 * abs(host.x).max())
        every = comm.allgather((run.x.tobytes(), run.iterations, run.scaled_residual))
        assert len(set(every)) == 1, "ranks have different solutions"


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_waits_put_all_work_of_mixed_precision_in_order(comm, storage) -> None:
    """Of both streams and the host, however fast each of them is."""
    for p, q in grids(comm):
        with noted():
            assert solve_mixed(comm, HplSettings(26, 4, p, q, device="cuda"), storage).passed


def test_a_panel_that_does_not_arrive_is_found(comm, monkeypatch) -> None:
    """What came to pinned memory is not copied to the device: so few unknowns GMRES finds, but not at once."""

    monkeypatch.setattr(panels_cuda.PanelCopy, "upload", lambda self, copy, stream: None)
    for p, q in grids(comm):
        run = solve_mixed(comm, HplSettings(24, 4, p, q, device="cuda"), "float16")
        assert not run.passed or run.iterations > 8, (p, q, run.iterations)
