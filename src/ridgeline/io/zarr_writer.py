"""Writing a data set of a run as Zarr version 3, on any number of ranks.

Every shard of an array is written by one rank, whose number follows from that of the shard. Before that, the ranks
exchange their blocks: in each round a rank receives the parts of one of its shards. The files therefore do not depend
on the number of ranks, and no two ranks write to one file. `zarr_files.py` says when a step is complete.
"""

from __future__ import annotations

import functools
import math
import resource
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.io import bp_sums, zarr_files
from ridgeline.io.bp_attributes import COORDINATES, image_coordinates, to_attribute
from ridgeline.io.output_files import set_aside
from ridgeline.io.store import (
    AXES,
    STEP,
    TIME,
    DataSetWriter,
    Shape,
    Variable,
    check_same_arrays,
    dimension_names,
)
from ridgeline.io.zarr_files import Catalogue, Json, array_metadata
from ridgeline.io.zarr_layout import ArrayLayout
from ridgeline.runtime.errors import OutputError

if TYPE_CHECKING:
    from mpi4py import MPI

_UNBOUNDED = 2**40  # steps of an array while it is written


class ZarrWriter(DataSetWriter):
    """Writes one data set as Zarr version 3. Every method is collective over `comm`.

    Parameters and errors are those of `BPWriter`, except that points are arrays like all others. A data set that is
    continued keeps its compression.

    Notes
    -----
    Each step takes an exchange of the blocks, which is as large as the step, and one gather of checksums. A rank
    needs memory for a shard (64 MiB at most), for what it sends in a round, and for Zarr's copies of a shard.
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
        setting: str = "output.path",
    ) -> None:
        # Not at the top: the import starts MPI, which readers do not need.
        from ridgeline.parallel.allreduce import broadcast_decision, errors_on_all_ranks

        super().__init__(path, comm, variables, keep_steps or 0, setting)
        self._errors_on_all_ranks = functools.partial(errors_on_all_ranks, comm)
        self._compression = compression
        self._layouts = {
            v.name: ArrayLayout.of(v.shape_global, np.dtype(v.dtype).itemsize) for v in variables
        }
        self._exchanges = _exchanges(comm, variables, self._layouts)
        self._catalogue = broadcast_decision(comm, lambda: self._prepare(attributes, keep_steps))
        arrays = self._catalogue.at(_UNBOUNDED, "").arrays
        with self._errors_on_all_ranks():
            self._arrays = {
                name: zarr_files.open_array(self.path, name, arrays[name], writable=True)
                for name in (STEP, TIME, *self._variables)
            }
            if comm.rank == 0:
                self._sums = bp_sums.SumsWriter(self.path, self.steps, ())
        self._open = True

    def _prepare(self, attributes: Mapping[str, Any], keep_steps: int | None) -> Catalogue:
        """Prepare the folder on rank 0, and return what is in it."""
        if keep_steps:
            stored = {}
            for name, array in zarr_files.read_catalogue(self.path).arrays.items():
                if name not in (STEP, TIME) and "axis" not in array["attributes"]:
                    opened = zarr_files.open_array(self.path, name, array)
                    stored[name] = opened.dtype, opened.shape[zarr_files.has_steps(array) :]
            check_same_arrays(self.path, stored, self._variables.values(), self._setting)
            catalogue = zarr_files.cut_off(self.path, keep_steps)
            return Catalogue(self._attributes(attributes), catalogue.arrays, catalogue.records)
        set_aside(self.path, self._setting)
        coordinates = self._coordinates(attributes)
        arrays = self._declared(attributes, coordinates)
        catalogue = Catalogue(self._attributes(attributes), arrays)
        zarr_files.create(self.path, catalogue, self._setting)
        with zarr_files.zarr_errors(f"create the data set {self.path}", "free space there"):
            for name, (values, _) in coordinates.items():
                zarr_files.open_array(self.path, name, arrays[name], writable=True)[:] = values
        return catalogue

    def _attributes(self, attributes: Mapping[str, Any]) -> Json:
        """Return the attributes of the data set as JSON holds them, with those of CF."""
        coordinates = [TIME, *(v.name for v in self._variables.values() if v.once)]
        return {"Conventions": "CF-1.11", "coordinates": " ".join(coordinates)} | _as_json(attributes)

    def _coordinates(self, attributes: Mapping[str, Any]) -> dict[str, tuple[NDArray[Any], Json]]:
        """Return the positions along the axes of an image, for programs that do not know `ridgeline.open`."""
        named = {v.name: v.dims for v in self._variables.values() if v.dims}
        dims = dimension_names({v.name: v.shape_global for v in self._variables.values()}, named)
        images = [v.shape_global for v in self._variables.values() if dims[v.name] == AXES]
        if not images:
            return {}
        return {
            name: (values, {**own, "axis": name.upper()})
            for name, (values, own) in image_coordinates(images[0], attributes).items()
            if name not in self._variables
        }

    def _declared(
        self, attributes: Mapping[str, Any], coordinates: Mapping[str, tuple[NDArray[Any], Json]]
    ) -> dict[str, Json]:
        """Return the metadata of all arrays of a new data set."""
        numbers = {STEP: np.int32, TIME: np.float64}
        own = {name: {**COORDINATES[name], **_as_json(_attributes_of(name, attributes))} for name in numbers}
        arrays = {
            name: array_metadata(name, dtype, ArrayLayout((), (), (), 1024), (), own[name])
            for name, dtype in numbers.items()
        }
        for name, (values, about) in coordinates.items():
            layout = ArrayLayout(values.shape, values.shape, values.shape, 1)
            arrays[name] = array_metadata(name, values.dtype, layout, (name,), about, once=True)
        named = {v.name: v.dims for v in self._variables.values() if v.dims}
        dims = dimension_names({v.name: v.shape_global for v in self._variables.values()}, named)
        for v in self._variables.values():
            about = {"units": v.unit, "long_name": v.description or v.name.replace("_", " ")}
            about |= _as_json(_attributes_of(v.name, attributes))
            arrays[v.name] = array_metadata(
                v.name, v.dtype, self._layouts[v.name], dims[v.name], about, self._compression, v.once
            )
        return arrays

    def _bytes_of_step(self) -> int:
        compressed = self._compression != "none"
        return 0 if compressed else sum(v.bytes_global for v in self._variables.values())

    def _room_below_limit(self) -> float:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        largest = max(
            (math.prod(layout.shard) * np.dtype(self._variables[name].dtype).itemsize)
            for name, layout in self._layouts.items()
        )
        return math.inf if limit == resource.RLIM_INFINITY or largest <= limit else limit

    def _write_step(self, step: int, time: float, arrays: Mapping[str, NDArray[Any]]) -> None:
        problem: OutputError | None = None
        sums: dict[str, list[str]] = {name: [] for name in arrays}
        for name, block in arrays.items():
            once = self._variables[name].once
            for first, shard in self._exchanges[name].shards(block):
                # After an error the exchange goes on, because the other ranks wait for this rank's parts.
                if problem is None:
                    try:
                        self._put(name, first, shard, once, step)
                        sums[name].append(bp_sums.digest(shard))
                    except OutputError as error:
                        problem = error
        with self._errors_on_all_ranks():
            if problem:
                raise problem
        sums_of_ranks = self._comm.gather(sums)
        with self._errors_on_all_ranks():
            if sums_of_ranks:  # on rank 0; ranks own shards in the order of the ranks
                self._finish_step(
                    step, time, {name: [s for own in sums_of_ranks for s in own[name]] for name in arrays}
                )

    def _put(self, name: str, first: Shape, values: NDArray[Any], once: bool, step: int) -> None:
        """Write a part of an array, the first step of which is not yet complete, and force it to the disk."""
        box = tuple(slice(start, start + n) for start, n in zip(first, values.shape))
        with self._errors(step):
            self._arrays[name][box if once else (self.steps, *box)] = values
            zarr_files.sync_file(
                zarr_files.shard_file(self.path, name, self._catalogue.arrays[name], self.steps, first)
            )

    def _finish_step(self, step: int, time: float, sums: dict[str, list[str]]) -> None:
        """Write the numbers and the checksums of a step, and make it complete. On rank 0."""
        for name, value in ((STEP, np.array(step, np.int32)), (TIME, np.array(time, np.float64))):
            self._put(name, (), value, False, step)
            sums[name] = [bp_sums.digest(value)]
        with self._errors(step):
            self._sums.add(sums)
            zarr_files.sync_file(self.path / bp_sums.SUMS)
            self._catalogue = self._catalogue.at(self.steps + 1, self._sums.fingerprint)
            zarr_files.commit(self.path, self._catalogue)

    def _errors(self, step: int) -> Any:
        return zarr_files.zarr_errors(
            f"write output step {step} to {self.path}",
            f"free space, or set {self._setting} to a path on another file system. The steps before it are intact",
        )

    @property
    def fingerprint(self) -> str:
        return self._sums.fingerprint if self._comm.rank == 0 else ""

    def close(self) -> None:
        self._open = False


def _as_json(attributes: Mapping[str, Any]) -> Json:
    """Return attributes as JSON holds them: lists of text joined, as NetCDF needs them, and no infinity."""
    found: Json = {}
    for key, value in attributes.items():
        stored = to_attribute(key, value)
        if isinstance(stored, np.ndarray):
            finite = stored.dtype.kind != "f" or bool(np.isfinite(stored).all())
            stored = stored.tolist() if finite else str(stored.tolist())
        if stored is not None and "/" not in key:
            found[key] = (
                ", ".join(stored) if isinstance(stored, list) and isinstance(stored[0], str) else stored
            )
    return found


def _attributes_of(name: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of one array, which are given as NAME/KEY."""
    begin = f"{name}/"
    return {key.removeprefix(begin): value for key, value in attributes.items() if key.startswith(begin)}


