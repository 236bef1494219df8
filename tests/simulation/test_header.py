"""What a run says of itself before its first step, and when."""

from mpi4py import MPI

from decay_model import Decay, decay_case
from ridgeline.runtime.context import Context
from ridgeline.simulation import report
from ridgeline.simulation.case_run import RunCaller, run_case


def test_what_is_known_before_the_set_up_is_said_before_it(tmp_path, monkeypatch):
    said = []

    class Slow(Decay):
        def setup(self, case, context):
            said.append("setup")
            super().setup(case, context)

        def compile(self):
            said.append("compile")

    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})
    caller = RunCaller(progress=False, show=lambda facts: said.append(set(facts)))
    run_case(decay_case(tmp_path), Slow(), Context(MPI.COMM_SELF), caller=caller)
    header, setup, decomposition, compiled = said
    assert {"model", "grid", "steps", "ranks", "threads", "cores", "remarks"} <= header
    assert "process_grid" in decomposition
    assert not header & decomposition
    assert (setup, compiled) == ("setup", "compile")
