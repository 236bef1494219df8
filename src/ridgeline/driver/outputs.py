"""The data set of a run: which fields, which attributes, how many steps are in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ridgeline.io.bp import BPWriter, image_schemas
from ridgeline.models.contract import Model

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import Case


class DataSet:
    """Writes `output.variables` of a model to `output.path`; does nothing if `output.every` is 0."""

    def __init__(
        self, case: Case, model: Model, comm: MPI.Comm, provenance: dict[str, Any], keep_steps: int | None
    ) -> None:
        """Open the data set. Collective.

        keep_steps: None starts a new data set; a number continues the one on disk after its first keep_steps
        outputs, cutting off what was written after the checkpoint.
        """
        self._model = model
        self._names = tuple(case.output.variables)
        self.steps_written = keep_steps or 0
        self._writer: BPWriter | None = None
        if case.output.every == 0:
            return
        variables = model.output_layout(self._names)
        images = [name for name in model.image_fields() if name in self._names]
        attributes = _attributes(provenance)
        if images:
            shape = next(v.shape_global for v in variables if v.name == images[0])
            attributes |= image_schemas(shape, images, *model.image_geometry())
        self._writer = BPWriter(
            case.output.path,
            comm,
            variables,
            attributes,
            compression=case.output.compression,
            keep_steps=keep_steps,
        )

    def write(self, step: int) -> None:
        """Append the present state as one output step. Collective."""
        if self._writer is None:
            return
        arrays = {name: array.local for name, array in self._model.outputs(self._names).items()}
        self._writer.write(step, self._model.time(step), arrays)
        self.steps_written += 1

    def close(self) -> None:
        """Finish the data set. Collective."""
        if self._writer is not None:
            self._writer.close()


def _attributes(provenance: dict[str, Any]) -> dict[str, Any]:
    """Flatten provenance: settings under their key ("model.F", and "F" as other codes write it)."""
    attributes: dict[str, Any] = {}
    for key, value in provenance.items():
        if isinstance(value, dict):
            attributes |= {inner if key == "settings" else f"{key}.{inner}": v for inner, v in value.items()}
        else:
            attributes[key] = value
    # The short names of ADIOS2-Examples and of GrayScott.jl, so that tools made for their data find them.
    attributes |= {
        key.removeprefix("model."): value
        for key, value in provenance["settings"].items()
        if key.startswith("model.") and isinstance(value, float)
    }
    return attributes
