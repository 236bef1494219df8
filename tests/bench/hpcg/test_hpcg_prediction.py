"""The prediction of an HPCG iteration on a machine whose file says nothing about HPCG."""

from predict_rows import with_figures
from ridgeline.bench.hpcg.prediction import NO_BOUND, HpcgBox, predict_hpcg
from ridgeline.config.machine_file import MachineFile, MachineSection
from ridgeline.limits.prediction import Allocation

NODE = with_figures(MachineFile(machine=MachineSection(name="toy")), {"node.memory_bandwidth": 1e11})


def test_bytes_of_the_specification_are_no_lower_bound():
    """Implementations that move fewer bytes are faster than the prediction."""
    plain = predict_hpcg(HpcgBox(32, 32, 32), Allocation(NODE, 1, 1))
    assert plain.seconds
    assert not plain.is_bound
    assert plain.notes == (NO_BOUND,)
    measured = with_figures(NODE, {"codes.hpcg": 0.5})
    known = predict_hpcg(HpcgBox(32, 32, 32), Allocation(measured, 1, 1))
    assert known.notes == ()
    assert known.seconds > plain.seconds
