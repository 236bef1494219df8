"""Count what one rank of a large job builds, holds and receives at set-up, with the work of a rank fixed.

No job is started. Each part is built for the rank in the middle of 1,000, 10,000 and 100,000 ranks on the substitute
communicator of `one_rank`, 64 ranks a node. The columns are CPU seconds with warm kernels, the peak of the memory of
Python and NumPy (`tracemalloc`), which includes the fields, the collective calls on more than one rank, the bytes
that this rank receives by calls that gather from all ranks, and the messages of its plans: see docs/scale.md.
"""

from __future__ import annotations

import argparse
import contextlib
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

import ridgeline
from one_rank import RANKS_OF_NODE, OneRank
from ridgeline.bench.congestion.congestion_benchmark import assign_roles
from ridgeline.bench.hpcg.hpcg_options import divide_box
from ridgeline.elements import gather_scatter_plan
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.mesh import ElementGrid
from ridgeline.io.store import Variable
from ridgeline.io.zarr_layout import ArrayLayout
from ridgeline.io.zarr_writer import _exchanges
from ridgeline.models import create, estimate
from ridgeline.models.memory_check import refuse_what_does_not_fit
from ridgeline.models.navier_stokes.problem_of_case import mesh_of
from ridgeline.parallel.layout import Layout, find_layout, oversubscription_warning
from ridgeline.parallel.partition import owner_of
from ridgeline.parallel.rank_devices import find_rank_devices
from ridgeline.runtime.context import Context
from ridgeline.runtime.node_load import Reading, others_shares
from ridgeline.validate.measure.session import node_rounds

GRIDS = {
    1_000: (10, 10, 10),
    10_000: (25, 20, 20),
    100_000: (50, 50, 40),
}  # of blocks, and of boxes of elements
PENCILS = {1_000: (25, 40), 10_000: (100, 100), 100_000: (250, 400)}
POINTS = {1_000: 480, 10_000: 1_024, 100_000: 2_160}  # along each direction of a transform
COLUMNS = ("part", "ranks", "CPU s", "peak MB", "collectives", "MB gathered", "messages")
GATHERS = ("allgather", "gather", "alltoall")
COLLECTIVES = (
    "allreduce",
    "bcast",
    "allgather",
    "gather",
    "alltoall",
    "alltoallv",
    "split",
    "split_type",
    "barrier",
)


@dataclass(frozen=True)
class Row:
    """What one part costs one rank of `ranks`."""

    part: str
    ranks: int
    seconds: float
    peak: float
    collectives: int
    gathered: float
    messages: int

    def text(self) -> str:
        """Return the row of a Markdown table."""
        cells = [self.part, f"{self.ranks:,}", f"{self.seconds:.3f}", f"{self.peak / 1e6:.2f}"]
        cells += [f"{self.collectives}", f"{self.gathered / 1e6:.2f}", f"{self.messages}"]
        return f"| {' | '.join(cells)} |"


def _whole(grid: tuple[int, int, int], each: int) -> tuple[int, ...]:
    return tuple(each * n for n in grid)


def settings(model: str, ranks: int) -> dict[str, Any]:
    """Return the sections of a case with the same work of a rank for any of the numbers of ranks."""
    grid, pencils = GRIDS[ranks], list(PENCILS[ranks])
    cube = [POINTS[ranks]] * 3
    species = [
        {"name": "X", "diffusivity": 5.0, "rate": "a - (b + 1)*X + X**2*Y", "initial": "a"},
        {"name": "Y", "diffusivity": 12.0, "rate": "b*X - X**2*Y", "initial": "b/a"},
    ]
    sections: dict[str, dict[str, Any]] = {
        "gray_scott": {"grid": {"shape": _whole(grid, 16)}},
        "reaction_diffusion": {
            "grid": {"shape": _whole(grid, 16)},
            "model": {"dt": 0.005, "parameters": {"a": 3.0, "b": 9.0}, "species": species},
        },
        "turbulence": {
            "grid": {"shape": cube, "decomposition": "pencils", "process_grid": pencils},
            "model": {"viscosity": 0.01, "dt": 0.001, "transpose": {"method": "alltoallv"}},
        },
        "n_body": {
            "grid": {"shape": cube, "length": 64.0, "decomposition": "pencils", "process_grid": pencils},
            "cosmology": {"omega_m": 0.31, "hubble": 0.68, "index": 0.97, "sigma8": 0.8},
            "model": {"steps_to_today": 48, "substeps": 3, "transpose": {"method": "alltoallv"}},
            "initial": {"redshift": 49.0},
        },
        "molecular_dynamics": {
            "grid": {"cells": _whole(grid, 8)},
            "model": {"density": 0.8442, "cutoff": 2.5, "dt": 0.005},
            "initial": {"temperature": 1.44, "seed": 87287},
        },
        "navier_stokes": {
            "grid": {"elements": _whole(grid, 2), "order": 7, "lengths": [6.0] * 3, "periodic": [True] * 3},
            "model": {"viscosity": 0.01, "dt": 0.01},
            "initial": {"kind": "taylor_green"},
        },
    }
    return sections[model]


