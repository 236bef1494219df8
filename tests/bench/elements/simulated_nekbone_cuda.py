"""Tests of Nekbone on GPUs in numba-cuda's simulator; test_nekbone_cuda.py runs this file."""

import json

import numpy as np
import pytest
from mpi4py import MPI

from bench_tools import measure
from ridgeline.bench.elements import nekbone
from ridgeline.bench.elements.nekbone import Nekbone
from ridgeline.bench.result import to_csv
from ridgeline.elements.device import one_pass_cuda
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.runtime.devices import DeviceInfo
from ridgeline.runtime.errors import DeviceError
from simulator import DEVICE, ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"


@pytest.mark.parametrize(("n", "elements", "iterations"), [(3, 12, 3), (2, 27, 2), (4, 3, 1)])
def test_residuals_and_solution_of_the_cpu(n, elements, iterations) -> None:
    problem = Nekbone(MPI.COMM_SELF, n, elements, "cuda-staged")
    host = Nekbone(MPI.COMM_SELF, n, elements)
    _, expected = host.solve(iterations)
    found = [problem.solve(iterations)[1] for _ in range(2)]  # a second solve starts afresh
    assert found[0] == found[1]
    np.testing.assert_allclose(found[0], expected, rtol=1e-12, atol=1e-14 * expected[0])
    expected = host.solution()
    np.testing.assert_allclose(problem.solution(), expected, rtol=0, atol=1e-13 * abs(expected).max())


def test_the_benchmark_reports_the_device_and_its_share() -> None:
    result = measure(
        "nekbone", MPI.COMM_SELF, memory="cuda-staged", points=[3], elements=4, iterations=1, device="cuda"
    )
    (row,) = result.rows
    assert DEVICE in row["device"]
    assert row["fraction_of_copy"] == pytest.approx(row["bandwidth"] / sum(result.extra["device_copies"]))
    assert row["fraction_of_stream"] is None
    assert result.settings["memory"] == "cuda-staged"
    assert row["unique_points"] == 3 * 5 * 5
    shared = 4 * 27 - 3 * 5 * 5  # of a brick with boundaries alone, the copies inside are few
    assert 112 * 4 * 27 < row["bytes"] <= 112 * 4 * 27 + 20 * 4 * shared
    assert {"device", "fraction_of_copy"} <= set(to_csv(result).splitlines()[0].split(","))
    json.dumps(result.to_dict())


def test_refusals(monkeypatch) -> None:
    with pytest.raises(DeviceError, match=r"--nx1 17: there is no GPU kernel .* Choose --nx1 from 2 to 16"):
        Nekbone(MPI.COMM_SELF, 17, 1, "cuda-staged")
    small = DeviceInfo(0, "Small GPU", (9, 0), 2**20, 1)
    monkeypatch.setattr(nekbone, "select_device", lambda comm: small)
    monkeypatch.setattr(one_pass_cuda.cuda, "device_array", None)  # nothing is allocated before
    monkeypatch.setattr(one_pass_cuda.cuda, "to_device", None)
    with pytest.raises(
        DeviceError,
        match=r"on its GPU \(factors .* \+ fields .* \+ lists .*\), .* of Small GPU .*\. Use fewer",
    ):
        Nekbone(MPI.COMM_SELF, 4, 300, "cuda-staged")
