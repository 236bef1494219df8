"""Tests of HPL on GPUs in numba-cuda's simulator; test_hpl_cuda.py runs this file."""

import json
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from bench_tools import measure
from hpl_cases import filled_by
from hpl_order import noted
from ridgeline.bench.hpl.block_cyclic import ProcessGrid, distribute
from ridgeline.bench.hpl.device import blas_cuda, factor_cuda, system_cuda
from ridgeline.bench.hpl.device.blas_cuda import device_product_rate
from ridgeline.bench.hpl.device.matrix_cuda import DeviceMatrix
from ridgeline.bench.hpl.hpl_solve import solve_system
from ridgeline.bench.hpl.matrix import random_matrix
from ridgeline.bench.hpl.record import HplSettings
from ridgeline.bench.hpl.residual import host_sums
from ridgeline.bench.hpl.team import TileTeam
from ridgeline.bench.hpl.update import RowSwap
from ridgeline.jit.cuda_device import SIMULATED, make_stream
from ridgeline.runtime.devices import DeviceInfo
from ridgeline.runtime.errors import DeviceError
from simulator import DEVICE, ON_GPU, only_simulated

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"
# The states of the generator are meant to wrap.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar")
ALONE = MPI.COMM_SELF
EXAMPLE = Path(__file__).parents[3] / "examples/hpl/HPL.dat"


def on_host(matrix):
    """The part of a device matrix, without what fills its columns up."""
    whole = matrix.all
    return whole.array.copy_to_host().reshape(whole.columns, whole.pitch).T[: whole.rows]


@pytest.mark.parametrize(
    ("n", "nb", "grid"), [(13, 4, (1, 1)), (13, 4, (2, 3)), (17, 3, (3, 1)), (3, 8, (1, 1)), (2, 1, (3, 2))]
)
def test_the_matrix_has_the_bits_of_the_hosts(n, nb, grid) -> None:
    for part in np.ndindex(*grid):
        require_same_bits(distribute(n, nb, grid, part))


def require_same_bits(place) -> None:
    matrix = DeviceMatrix(place, make_stream())
    matrix.generate(100)
    expected = np.empty(place.shape, order="F")
    random_matrix(place, 100)(expected, 0, place.shape[1])
    np.testing.assert_array_equal(on_host(matrix), expected)


def test_rows_may_lie_far_apart() -> None:
    """Ten rows and columns of a matrix of more numbers than 32 bits count."""
    require_same_bits(distribute(10**6, 2, (10**5, 10**5), (99999, 3)))


@pytest.mark.parametrize(("n", "nb", "grid"), [(13, 4, (1, 1)), (9, 2, (2, 2)), (2, 1, (3, 2))])
def test_sums_are_the_hosts_to_rounding(n, nb, grid) -> None:
    for part in np.ndindex(*grid):
        place = distribute(n, nb, grid, part)
        matrix = DeviceMatrix(place, make_stream())
        matrix.generate(7)
        a = np.asfortranarray(on_host(matrix))
        x = np.random.default_rng(3).random(place.columns.count(n))
        with TileTeam(1) as team:
            expected = host_sums(ProcessGrid(place, ALONE, ALONE), a, x, team)
        for mine, theirs in zip(matrix.sums(x), expected):
            assert (mine is None) == (theirs is None)
            if mine is not None:
                np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-14 * n)


@pytest.fixture
def chosen(monkeypatch):
    """The pivots of all panels, in order."""
    found, original = [], RowSwap.__init__

    def noting(self, panel, rows):
        found.append(panel.pivots.tolist())
        original(self, panel, rows)

    monkeypatch.setattr(RowSwap, "__init__", noting)
    return found


# Whole panels and not, one panel alone, N = 1, panels wider than a block of the triangular solve.
@pytest.mark.parametrize(("n", "nb"), [(20, 5), (17, 4), (7, 16), (1, 4), (9, 1), (66, 66)])
def test_pivots_and_solution_of_the_host(n, nb, chosen) -> None:
    host = solve_system(ALONE, HplSettings(n, nb, nbmin=2))
    expected = chosen[:]
    chosen.clear()
    run = solve_system(ALONE, HplSettings(n, nb, nbmin=2, device="cuda"))
    assert chosen == expected
    assert run.passed
    np.testing.assert_allclose(run.solution, host.solution, rtol=0, atol=1e-12 * abs(host.solution).max())
    assert run.norms.a == pytest.approx(host.norms.a, rel=1e-14)
    assert run.norms.a_one == pytest.approx(host.norms.a_one, rel=1e-14)
    assert run.norms.b == host.norms.b
    assert [sample.columns for sample in run.samples] == [sample.columns for sample in host.samples]
    assert {"panel", "copies", "update", "substitution"} <= set(run.phases)


