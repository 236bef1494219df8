"""The messages of particles that `ridgeline check` states, against what ranks send."""

import pytest

from ridgeline.models import create
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.models.turbulence.step_work import particle_messages
from ridgeline.runtime.context import Context
from spectral_toys import process_grids

RANKS = (2, 3, 4)
QUICK_RANKS = ()
TIMEOUT = 240
SHAPE = (16, 16, 16)
STEPS = 8


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
def test_no_more_particles_migrate_than_was_stated(comm, scheme):
    for process_grid in process_grids(comm.size, SHAPE):
        case = TurbulenceCase.model_validate(
            {
                "run": {"model": "turbulence", "steps": STEPS},
                "grid": {"shape": SHAPE, "decomposition": "pencils", "process_grid": process_grid},
                "model": {"viscosity": 0.01, "courant": 0.5, "scheme": scheme, "fft": {"effort": "estimate"}},
                "initial": {"kind": "spectrum", "peak_wavenumber": 3.0},
                "particles": {"count": 20_000},
            }
        )
        model = create("turbulence")
        model.setup(case, Context(comm))
        model.compile()
        model.initialize()
        before = comm.allreduce(model._particles.tracers._migration.moved)
        for _ in range(STEPS):
            model.step(1)
        moved = (comm.allreduce(model._particles.tracers._migration.moved) - before) / STEPS
        stated = particle_messages(case, process_grid).moved_bytes / 120
        assert 0.1 * stated < moved < stated
