"""What the run report says of checkpoints."""

from pathlib import Path

from mpi4py import MPI

from ridgeline.io.checkpoint import SavedCheckpoint
from ridgeline.models import case_class, create
from ridgeline.simulation.restart import Restart


def test_raw_and_written_bytes_have_a_bandwidth_each(tmp_path) -> None:
    settings = {
        "run": {"model": "gray_scott", "steps": 1},
        "grid": {"shape": [8, 8, 8]},
        "checkpoint": {"path": f"{tmp_path}/checkpoints"},
    }
    case = case_class("gray_scott").model_validate(settings)
    restart = Restart(case, create("gray_scott"), MPI.COMM_SELF)
    assert restart.figures() == {"written": 0}
    costs = ((1000, 400, 2.0), (1000, 600, 3.0))
    for step, cost in enumerate(costs):
        restart._record(SavedCheckpoint(Path(f"{step}"), step, *cost))
    assert restart.newest() == Path("1")
    assert restart.figures() == {
        "written": 2,
        "bytes_raw": 2000,
        "bytes_written": 1000,
        "compression_ratio": 2.0,
        "raw_bytes_per_second": 400.0,
        "written_bytes_per_second": 200.0,
    }