def test_repeats_have_the_same_bits() -> None:
    runs = [solve_system(ALONE, HplSettings(14, 4, device="cuda")) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].solution, runs[1].solution)


def test_rows_that_must_change_places_at_every_step(monkeypatch) -> None:
    """A cyclic shift, whose solution is known exactly."""
    n = 23

    def shifted(rows, column):
        return rows + 1.0 if column == n else np.where((rows + 9) % n == column, 2.0, 0.0)

    def generate(self, seed):
        a = np.zeros((self.all.pitch, self.all.columns), order="F")
        filled_by(shifted)(self._place, seed)(a, 0, self.all.columns)
        self.all.array.copy_to_device(a.ravel("F"))

    monkeypatch.setattr(DeviceMatrix, "generate", generate)
    expected = np.empty(n)
    expected[(np.arange(n) + 9) % n] = (np.arange(n) + 1.0) / 2
    run = solve_system(ALONE, HplSettings(n, 6, nbmin=3, device="cuda"))
    np.testing.assert_array_equal(run.solution, expected)
    assert run.norms.residual == 0


def test_a_wrong_pivot_is_found(monkeypatch) -> None:
    original = RowSwap.__init__

    def broken(self, panel, rows):
        if panel.first == 8:
            panel.pivots[0] = 8.0 if panel.pivots[0] != 8 else 9.0
        original(self, panel, rows)

    monkeypatch.setattr(RowSwap, "__init__", broken)
    assert not solve_system(ALONE, HplSettings(24, 8, device="cuda")).passed


@only_simulated
def test_waits_put_all_work_in_order(monkeypatch) -> None:
    """The order of work on streams and on hosts does not depend on their speeds, and a missing wait is detected."""
    settings = HplSettings(13, 3, device="cuda")
    with noted() as order:
        assert solve_system(ALONE, settings).passed
    assert order.accesses > 30
    monkeypatch.setattr(factor_cuda, "wait_for", lambda event, poll: None)
    with noted(), pytest.raises(AssertionError, match="factorisation is not put behind download"):
        solve_system(ALONE, settings)


def test_the_official_test_fails_without_a_crash(monkeypatch) -> None:
    """A matrix of zeros, and one with a NaN."""
    original = DeviceMatrix.generate
    for wrong in (0.0, np.nan):

        def generate(self, seed, wrong=wrong):
            original(self, seed)
            self.all.array[: 10 * self.all.pitch].copy_to_device(np.full(10 * self.all.pitch, wrong))

        monkeypatch.setattr(DeviceMatrix, "generate", generate)
        run = solve_system(ALONE, HplSettings(11, 4, device="cuda"))
        assert not run.passed


def test_tests_of_a_file(tmp_path) -> None:
    """All of HPL.dat, one after the other."""
    lines = EXAMPLE.read_text().splitlines()
    for at, values in {4: "2", 5: "7 9", 6: "1", 7: "3", 9: "1", 10: "1", 11: "1"}.items():
        lines[at] = f"{values} {lines[at]}"
    for at in (13, 15, 19):  # one way to factor panels
        lines[at] = f"1 {lines[at]}"
    path = tmp_path / "HPL.dat"
    path.write_text("\n".join(lines))
    result = measure("hpl", ALONE, memory="cuda", dat=str(path), device="cuda", dgemm=False)
    assert result.verified
    assert {one["n"] for one in result.extra["solves"]} == {7, 9}
    assert any("although MPI accepts device memory" in note for note in result.notes)


def test_the_benchmark_says_what_the_device_gave() -> None:
    result = measure("hpl", ALONE, memory="cuda-staged", n="12", nb="5", device="cuda")
    assert result.verified
    (solve,) = result.extra["solves"]
    assert solve["fraction_of_products"] == solve["flops_per_second"] / result.extra["dgemm_flops_per_second"]
    assert any(DEVICE in note and "cuBLAS" in note for note in result.notes)
    assert not any("with one thread in each call" in note for note in result.notes)
    assert result.settings["tests"][0]["device"] == "cuda"
    json.dumps(result.to_dict())


def test_memory_is_counted_before_it_is_taken(monkeypatch) -> None:
    small = DeviceInfo(0, "Small GPU", (9, 0), 2**20, 1)
    for module in (system_cuda, blas_cuda):
        monkeypatch.setattr(module, "select_device", lambda comm: small)
    monkeypatch.setattr(system_cuda, "DeviceMatrix", None)  # nothing is allocated before
    with pytest.raises(
        DeviceError,
        match=r"on its GPU \(matrix .* \+ panels .* \+ rows of U .* \+ vectors .*\), .* Small GPU .*smaller --order",
    ):
        solve_system(ALONE, HplSettings(500, 8, device="cuda"))
    monkeypatch.setattr(blas_cuda, "ORDER", 512)
    with pytest.raises(DeviceError, match="matrices of products"):
        device_product_rate(ALONE)
