"""Tests of HPL-MxP on GPUs in numba-cuda's simulator; test_hpl_cuda.py runs this file."""

import json

import numpy as np
import pytest
from mpi4py import MPI
from numba import cuda
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

from bench_tools import measure
from hpl_order import noted
from ridgeline.bench.hpl import panel as formats
from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.device import factor_cuda, system_cuda
from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock, device_product_rate
from ridgeline.bench.hpl.device.matrix_cuda import MxpDeviceMatrix, compile_kernels, round_to
from ridgeline.bench.hpl.factor_host import allocate_singles
from ridgeline.bench.hpl.hpl_solve import solve_mixed
from ridgeline.bench.hpl.matrix import MxpHostMatrix
from ridgeline.bench.hpl.record import HplSettings
from ridgeline.bench.hpl.sizes import mxp_device_parts
from ridgeline.bench.hpl.team import TileTeam
from ridgeline.bench.hpl.triangular import solve
from ridgeline.jit.cuda_device import SIMULATED, make_stream
from ridgeline.runtime.devices import DeviceInfo
from ridgeline.runtime.errors import DeviceError
from simulator import ON_GPU, only_simulated

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"
# The states of the generator are meant to wrap, numbers are meant to overflow.
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered"),
    pytest.mark.filterwarnings("ignore:invalid value encountered"),
]
ALONE = MPI.COMM_SELF
STORAGES = ("float32", "float16", "bfloat16")


def on_host(n, nb, grid, part, **kinds):
    """The matrix of one process of a grid, its bits, and a product with x. It sums over itself alone."""
    rows, columns = Axis(n, nb, grid[0], part[0]), Axis(n, nb, grid[1], part[1])
    with TileTeam(1) as team:
        host = MxpHostMatrix(ALONE, rows, columns, team, **kinds)
        memory = allocate_singles(rows.count(), columns.count())
        host.write(memory)
        x = np.random.default_rng(4).standard_normal(n)
        return host, memory[:, : rows.count()].T, host.product(x), x, (rows, columns)


@pytest.mark.parametrize("dominant", [False, True])
@pytest.mark.parametrize(
    ("n", "nb", "grid"), [(1, 1, (1, 1)), (13, 4, (1, 1)), (17, 3, (2, 3)), (3, 8, (1, 1)), (2, 1, (3, 2))]
)
def test_the_matrix_has_the_bits_of_the_hosts(n, nb, grid, dominant) -> None:
    for part in np.ndindex(*grid):
        if np.prod(grid) > 1 and dominant:
            continue  # needs the sums of all processes
        host, expected, product, x, (rows, columns) = on_host(n, nb, grid, part, dominant=dominant)
        matrix = MxpDeviceMatrix(ALONE, rows, columns, make_stream(), dominant=dominant)
        np.testing.assert_allclose(matrix.diagonal, host.diagonal, rtol=1e-14)
        matrix.diagonal = host.diagonal  # which sums may differ by rounding
        pitch = rows.count() + 3
        out = cuda.to_device(np.full(max(pitch * columns.count(), 1), np.nan, np.float32))
        matrix.write(DeviceBlock(out, 0, pitch, rows.count(), columns.count()))
        found = out.copy_to_host()[: pitch * columns.count()].reshape(columns.count(), pitch)
        np.testing.assert_array_equal(found[:, : rows.count()].T, expected)
        assert np.isnan(found[:, rows.count() :]).all()
        assert matrix.norm == pytest.approx(host.norm, rel=1e-14)
        np.testing.assert_allclose(matrix.product(x), product, rtol=0, atol=1e-14 * n)


def awkward_numbers():
    """Random bits, numbers about every limit of both formats, ties, zeros, infinities and what is no number."""
    limits = [0, 0x33000000, 0x33800000, 0x38800000, 0x387FE000, 0x477FE000, 0x477FF000, 0x477FEFFF]
    limits += [0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x7F7FFFFF, 0x7F7F8000, 0x3F801000, 0x3F803000]
    limits += [0x3F808000, 0x3F818000, 0x3F800FFF, 0x3F801001]
    bits = np.array([bit + step for bit in limits for step in (0, 1, -1) if bit + step >= 0], np.uint32)
    random = np.random.default_rng(5).integers(0, 2**32, 150, np.uint32)
    halves = np.random.default_rng(6).integers(0x30000000, 0x48000000, 150, np.uint32)
    return np.concatenate([bits, bits | np.uint32(1 << 31), random, halves])


