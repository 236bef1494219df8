"""Correlations of dissipation and enstrophy along paths: those of the data set, on any ranks, through checkpoints."""

import numpy as np
import pytest
from mpi4py import MPI

import ridgeline
from ridgeline.io.checkpoint import CheckpointStore
from ridgeline.models import create
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.runtime.context import Context
from spectral_toys import recorders_of_particles

RANKS = (1, 2, 3)
TIMEOUT = 240
NAMES = ("dissipation", "enstrophy")


def model_of(comm, folder, sample=NAMES):
    case = TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": 6, "seed": 4},
            "grid": {"shape": [12, 10, 16]},
            "model": {"viscosity": 0.02, "dt": 0.03, "fft": {"effort": "estimate"}},
            "initial": {"kind": "spectrum", "energy": 3.0},
            "particles": {"count": 200, "every": 3, "path": f"{folder}/p.bp", "sample": list(sample)},
        }
    )
    model = create("turbulence")
    model.setup(case, Context(comm))
    model.compile()
    return model, case


def steps(model, n):
    for _ in range(n):
        model.step(1)
    return model._particles.series()


def test_the_series_has_the_correlations_of_the_data_set(comm, folder):
    model, _ = model_of(comm, folder)
    model.initialize()
    assert all(steps(model, 0)[f"particle_{name}_correlation"] == pytest.approx(1.0) for name in NAMES)
    output = recorders_of_particles(model, comm)[0]
    recorder = output.open({}, None)
    recorder.write(0)
    found = steps(model, 6)
    recorder.write(6)
    recorder.close()
    comm.Barrier()
    with ridgeline.open(folder / "p.bp") as paths:
        for name in NAMES:
            first, now = paths[name].values
            expected = np.corrcoef(first, now)[0, 1]
            assert 0.0 < expected < 0.99
            assert found[f"particle_{name}_correlation"] == pytest.approx(expected, rel=1e-12)


def test_a_run_that_goes_on_remembers_what_was_met_first(comm, folder):
    """Also one that did not sample it before, and on other ranks."""
    model, case = model_of(comm, folder, ())
    model.initialize()
    assert not [name for name in steps(model, 3) if "dissipation" in name]
    with CheckpointStore(comm, folder / "c") as store:
        store.save(model.state(), step=3, time=model.time(3), identity=case.identity())
    alone, case = model_of(MPI.COMM_SELF, folder)
    with CheckpointStore(MPI.COMM_SELF, folder / "c") as store:
        loaded = store.load(alone.state(), case.identity())
        alone.restored(loaded.step, loaded.time)
    whole, _ = model_of(comm, folder)
    whole.initialize()
    expected, found = steps(whole, 6), steps(alone, 3)
    for name in NAMES:
        key = f"particle_{name}_correlation"
        assert found[key] == pytest.approx(expected[key], rel=1e-9)
