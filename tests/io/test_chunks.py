"""`ridgeline.open(..., chunks=...)`: a data set larger than the memory that reducing it takes."""

import json
import subprocess
import sys

import numpy as np
import pytest
from mpi4py import MPI

import ridgeline
from ridgeline.io import dataset
from ridgeline.io.open_store import open_writer
from ridgeline.io.store import Variable
from ridgeline.runtime.errors import ConfigError
from toy_data_set import STORES

STEPS, SHAPE = 128, (32, 64, 128)  # 2 MiB a step, 256 MiB in all
MOST = 80 * 2**20  # bytes that opening and reducing it may add to the process

# In a process of its own, because Dask would take the folder tests/sparse for the package sparse.
REDUCE = """
import json, resource, sys
import dask, numpy, xarray, zarr, dask.array
import ridgeline, ridgeline.io.dataset
if sys.argv[1].endswith("bp"):
    import adios2.bindings
dask.config.set(scheduler="synchronous")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with ridgeline.open(sys.argv[1], chunks={"step": 1}) as data:
    mean, largest = float(data.U.mean()), float(data.U.max())
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with ridgeline.open(sys.argv[1], chunks={"step": 2, "z": 8}) as data:
    print(json.dumps([mean, largest, 1024 * (after - before), data.U.chunks]))
"""


@pytest.mark.parametrize("store", STORES)
def test_reducing_a_data_set_takes_a_stated_memory(tmp_path, store):
    pytest.importorskip("dask")
    field = np.linspace(0.0, 1.0, np.prod(SHAPE)).reshape(SHAPE)
    variable = Variable("U", float, SHAPE, (0, 0, 0), SHAPE)
    with open_writer(tmp_path / f"toy.{store}", MPI.COMM_SELF, [variable], {}) as out:
        for step in range(STEPS):
            out.write(step, 0.0, {"U": field + step})
    command = [sys.executable, "-c", REDUCE, str(tmp_path / f"toy.{store}")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    mean, largest, added, chunks = json.loads(done.stdout)
    assert mean == pytest.approx(0.5 + (STEPS - 1) / 2)
    assert largest == STEPS
    assert added < MOST < STEPS * field.nbytes / 2
    assert chunks == [[2] * (STEPS // 2), [8] * 4, [64], [128]]


def test_without_dask_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("ridgeline.runtime.extras.find_spec", lambda name: None)
    monkeypatch.setattr(dataset, "_open_whole", lambda path, steps: None)
    with pytest.raises(
        ConfigError, match=r"with chunks needs the package dask, .* Install it with: pip install dask"
    ):
        ridgeline.open(tmp_path / "toy.bp", chunks={"step": 1})