@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_panels_are_rounded_to_the_bits_of_the_hosts(narrow) -> None:
    words = awkward_numbers()
    rows, columns, pitch = words.size // 3, 3, words.size // 3 + 4
    values = np.zeros((columns, pitch), np.uint32)
    values[:, :rows] = words[: rows * columns].reshape(columns, rows)
    expected = values.copy()
    formats.round_to(narrow, expected.view(np.float32)[:, :rows].T)
    on_device = cuda.to_device(values.view(np.float32).ravel())
    bits = cuda.to_device(np.zeros(columns * (rows + 1), np.uint16))
    out = DeviceBlock(bits, 0, rows + 1, rows, columns, narrow)
    round_to(DeviceBlock(on_device, 0, pitch, rows, columns), out, make_stream())
    rounded = on_device.copy_to_host().view(np.uint32).reshape(columns, pitch)
    np.testing.assert_array_equal(rounded.view(np.float32), expected.view(np.float32))
    short = bits.copy_to_host().reshape(columns, rows + 1)[:, :rows].copy()
    long = expected[:, :rows].copy().view(np.float32)
    if narrow == "float16":
        np.testing.assert_array_equal(short.view(np.float16).astype(np.float32), long)
    else:
        np.testing.assert_array_equal((short.astype(np.uint32) << 16).view(np.float32), long)
    assert np.isnan(long).sum() > 3


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("n", "nb"), [(1, 1), (2, 1), (5, 48), (33, 8), (33, 32), (97, 48)])
def test_solutions_are_the_hosts(n, nb, storage) -> None:
    host = solve_mixed(ALONE, HplSettings(n, nb), storage)
    run = solve_mixed(ALONE, HplSettings(n, nb, device="cuda"), storage)
    assert run.passed
    assert run.converged
    assert run.iterations == host.iterations
    np.testing.assert_allclose(run.x, host.x, rtol=0, atol=1e-13 * abs(host.x).max())
    assert [sample.columns for sample in run.samples] == [sample.columns for sample in host.samples]


def test_the_factors_are_the_hosts_to_rounding(monkeypatch) -> None:
    """Off the diagonal blocks in device memory, and of 16 bits where that is asked for."""
    n, nb, kept = 21, 6, []
    original = factor_cuda.UnpivotedDevice.finish
    monkeypatch.setattr(
        factor_cuda.UnpivotedDevice, "finish", lambda self: (original(self), kept.append(self))
    )
    solve_mixed(ALONE, HplSettings(n, nb, device="cuda"), "bfloat16")
    (factors,) = kept
    a = factors._a
    found = a.array.copy_to_host().reshape(n, a.pitch).T[:n].copy()
    for k, block in factors.diagonals.items():
        found[k * nb : (k + 1) * nb, k * nb : (k + 1) * nb] = block
    assert not (found.view(np.uint32) & 0xFFFF).any()
    with TileTeam(1) as team:
        axis = Axis(n, nb, 1, 0)
        memory = allocate_singles(n, n)
        host = MxpHostMatrix(ALONE, axis, axis, team)
        host.write(memory)
        lower, upper = np.tril(found, -1) + np.eye(n), np.triu(found)
        product = lower.astype(float) @ upper.astype(float)
        np.testing.assert_allclose(product, memory[:, :n].T, rtol=0, atol=0.05)


def test_narrow_storage_needs_more_iterations() -> None:
    runs = [solve_mixed(ALONE, HplSettings(60, 16, device="cuda"), storage) for storage in STORAGES]
    assert runs[0].iterations < runs[1].iterations <= runs[2].iterations


def test_repeats_have_the_same_bits() -> None:
    runs = [solve_mixed(ALONE, HplSettings(20, 6, device="cuda"), "float16") for _ in range(2)]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)


