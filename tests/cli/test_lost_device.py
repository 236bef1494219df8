"""A GPU that is missing, too small or lost in the middle ends a run with one sentence and exit code 8; no hang."""

import os
import re
import signal
import subprocess
import sys

import pytest

from ridgeline.runtime.devices import describe_devices
from ridgeline.runtime.errors import DeviceError
from ridgeline.runtime.mpiexec import find_mpiexec

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

SIMULATED = {"NUMBA_ENABLE_CUDASIM": "1"}
# Rank 1's GPU fails in the step after the checkpoint; rank 0 then waits for its faces.
LOSE = """
import sys
from mpi4py import MPI
from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
from ridgeline.cli.main import main
plain = CudaEngine.advance
lost = type("CudaAPIError", (Exception,), {"__module__": "numba.cuda.cudadrv.driver"})

def advance(self, step, most):
    if step == 2 and MPI.COMM_WORLD.rank == 1:
        raise lost("[719] Call to cuStreamSynchronize results in CUDA_ERROR_LAUNCH_FAILED")
    return plain(self, step, most)

CudaEngine.advance = advance
sys.argv = ["ridgeline", "run", "case.toml", "--device", "cuda"]
sys.exit(main())
"""


def test_check_says_what_a_gpu_holds_and_that_there_is_none(ridgeline):
    try:
        describe_devices()
        pytest.skip("there is a GPU")
    except DeviceError:
        pass
    case = ridgeline.write()
    done = ridgeline("check", case, "-n", 2, "--device", "cuda")
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "GPU memory" in words
    assert "per rank: fields" in words
    assert "+ halo buffers" in words
    assert "warning: a run on this machine would end at once: no NVIDIA driver was found" in words
    assert "predicted time" not in words
    done = ridgeline("run", case, "--device", "cuda")
    assert done.returncode == 8, done.stderr
    assert done.stderr.count("error:") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.gpu
def test_a_gpu_lost_on_one_rank_ends_the_job_and_names_the_checkpoint(ridgeline):
    ridgeline.write(shape="7, 6, 5", steps=4, every=0, checkpoint=2, extra="")
    (ridgeline.path / "lose.py").write_text(LOSE)
    done = subprocess.run(
        [*find_mpiexec(), "-n", "2", sys.executable, "lose.py"],
        cwd=ridgeline.path,
        env={**os.environ, **SIMULATED, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # Hydra joins the codes of all ranks by bits, and the other may have been killed before it ended.
    assert re.search(r"MPI_Abort\([^)]*, 8\) - process 1$", done.stderr, re.MULTILINE), done.stderr
    assert done.returncode in (8, 8 | signal.SIGKILL), (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert line.startswith("error: rank 1: on ")
    assert "a kernel ended with a fault: [719] Call to cuStreamSynchronize" in line
    assert "The last good checkpoint is " in line
    assert "checkpoint_00000002" in line
