"""Writing a data set of a run as ADIOS2 BP5.

For each output step a data set holds global arrays ([z, y, x] or any other rank) and the scalars `step` (int32) and
`time` (float64). It holds the attributes once. Arrays of points are stored block by block, as ParaView requires. If
ADIOS2 is built with MPI, all ranks write collectively. With the plain wheel rank 0 writes, and places the blocks of
all ranks into the same global arrays, so that both data sets read back alike.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import resource
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.io import bp_files, bp_sums
from ridgeline.io.adios2_bindings import COMPRESSIONS, OPERATOR, adios2_errors, adios2_facts, load_bindings
from ridgeline.io.bp_attributes import (
    BYTES_OF_VERTEX,
    COORDINATES,
    convert_types,
    image_schemas,
    point_schemas,
    to_attribute,
    vertices,
)
from ridgeline.io.bp_blocks import SLAB, BlocksAtRank0, stored_dtype
from ridgeline.io.bp_reader import BPReader
from ridgeline.io.output_files import set_aside
from ridgeline.io.store import DataSetWriter, Shape, Variable, check_same_arrays
from ridgeline.runtime.errors import OutputError

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["BPWriter", "Variable", "image_schemas"]

PARAMETERS = {
    # A file that cannot be opened fails at once.
    "AsyncOpen": "off",
    # Minimum and maximum of every block.
    "StatsLevel": "1",
    # Every rank writes its block into its node's file. By default one rank per node writes for the others through
    # shared memory, and all of them hang without a message if that rank meets an error such as a full quota.
    "AggregationType": "EveryoneWrites",
}


class BPWriter(DataSetWriter):
    """Writes one data set as ADIOS2 BP5. Every method is collective over `comm`.

    Parameters
    ----------
    path : path
        Folder of the data set (`gray_scott.bp`).
    comm : MPI.Comm
        The ranks that write.
    variables : sequence of Variable
        The arrays: the same names, dtypes and global shapes on all ranks. The blocks of all ranks tile each array
        once.
    attributes : mapping
        Attributes of rank 0, written once: str, bool, int, float, or lists of one of them. None and empty lists are
        left out.
    compression : str
        "none", or a lossless operator.
    keep_steps : int, optional
        None starts a new data set: an earlier one at `path` is set aside, and anything else there is an error
        (output_files.py). A number continues the data set after its first keep_steps steps. Later steps, written
        after the checkpoint that the run continues from, are cut off, like a step that a killed writer left
        incomplete.
    collective : bool, optional
        None writes with all ranks if ADIOS2 is built with MPI. False lets rank 0 write in any case.
    setting : str
        The key of `path`, which errors tell the user to change.
    points : str
        Name of the variable with the positions of points, float64 [N, 3]; "" if there is none. This variable, and all
        others along its first axis that are not written once, are stored as ADIOS2's local arrays with vertices for
        ParaView (see `bp_attributes`). The ranks' blocks are in the order of ranks.

    Raises
    ------
    OutputError
        On all ranks, if nothing may be written to `path`, if something else or fewer than keep_steps steps are there,
        or if this ADIOS2 lacks the operator; in `write` also if the disk is full. If all ranks write and one of them
        meets an error inside ADIOS2 (a quota, a broken disk), that rank alone raises, at once. The others wait in
        ADIOS2, so that the caller must end the job, as after any error of one rank.
    """

    def __init__(
        self,
        path: str | Path,
        comm: MPI.Comm,
        variables: Sequence[Variable],
        attributes: Mapping[str, Any],
        *,
        compression: str = "none",
        keep_steps: int | None = None,
        collective: bool | None = None,
        setting: str = "output.path",
        points: str = "",
    ) -> None:
        super().__init__(path, comm, variables, keep_steps or 0, setting)
        self._compression = compression
        self._n_points, self._by_block = 0, list[str]()
        if points:
            axis = self._variables[points].dims[0]
            self._by_block = [v.name for v in variables if v.dims[:1] == (axis,) and not v.once]
            others = [name for name in self._by_block if name != points]
            self._n_points = self._variables[points].shape_global[0]
            attributes = {**attributes, **point_schemas(self._n_points, points, others)}
        self._engine: Any = None
        self._bindings: Any = None
        from ridgeline.parallel.allreduce import broadcast_decision, errors_on_all_ranks

        self._errors_on_all_ranks = functools.partial(errors_on_all_ranks, comm)
        with errors_on_all_ranks(comm):
            self._bindings = load_bindings()
            with_mpi = bool(self._bindings.is_built_with_mpi)
            self.collective = comm.size > 1 and (with_mpi if collective is None else collective)
            if self.collective and not with_mpi:
                raise OutputError(
                    "the ranks cannot write in parallel, because this ADIOS2 is built without MPI. Install an ADIOS2 "
                    "that is built with MPI."
                )
            if compression != "none" and compression not in (known := adios2_facts().compressions):
                raise OutputError(
                    f'output.compression = "{compression}" is not available in this ADIOS2. Use one of '
                    f"{', '.join(known)}, or install an ADIOS2 that is built with Blosc2."
                )
            coordinates = {
                f"{name}/{key}": text for name, own in COORDINATES.items() for key, text in own.items()
            }
            attributes = {**coordinates, **attributes}
            stored = {key: to_attribute(key, value) for key, value in attributes.items() if comm.rank == 0}
        self._blocks = None if self.collective else BlocksAtRank0(comm, variables)
        subfiles, types = broadcast_decision(comm, lambda: self._prepare(keep_steps))
        stored = convert_types(stored, types)
        if self.collective:
            self._open_engine(stored, subfiles, self._nodes())
        else:
            with errors_on_all_ranks(comm):
                if comm.rank == 0:
                    self._open_engine(stored, subfiles, nodes=1)
        with errors_on_all_ranks(comm):
            if comm.rank == 0:
                # After ADIOS2, which empties a new folder.
                self._sums = bp_sums.SumsWriter(self.path, self.steps)
        self._open = True

    def _prepare(self, keep_steps: int | None) -> tuple[int, dict[str, np.dtype[Any]]]:
        """Prepare the folder on rank 0.

        Returns the number of subfiles to append to, 0 for a new data set, and the dtypes of the attributes in it.
        """
        if not keep_steps:
            set_aside(self.path, self._setting)
            bp_files.create(self.path, self._setting)
            return 0, {}
        index = bp_files.repair(self.path, least=keep_steps)
        with BPReader(self.path) as reader:
            stored = {v.name: (v.dtype, v.shape) for v in reader.arrays.values()}
            by_block = {v.name for v in reader.arrays.values() if v.by_block}
            types = reader.attribute_types
        check_same_arrays(self.path, stored, self._variables.values(), self._setting)
        if by_block != set(self._by_block):
            raise OutputError(
                f"the data set {self.path} has its arrays in the layout of an older version of Ridgeline. Set "
                f"{self._setting} to another name, or start from the beginning with --resume never."
            )
        return index.subfiles, types

    def _nodes(self) -> int:
        """Return the number of nodes of the ranks. Collective."""
        # Not at the top: the import starts MPI, which readers do not need.
        from ridgeline.parallel.layout import place_on_node

        return int(self._comm.allreduce(place_on_node(self._comm).local_rank == 0))

    def _open_engine(self, attributes: Mapping[str, Any], subfiles: int, nodes: int) -> None:
        """Define variables and attributes, and open the data set with one file for each node.

        subfiles: the number of files of the data set that is continued, 0 for a new one. BP5 can append only to these
        files, so that more nodes share them.
        """
        bindings = self._bindings
        with adios2_errors(
            f"open the data set {self.path}", f"set {self._setting} to a place where you may write"
        ):
            adios = bindings.ADIOS(self._comm) if self.collective else bindings.ADIOS()
            io = adios.DeclareIO("output")
            self._release = weakref.finalize(self, _release_quietly, adios)
            io.SetEngine("BP5")
            self._files = min(nodes, subfiles or nodes)
            io.SetParameters(PARAMETERS | {"NumAggregators": str(self._files)})
            if subfiles:
                io.SetParameters({"AppendAfterSteps": str(self.steps)})
            self._defined = {
                "step": io.DefineVariable("step", np.empty(0, np.int32), [], [], [], True),
                "time": io.DefineVariable("time", np.empty(0, np.float64), [], [], [], True),
            }
            for v in self._variables.values():
                boxes = [list(v.shape_global), list(v.offset_global), list(v.shape_local)]
                if v.name in self._by_block:
                    boxes[:2] = [], []
                defined = self._defined[v.name] = io.DefineVariable(
                    v.name, np.empty(0, stored_dtype(v)), *boxes, False
                )
                if self._compression != "none":
                    defined.AddOperation(OPERATOR, COMPRESSIONS[self._compression])
                long_name = v.description or v.name.replace("_", " ")
                for key, value in (("units", v.unit), ("long_name", long_name), ("dims", list(v.dims))):
                    if value and self._comm.rank == 0:
                        io.DefineAttribute(key, value, v.name)
                if stored_dtype(v) != v.dtype and self._comm.rank == 0:
                    io.DefineAttribute("float16", 1, v.name)
                if v.once and self._comm.rank == 0:
                    io.DefineAttribute("once", 1, v.name)
            for name, cells in vertices(0).items() if self._by_block else ():
                self._defined[name] = io.DefineVariable(name, cells, [], [], list(cells.shape), False)
            for key, value in attributes.items():
                if value is not None:
                    io.DefineAttribute(key, value)
            mode = bindings.Mode.Append if subfiles else bindings.Mode.Write
            self._engine = io.Open(str(self.path), mode)

    def _bytes_of_step(self) -> int:
        if self._compression != "none":
            return 0
        return sum(v.bytes_global for v in self._variables.values()) + BYTES_OF_VERTEX * self._n_points

    def _room_below_limit(self) -> float:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if limit == resource.RLIM_INFINITY:
            return math.inf
        largest = max((file.stat().st_size for file in self.path.glob("data.*")), default=0)
        return (limit - largest) * self._files

    def _write_step(self, step: int, time: float, arrays: Mapping[str, NDArray[Any]]) -> None:
        arrays = {name: array.view(stored_dtype(self._variables[name])) for name, array in arrays.items()}
        if self._blocks is None:
            self._write_collectively(step, time, arrays)
            return
        with self._errors_on_all_ranks():
            if self._comm.rank:
                self._blocks.send(arrays)
            else:
                self._write_on_rank_0(step, time, self._blocks.receive(arrays))

    def _errors(self, step: int) -> contextlib.AbstractContextManager[None]:
        return adios2_errors(
            f"write output step {step} to {self.path}",
            f"free space, or set {self._setting} to a path on another file system. The steps before it are intact",
        )

    def _begin_step(self, step: int, time: float) -> None:
        self._engine.BeginStep()
        if self._comm.rank == 0:
            self._engine.Put(self._defined["step"], np.array(step, np.int32), self._bindings.Mode.Sync)
            self._engine.Put(self._defined["time"], np.array(time, np.float64), self._bindings.Mode.Sync)
            if self._n_points:
                for name, cells in vertices(self._n_points).items():
                    self._defined[name].SetSelection(([], list(cells.shape)))
                    self._engine.Put(self._defined[name], cells, self._bindings.Mode.Sync)

    def _write_collectively(self, step: int, time: float, arrays: Mapping[str, NDArray[Any]]) -> None:
        blocks = {}
        with self._errors_on_all_ranks(), self._errors(step):
            # ADIOS2 reads the blocks in EndStep. It assumes that they are contiguous, and does not check it.
            blocks = {name: np.ascontiguousarray(array) for name, array in arrays.items() if array.size}
            sums = {name: bp_sums.digest(block) for name, block in blocks.items()}
            self._begin_step(step, time)
            for name, block in blocks.items():
                self._engine.Put(self._defined[name], block, self._bindings.Mode.Deferred)
        sums_of_ranks = self._comm.gather(sums)
        with self._errors(step):
            self._engine.EndStep()
        with self._errors_on_all_ranks():
            if sums_of_ranks:  # on rank 0; ADIOS2 counts the blocks of an array in the order of the ranks
                self._sums.add({name: [own[name] for own in sums_of_ranks if name in own] for name in arrays})

    def _write_on_rank_0(
        self, step: int, time: float, slabs: Iterator[tuple[str, Shape, NDArray[Any]]]
    ) -> None:
        """Write the slabs of all ranks as they arrive, so that ADIOS2 buffers some of them and not whole arrays."""
        problem: OutputError | None = None
        sums: dict[str, list[str]] = {}
        buffered = 0
        try:
            with self._errors(step):
                self._begin_step(step, time)
                for name, offset, slab in slabs:
                    sums.setdefault(name, []).append(bp_sums.digest(slab))
                    start = [] if name in self._by_block else list(offset)
                    self._defined[name].SetSelection((start, list(slab.shape)))
                    self._engine.Put(self._defined[name], slab, self._bindings.Mode.Sync)
                    buffered += slab.nbytes
                    if buffered >= SLAB:
                        self._engine.PerformDataWrite()
                        buffered = 0
                self._engine.PerformDataWrite()  # so that the index has the length of the data
                self._engine.EndStep()
            self._sums.add(sums)
        except OutputError as error:
            problem = error
        for _ in slabs:
            pass  # after an error, because the ranks wait until their blocks are received
        if problem:
            self._release()  # not `Close`, which would mark the incomplete step as complete
            raise problem

    @property
    def fingerprint(self) -> str:
        return self._sums.fingerprint if self._comm.rank == 0 else ""

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        with contextlib.nullcontext() if self.collective else self._errors_on_all_ranks():
            if self._engine is not None:
                with adios2_errors(f"finish the data set {self.path}", "its steps are intact"):
                    self._engine.Close()
                    self._release()


def _release_quietly(adios: Any) -> None:
    """Release the engine, even if an error kept it from being closed: complete steps are intact.

    The standard error output is redirected: ADIOS2 would comment on an error that was already reported.
    """
    sys.stderr.flush()
    stderr = os.dup(2)
    with open(os.devnull, "w") as devnull:
        os.dup2(devnull.fileno(), 2)
    try:
        adios.RemoveIO("output")
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
