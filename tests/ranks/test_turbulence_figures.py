"""The bandwidth of exchanges in the run report is never above what the messages reached."""

import pytest

from ridgeline.fourier.decomposition import Truncation
from ridgeline.models import create
from ridgeline.models.contract import StepTimes
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.runtime.context import Context

RANKS = (1, 2, 3)
TIMEOUT = 300


TRUNCATION = Truncation((20, 24, 16), "phase-shift")


@pytest.mark.parametrize("method", ["alltoallv", "ialltoallv"])
@pytest.mark.parametrize("name", ["row", "column"])
def test_bandwidth_is_over_the_wall_time_of_exchanges_of_steps(comm, folder, name, method):
    grid = {"decomposition": "pencils", "process_grid": [comm.size, 1]} if name == "row" else {}
    case = TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": 4},
            "grid": {"shape": [20, 24, 16], **grid},
            "model": {
                "viscosity": 0.02, "dt": 0.01, "transpose": {"method": method}, "fft": {"effort": "estimate"},
            },
            "output": {"path": f"{folder}/u.bp"},
        }
    )  # fmt: skip
    model = create("turbulence")
    model.setup(case, Context(comm))
    model.initialize()
    waits = []
    for _ in range(3):
        before = model._engine.transform.under_way[name]
        model.step(1)
        waits.append(model._engine.transform.under_way[name] - before)
        model.series()  # its transforms are no part of a step
    # A rank that waits little for an overlapped exchange does not make it fast: phases are not asked.
    found = model.figures(StepTimes(1.0, {f"{name} all-to-all": 1e-12}))
    if comm.size == 1:
        assert f"{name}_bandwidth" not in found
        return
    # Two substeps: 8 variables of all rows (y, z) and retained columns; 7 of all planes and lines.
    numbers = 8 * 24 * 20 * TRUNCATION.n_columns if name == "row" else 7 * 24 * TRUNCATION.n_lines
    held = 2 * 16 * numbers / comm.size
    slowest = max(comm.allgather((waits[1] + waits[2]) / 2))
    assert found[f"{name}_bandwidth"].value == pytest.approx(held / slowest)