def case_of(model: str, ranks: int) -> Any:
    """Return the checked settings of a case."""
    sections = settings(model, ranks)
    return ridgeline.Case(model, 10, parameters=sections.pop("model", {}), **sections).settings


def of_node(mine: Any, rank: int) -> Any:
    """Say what another rank says of its node: the number of its first rank, and its names if it is that rank."""
    if isinstance(mine, np.ndarray):
        return rank - rank % RANKS_OF_NODE
    return (f"node{rank // RANKS_OF_NODE}", "") if rank % RANKS_OF_NODE == 0 else None


def layout_of(ranks: int) -> Layout:
    """Return nodes of 64 consecutive ranks each."""
    return Layout(
        tuple(rank // RANKS_OF_NODE for rank in range(ranks)),
        tuple(rank % RANKS_OF_NODE for rank in range(ranks)),
        tuple(f"node{node}" for node in range(-(-ranks // RANKS_OF_NODE))),
    )


def sharers_of(grid: ElementGrid) -> tuple[Any, Any]:
    """Return what the rendezvous of the gather-scatter would: here the neighbours are found in the periodic box."""
    shape = grid.mesh.elements
    every = grid.mesh.range(0, grid.mesh.n_elements)
    place_of = np.argsort(grid.mesh.numbers(every))
    near = grid.positions[:, None] + np.stack(np.meshgrid(*[(-1, 0, 1)] * 3), axis=-1).reshape(1, 27, 3)
    near = np.unique(place_of[grid.mesh.numbers((near % shape).reshape(-1, 3))])
    owner = owner_of(near, grid.mesh.n_elements, grid.size)
    numbers, index, rank = np.unique(grid.ids), [], []
    for other in np.unique(owner[owner != grid.rank]):
        shared = np.intersect1d(numbers, grid.mesh.ids(every[near[owner == other]], (grid.order,) * 3))
        index.append(np.searchsorted(numbers, shared))
        rank.append(np.full(shared.size, other))
    return np.concatenate(index), np.concatenate(rank)


def model_part(model: str) -> Callable[[int], tuple[OneRank, Callable[[], Any]]]:
    """Return the part that sets a model up, with its kernels and its first state."""

    def prepare(ranks: int) -> tuple[OneRank, Callable[[], Any]]:
        comm, case = OneRank(ranks), case_of(model, ranks)
        rows, columns = PENCILS[ranks]
        comm.splits = 8 * [(rows, comm.rank % rows), (columns, comm.rank // rows)]

        def build() -> None:
            built = create(model)
            built.setup(case, Context(comm))
            built.compile()
            if model != "n_body":  # whose first state needs what other ranks send
                built.initialize()

        return comm, build

    return prepare


def elements(ranks: int) -> tuple[OneRank, Callable[[], Any]]:
    """Prepare the mesh part and the gather-scatter of Navier-Stokes; the coarse problem is not built."""
    comm, case = OneRank(ranks), case_of("navier_stokes", ranks)
    grid = ElementGrid(mesh_of(case), case.grid.order, ranks, comm.rank)
    found = sharers_of(grid)

    def build() -> None:
        own = ElementGrid(mesh_of(case), case.grid.order, ranks, comm.rank)
        with mock.patch.object(gather_scatter_plan, "_sharers", return_value=found):
            plan = GatherScatter(comm, own.ids).plan
        comm.tally.messages = len(plan.shared.ranks)
        assert own.coordinates.size

    return comm, build


def run_start(ranks: int) -> tuple[OneRank, Callable[[], Any]]:
    """Prepare what every run asks at its start."""
    comm, case = OneRank(ranks), case_of("gray_scott", ranks)

    def build() -> None:
        refuse_what_does_not_fit(case, comm)
        oversubscription_warning(comm, 1)

    return comm, build


def nodes(ranks: int) -> tuple[OneRank, Callable[[], Any]]:
    """Prepare what benchmarks and validations ask of all nodes."""
    comm = OneRank(ranks)

    def build() -> None:
        with comm.answering(of_node):
            layout = find_layout(comm, ranks_per_node=RANKS_OF_NODE)
        with comm.answering(lambda mine, rank: mine if isinstance(mine, np.ndarray) else None):
            find_rank_devices(comm, layout)

    return comm, build


def zarr(ranks: int) -> tuple[OneRank, Callable[[], Any]]:
    """Prepare the plans of a Zarr data set with two variables."""
    comm, grid = OneRank(ranks), GRIDS[ranks]
    shape = _whole(grid, 16)
    place = np.unravel_index(comm.rank, grid)
    variables = [
        Variable(name, np.float32, shape, tuple(16 * int(p) for p in place), (16,) * 3) for name in "UV"
    ]
    layouts = {v.name: ArrayLayout.of(shape, 4) for v in variables}

    def said(mine: Any, rank: int) -> Any:
        return np.array([[16 * int(p) for p in np.unravel_index(rank, grid)], [16] * 3])

    def build() -> None:
        with comm.answering(said):
            _exchanges(comm, variables, layouts)

    return comm, build


def local(build: Callable[[int], Callable[[], Any]]) -> Callable[[int], tuple[OneRank, Callable[[], Any]]]:
    """Return a part that does not communicate."""
    return lambda ranks: (OneRank(ranks), build(ranks))


def shares(ranks: int) -> Callable[[], Any]:
    """Prepare the shares of others on all nodes, which rank 0 computes after each stage of a validation."""
    readings = [Reading(f"{rank // RANKS_OF_NODE}", 64, 1.0, 1.0, 1.0) for rank in range(ranks)]
    return lambda: others_shares(readings, readings, range(0, ranks, RANKS_OF_NODE))


def roles(ranks: int) -> Callable[[], Any]:
    """Prepare the roles of the nodes in the congestion benchmark."""
    layout = layout_of(ranks)
    return lambda: assign_roles(layout.node_of_rank).lane_of(ranks // 2)


def estimates(model: str) -> Callable[[int], Callable[[], Any]]:
    """Return the part that estimates a case, as ridgeline check, study and predict do."""

    def prepare(ranks: int) -> Callable[[], Any]:
        case = case_of(model, ranks)
        return lambda: estimate(case, ranks)

    return prepare


MODELS = ("gray_scott", "reaction_diffusion", "turbulence", "n_body", "molecular_dynamics")
PARTS = {
    **{model: model_part(model) for model in MODELS},
    "elements": elements,
    "run start": run_start,
    "nodes": nodes,
    "zarr": zarr,
    "shares of others": local(shares),
    "congestion roles": local(roles),
    "node rounds": local(lambda ranks: lambda: node_rounds(-(-ranks // RANKS_OF_NODE), None, False, 0)),
    "hpcg box": local(lambda ranks: lambda: divide_box(_whole(GRIDS[ranks], 16), ranks)),
    **{f"estimate {model}": local(estimates(model)) for model in (*MODELS, "navier_stokes")},
}


@contextlib.contextmanager
def traced() -> Iterator[list[int]]:
    """Yield a list that gets the most bytes that the block holds."""
    peak: list[int] = []
    tracemalloc.start()
    try:
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def count(part: str, ranks: int) -> Row:
    """Build a part three times: for the kernels, for the time and the calls, and for the memory."""
    PARTS[part](ranks)[1]()
    comm, build = PARTS[part](ranks)
    comm.tally.clear()
    begin = time.process_time()
    build()
    seconds = time.process_time() - begin
    tally = comm.tally
    build = PARTS[part](ranks)[1]
    with traced() as peak:
        build()
    collectives, gathered = tally.of(*COLLECTIVES), tally.bytes_of(*GATHERS)
    return Row(part, ranks, seconds, peak[0], collectives, gathered, tally.messages)


def main() -> None:
    """Print a row for each part and number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="parts to count (default: all)")
    parser.add_argument("--ranks", nargs="+", type=int, choices=list(GRIDS), default=list(GRIDS))
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for part in options.parts or PARTS:
        for ranks in options.ranks:
            print(count(part, ranks).text(), flush=True)


if __name__ == "__main__":
    main()
