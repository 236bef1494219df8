"""A recorder: the least and the greatest value of every field of the output, as a CSV file."""

import numpy as np
from mpi4py import MPI

from ridgeline.api import Recorder, SeriesWriter, WrittenSteps


def recorder(model, case, section, comm):
    """Return the recorder of a run; the entry point in pyproject.toml names this function."""

    def present():
        # Collective: every rank has a part of each field.
        values = {}
        for name, part in model.outputs(tuple(case.output.variables)).items():
            values[f"{name}_min"] = comm.allreduce(part.local.min(initial=np.inf), MPI.MIN)
            values[f"{name}_max"] = comm.allreduce(part.local.max(initial=-np.inf), MPI.MAX)
        return values

    def begin(attributes, keep):
        writer = SeriesWriter(section.path, comm, tuple(present()), keep_rows=keep, option="recorder.N.path")
        return WrittenSteps(section.path, writer, model.time, present)

    return Recorder("extremes", section.path, section.interval(), begin)
