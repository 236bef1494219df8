"""`ridgeline bench transpose --device cuda`: refused without a GPU, run in the simulator, JSON as the table."""

import json

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from cuda_tools import skip_without_device
from ridgeline.bench.transpose.transpose_options import TransposeOptions
from ridgeline.runtime.errors import ConfigError

CASE = ("--shape", 8, 8, 8, "-q", 2, "--cycles", 1)


def test_without_a_gpu_it_is_refused(ridgeline) -> None:
    """Nothing falls back to the CPU."""
    try:
        skip_without_device()
    except pytest.skip.Exception:
        done = ridgeline("bench", "transpose", "--device", "cuda", *CASE)
        assert done.returncode == 8, done.stderr
        assert done.stderr.count("error:") == 1
        assert "--device cpu" in done.stderr
        assert "Traceback" not in done.stderr
        assert not done.stdout


@pytest.mark.parametrize("method", ["node", "alltoall", "ialltoallv"])
def test_methods_that_gpus_have_not(method: str) -> None:
    with pytest.raises(
        ConfigError, match=f"--method {method} cannot be used with --device cuda. Use --method alltoallv"
    ):
        TransposeOptions(method=method, device="cuda")
    assert TransposeOptions(method=method).device == "cpu"


@pytest.mark.gpu
def test_json_has_the_columns(ridgeline) -> None:
    simulator = {"NUMBA_ENABLE_CUDASIM": "1"}
    done = ridgeline("bench", "transpose", "--device", "cuda", *CASE, "--json", "-", env=simulator)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    for direction in ("row", "column"):
        for part in ("device_to_host", "cpu_mpi", "host_to_device", "cpu"):
            assert f"{direction}_{part}_seconds" in content["columns"]
        assert f"{direction}_cpu_bandwidth" in content["columns"]
        assert f"{direction}_gpu_seconds" not in content["columns"], (
            "the simulator's memory is not MPI's to take"
        )
    assert content["verified"]
    assert content["settings"]["memory"] == "cuda-staged"


def test_the_json_of_hosts_is_as_before(ridgeline) -> None:
    done = ridgeline("bench", "transpose", *CASE, "--json", "-")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert not {"device", "memory", "gpu"} & set(content["settings"])
    assert not any("gpu" in key or "cpu" in key for row in content["rows"] for key in row)
    assert not content["verified"]