@only_simulated
def test_a_block_of_a_triangular_solve_takes_one_copy_each_way(monkeypatch) -> None:
    made, counts = [], {"copy_to_host": 0, "copy_to_device": 0}
    build = system_cuda.DeviceTriangles.__init__
    monkeypatch.setattr(
        system_cuda.DeviceTriangles,
        "__init__",
        lambda self, *arguments: (made.append(self), build(self, *arguments))[1],
    )
    solve_mixed(ALONE, HplSettings(13, 3, device="cuda"), "float32")
    for name in counts:
        original = getattr(FakeCUDAArray, name)

        def counted(self, *arguments, name=name, original=original, **named):
            counts[name] += 1
            return original(self, *arguments, **named)

        monkeypatch.setattr(FakeCUDAArray, name, counted)
    assert np.isfinite(solve(made[0], ALONE, np.ones(13))).all()
    blocks, sweeps = 5, 2
    assert counts == {"copy_to_host": sweeps * blocks, "copy_to_device": sweeps * (blocks + 1)}  # and zeros


@only_simulated
@pytest.mark.parametrize("storage", ["float32", "bfloat16"])
def test_waits_put_all_work_in_order(monkeypatch, storage) -> None:
    """The order of work on streams and on hosts does not depend on their speeds, and a missing wait is detected."""
    settings = HplSettings(13, 3, device="cuda")
    with noted() as order:
        assert solve_mixed(ALONE, settings, storage).passed
    assert order.accesses > 30
    original = factor_cuda.UnpivotedDevice._pack_diagonal

    def without_event(self, panel, at):
        event, self._ahead = self._ahead, cuda.event()
        original(self, panel, at)
        self._ahead = event

    monkeypatch.setattr(factor_cuda.UnpivotedDevice, "_pack_diagonal", without_event)
    with noted(), pytest.raises(AssertionError, match="block to the host is not put behind copy"):
        solve_mixed(ALONE, settings, storage)


@pytest.mark.parametrize("diagonal", [np.inf, np.nan])
def test_factors_that_are_no_help_fail_the_test(diagonal) -> None:
    settings = HplSettings(40, 8, device="cuda")
    assert not solve_mixed(ALONE, settings, "bfloat16", diagonal=np.full(40, diagonal)).passed


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("n", "nb"), [(13, 4), (4, 4), (3, 8)])
def test_memory_is_what_was_counted(monkeypatch, n, nb, storage) -> None:
    compile_kernels()
    monkeypatch.setattr(system_cuda, "compile_kernels", lambda: None)
    taken = []
    for name in ("device_array", "to_device"):
        original = getattr(cuda, name)

        def noting(*arguments, original=original, **named):
            found = original(*arguments, **named)
            taken.append(found.size * found.dtype.itemsize)
            return found

        monkeypatch.setattr(cuda, name, noting)
    assert solve_mixed(ALONE, HplSettings(n, nb, device="cuda"), storage).passed
    assert sum(taken) == sum(mxp_device_parts(n, nb, 1, 1, storage).values())


def test_memory_is_counted_before_it_is_taken(monkeypatch) -> None:
    small = DeviceInfo(0, "Small GPU", (9, 0), 2**20, 1)
    monkeypatch.setattr(system_cuda, "select_device", lambda comm: small)
    monkeypatch.setattr(system_cuda, "MxpDeviceMatrix", None)  # nothing is allocated before
    with pytest.raises(
        DeviceError,
        match=r"on its GPU \(matrix .* \+ panels .* \+ tables .* \+ vectors .*\), .* Small GPU .*smaller --order",
    ):
        solve_mixed(ALONE, HplSettings(600, 8, device="cuda"))


@pytest.mark.parametrize("storage", STORAGES)
def test_the_benchmark_says_what_the_device_gave(storage) -> None:
    result = measure("hpl-mxp", ALONE, memory="cuda-staged", n="12", nb="5", device="cuda", storage=storage)
    assert result.verified
    (solve,) = result.extra["solves"]
    share = solve["flops_per_second"] / result.extra["product_flops_per_second"]
    assert solve["fraction_of_products"] == pytest.approx(share)
    assert any("simulator" in note and "cuBLAS" in note for note in result.notes)
    assert any(f"of {storage} products" in note for note in result.notes)
    assert not any("with one thread in each call" in note for note in result.notes)
    assert result.settings["device"] == "cuda"
    json.dumps(result.to_dict())


@pytest.mark.parametrize("numbers", ["float64", *STORAGES])
def test_the_rate_of_products_is_that_of_all_formats(numbers) -> None:
    assert device_product_rate(ALONE, 16, numbers) > 0