@dataclass(frozen=True)
class _ShardPart:
    """A part of a shard: the rank at the other end, and the box, relative to this rank's block or to the shard."""

    rank: int
    box: tuple[slice, ...]
    shape: Shape


class _ShardExchange:
    """Moves the blocks of an array to the ranks that own its shards. Creating it needs no communication.

    comm: the ranks; dtype, layout: of the array; blocks: first indices and ends of the blocks of all ranks,
    [ranks, axes].
    """

    def __init__(
        self,
        comm: MPI.Comm,
        dtype: np.dtype[Any],
        layout: ArrayLayout,
        blocks: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> None:
        self._comm, self._dtype = comm, dtype
        first, end = layout.boxes()
        n = len(first)
        owner = np.arange(n) * comm.size // max(n, 1)
        number = np.arange(n) - np.searchsorted(
            owner, owner
        )  # of a shard among those of its owner: the round
        rounds = int(number.max()) + 1 if n else 0
        own = comm.rank
        self._shards: list[tuple[Shape, Shape] | None] = [None] * rounds
        self._sends: list[list[_ShardPart]] = [[] for _ in range(rounds)]
        self._receives: list[list[_ShardPart]] = [[] for _ in range(rounds)]
        here = blocks[0][own], blocks[1][own]
        for shard, low, high in _common((first, end), here):
            self._sends[number[shard]].append(_part(int(owner[shard]), low - here[0], high - low))
        for shard in np.flatnonzero(owner == own).tolist():
            begin = first[shard]
            self._shards[number[shard]] = tuple(begin.tolist()), tuple((end[shard] - begin).tolist())
            for rank, low, high in _common(blocks, (begin, end[shard])):
                self._receives[number[shard]].append(_part(rank, low - begin, high - low))

    def sizes(self) -> tuple[int, int, int]:
        """Return the most bytes of a shard, of what is sent in a round, and of a received part."""
        item = self._dtype.itemsize
        shards = [math.prod(shard[1]) for shard in self._shards if shard]
        sent = [sum(math.prod(part.shape) for part in parts) for parts in self._sends]
        received = [math.prod(part.shape) for parts in self._receives for part in parts]
        return max(shards, default=0) * item, max(sent, default=0) * item, max(received, default=0) * item

    def use(self, buffers: Sequence[NDArray[np.uint8]]) -> None:
        """Set the three buffers, of at least `sizes`, which several exchanges share."""
        self._shard, self._sent, self._received = buffers

    def shards(self, block: NDArray[Any]) -> Iterator[tuple[Shape, NDArray[Any]]]:
        """Yield the first index and the values of each shard that this rank owns. Collective.

        block: this rank's block. The values are valid until the next ones are yielded.
        """
        for target, sends, receives in zip(self._shards, self._sends, self._receives):
            values = self._array(self._shard, target[1]) if target else None
            requests, begin = [], 0
            for part in sends:
                if part.rank == self._comm.rank:
                    continue
                packed = self._array(self._sent[begin:], part.shape)
                packed[...] = block[part.box]
                requests.append(self._comm.Isend(packed.view(np.uint8).ravel(), part.rank))
                begin += packed.nbytes
            for part in receives:
                assert values is not None
                if part.rank == self._comm.rank:
                    mine = next(send for send in sends if send.rank == part.rank)
                    values[part.box] = block[mine.box]
                else:
                    received = self._array(self._received, part.shape)
                    self._comm.Recv(received.view(np.uint8).ravel(), part.rank)
                    values[part.box] = received
            for request in requests:
                request.Wait()
            if target and values is not None:
                yield target[0], values

    def _array(self, buffer: NDArray[np.uint8], shape: Shape) -> NDArray[Any]:
        return buffer[: math.prod(shape) * self._dtype.itemsize].view(self._dtype).reshape(shape)


def _common(
    boxes: tuple[NDArray[np.int64], NDArray[np.int64]], box: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield number, first index and end of what each of the boxes has in common with one box, if it has anything."""
    low, high = np.maximum(boxes[0], box[0]), np.minimum(boxes[1], box[1])
    for i in np.flatnonzero((low < high).all(axis=1)):
        yield int(i), low[i], high[i]


def _part(rank: int, start: NDArray[np.int64], shape: NDArray[np.int64]) -> _ShardPart:
    return _ShardPart(
        rank, tuple(slice(s, s + n) for s, n in zip(start.tolist(), shape.tolist())), tuple(shape.tolist())
    )


def _exchanges(
    comm: MPI.Comm, variables: Sequence[Variable], layouts: Mapping[str, ArrayLayout]
) -> dict[str, _ShardExchange]:
    """Return the exchange of each variable; they share their buffers. Collective: an allgather for each variable."""
    exchanges = {}
    for v in variables:
        own = np.array([v.offset_global, v.shape_local], np.int64).reshape(2, -1)
        of_ranks = np.empty((comm.size, *own.shape), np.int64)
        comm.Allgather(own, of_ranks)
        boxes = of_ranks[:, 0], of_ranks.sum(axis=1)
        exchanges[v.name] = _ShardExchange(comm, np.dtype(v.dtype), layouts[v.name], boxes)
    buffers = [
        np.empty(max(sizes, default=0), np.uint8) for sizes in zip(*(e.sizes() for e in exchanges.values()))
    ]
    for exchange in exchanges.values():
        exchange.use(buffers)
    return exchanges
