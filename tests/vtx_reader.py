"""A stand-in for ParaView's VTX reader of points: it reads as VTK's IO/ADIOS2/VTX does, and no more.

Arrays are those that the attribute vtk.xml names. All must be local arrays, and are read at the step, the cells too,
since a script may show any step first. The number of points in the blocks before is added to the numbers of a block
of connectivity.
"""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from ridgeline.io.adios2_bindings import load_bindings
from ridgeline.io.bp_reader import DTYPES


class VtxPoints:
    """One step of a data set: `points` [N, 3], `cells` [N, 2], `type`, `data` by name, and `times` of all steps."""

    def __init__(self, path: Path, step: int) -> None:
        bindings = load_bindings()
        self._bindings, adios = bindings, bindings.ADIOS()
        self._io = adios.DeclareIO("vtx")
        self._io.SetEngine("BP5")
        self._engine = self._io.Open(str(path), bindings.Mode.ReadRandomAccess)
        schema = self._io.InquireAttribute("vtk.xml", "", "/").DataString()[0]
        file = ElementTree.fromstring(schema)
        assert (file.tag, file.get("type")) == ("VTKFile", "UnstructuredGrid")
        (self.piece,) = file.findall("UnstructuredGrid/Piece")
        (places,) = self._names("Points")
        points = self._blocks(places, step)
        self.points = np.concatenate(points)
        connectivity = self._blocks("connectivity", step)
        assert len(connectivity) <= len(points)
        before = np.cumsum([0] + [len(block) for block in points])
        for block, first in zip(connectivity, before):
            block[:, 1] += first
        self.cells = np.concatenate(connectivity)
        (kind,) = self._blocks("types", step)
        assert kind.shape == (1,)
        assert kind.dtype in (np.uint32, np.int32)
        self.type = int(kind[0])
        assert {*self._names("Cells")} == {"connectivity", "types"}
        self.data = {
            name: np.concatenate(self._blocks(name, step))
            for name in self._names("PointData")
            if name != "TIME"
        }
        (time,) = (
            array.text for array in self.piece.findall("PointData/DataArray") if array.get("Name") == "TIME"
        )
        variable = self._io.InquireVariable(time)
        self.times = np.empty(variable.Steps(), DTYPES[variable.Type()])
        variable.SetStepSelection((0, variable.Steps()))
        self._engine.Get(variable, self.times, bindings.Mode.Sync)
        self._engine.Close()

    def _names(self, part: str) -> list[str]:
        return [array.attrib["Name"] for array in self.piece.findall(f"{part}/DataArray")]

    def _blocks(self, name: str, step: int) -> list[np.ndarray]:
        variable = self._io.InquireVariable(name)
        assert variable.ShapeID() == self._bindings.ShapeID.LocalArray, name
        found = []
        for block, info in enumerate(self._engine.BlocksInfo(name, step)):
            found.append(np.empty([int(n) for n in info["Count"].split(",")], DTYPES[variable.Type()]))
            variable.SetStepSelection((step, 1))
            variable.SetBlockSelection(block)
            self._engine.Get(variable, found[-1], self._bindings.Mode.Sync)
        return found
