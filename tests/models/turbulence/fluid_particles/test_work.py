"""What particles add to a step, against counts that are made rank by rank and by plain sums."""

import math
import subprocess
import sys
from itertools import product
from typing import Any

import numpy as np
import pytest

from ridgeline.fourier.decomposition import PencilGrid, Truncation
from ridgeline.fourier.ghost_planes import GhostPlanes, ghosts_of_others, padded_shape
from ridgeline.fourier.sizes import Share, exchanged
from ridgeline.models.turbulence.estimate import estimate, least_work
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.models.turbulence.step_work import particle_messages, particle_work

GRIDS = [(1, 1), (1, 2), (1, 5), (3, 2), (4, 1), (2, 2)]
SHAPE = (12, 10, 16)


def case(
    scheme: str = "rk2", grid: Any = (1, 1), precision: str = "float64", **particles: Any
) -> TurbulenceCase:
    return TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": 10, "precision": precision},
            "grid": {"shape": SHAPE, "decomposition": "pencils", "process_grid": grid},
            "model": {"viscosity": 0.01, "courant": 0.5, "scheme": scheme, "transpose_variables": 4},
            "particles": {"count": 1000, **particles},
        }
    )


class Asked:
    """A communicator that only counts what is sent."""

    def __init__(self) -> None:
        self.n_bytes = self.messages = 0

    def Isend(self, buffer: Any, rank: int) -> "Asked":
        self.n_bytes, self.messages = self.n_bytes + buffer.nbytes, self.messages + 1
        return self

    def Irecv(self, buffer: Any, rank: int) -> "Asked":
        return self

    def Wait(self) -> None: ...


def test_ghosts_are_what_ranks_send_to_others() -> None:
    """Each rank's plan, whose messages to itself are left out."""
    for process_grid in (g for g in GRIDS if math.prod(g) > 1):
        n_bytes = messages = 0
        for rank in range(math.prod(process_grid)):
            grid, sent = PencilGrid(SHAPE, "phase-shift", process_grid, rank), Asked()
            planes = GhostPlanes(grid, sent, 3, np.float32)  # type: ignore[arg-type]
            planes.fill(np.zeros((*padded_shape(grid.block), 3), np.float32))
            n_bytes, messages = n_bytes + sent.n_bytes, messages + sent.messages
        for scheme, loads in (("rk2", 1), ("rk4", 4)):
            found = particle_messages(case(scheme, process_grid, "float32"), process_grid)
            assert (found.ghost_bytes, found.ghost_messages) == (loads * n_bytes, loads * messages), (
                f"{process_grid=}, {scheme=}"
            )


def test_ghosts_that_wrap_around_to_their_part_are_its_own() -> None:
    assert ghosts_of_others(10, 1) == (0, 0)
    assert ghosts_of_others(10, 5) == (
        6 * 5,
        4 * 5,
    )  # parts of two planes: two of a neighbour, one of the next
    assert ghosts_of_others(3, 3) == (4 * 3, 2 * 3)  # of six ghosts two are the part's own plane
    assert ghosts_of_others(2, 2) == (4 * 2, 2)


def test_migration_is_what_crosses_the_thinnest_boxes() -> None:
    found = particle_messages(case(grid=(3, 2)), (3, 2))  # boxes of 4 x 5 cells
    assert found.moved_bytes == 1000 * 0.5 / 4 * 120
    assert found.moved_messages == 2 * 6 * (3 * 2 - 1)  # each rank has five neighbours
    assert particle_messages(case(grid=(1, 5)), (1, 5)).moved_messages == 2 * 5 * 2
    values = case(grid=(1, 5)).model_dump()
    values["model"] |= {"courant": None, "dt": 0.1}
    fixed = TurbulenceCase.model_validate(values)
    assert particle_messages(fixed, (1, 5)).moved_bytes == 1000 * 1.0 / 2 * 120


def work(of: TurbulenceCase, grid: Any) -> Any:
    truncation = Truncation(SHAPE, of.model.dealias)
    return particle_work(of, truncation, grid, Share.of(truncation, grid))


def test_work_of_one_rank_is_a_plain_sum() -> None:
    """own: flows that are transformed for particles alone; the others are those of the solver."""
    for scheme, kind, loads, own, moves in [
        ("rk2", "spline", 1, 0, 2),
        ("rk2", "trilinear", 1, 1, 2),
        ("rk4", "spline", 4, 4, 4),
    ]:
        of_case = case(scheme, interpolation=kind)
        found, truncation = work(of_case, (1, 1)), Truncation(SHAPE, "phase-shift")
        nz, ny, nx = SHAPE
        points, lines = math.prod(SHAPE), truncation.n_lines
        transforms = 2.5 * points * math.log2(nx)
        transforms += 5 * ny * truncation.n_columns * nz * math.log2(nz) + 5 * lines * ny * math.log2(ny)
        of_particle = 12 + (3 * (2 * 64 + 2 * 16 + 7) + 54 if kind == "spline" else 3 * 24 + 12)
        assert found.flops == pytest.approx(own * 3 * transforms + moves * 1000 * of_particle), (
            f"{scheme=}, {kind=}"
        )
        fields = 16 * 3 * own * (truncation.n_modes + 2 * ny * lines) + 8 * 3 * loads * points
        read = 8 * 3 * points  # few points beside the 64 of each particle
        assert found.bytes_memory == pytest.approx(fields + moves * (read + 8 * 18 * 1000)), (
            f"{scheme=}, {kind=}"
        )
        assert (found.points, found.bytes_exchanged, found.messages) == (0, 0.0, 0.0), f"{scheme=}, {kind=}"


def test_what_is_sent_is_three_fields_and_their_ghosts() -> None:
    for grid in ((1, 2), (3, 2)):
        with_scalar = case(grid=grid).model_dump() | {
            "scalar": [{"schmidt": 1.0}]
        }  # so that no transforms are shared
        of_case = TurbulenceCase.model_validate(with_scalar)
        found, share = work(of_case, grid), Share.of(Truncation(SHAPE, "phase-shift"), grid)
        sent = particle_messages(of_case, grid)
        assert work(case(grid=grid), grid).bytes_exchanged == sent.ghost_bytes, f"{grid=}"
        fields = 16 * sum(exchanged(share, SHAPE[0], 3, 3))
        assert found.bytes_exchanged == fields + sent.ghost_bytes, f"{grid=}"
        calls = grid[0] * grid[1] * (grid[0] - 1 + grid[1] - 1)  # one call of each exchange
        assert found.messages == calls + sent.ghost_messages, f"{grid=}"


def test_the_work_of_a_step_is_that_of_the_flow_and_of_particles() -> None:
    for interpolation, grid in product(["spline", "trilinear", "fourier"], GRIDS):
        label = f"{interpolation=}, {grid=}"
        followed = case(grid=grid, interpolation=interpolation)
        rest = followed.model_copy(update={"particles": followed.particles.model_copy(update={"count": 0})})
        with_, without, more = least_work(followed, grid), least_work(rest, grid), work(followed, grid)
        for name, value in more.to_dict().items():
            assert getattr(with_, name) == pytest.approx(getattr(without, name) + value), label
        assert work(rest, grid).to_dict() == dict.fromkeys(more.to_dict(), 0.0), label
        assert more.flops > 0, label
        assert (more.bytes_exchanged > 0) == (math.prod(grid) > 1), label


def test_check_says_the_messages() -> None:
    said = " ".join(estimate(case(grid=(1, 2)), 2).remarks)
    sent = particle_messages(case(grid=(1, 2)), (1, 2))
    assert f"{sent.ghost_bytes / 1e3:.4g} kB of ghost planes in {sent.ghost_messages} messages" in said
    assert f"at most {sent.moved_bytes / 1e3:.4g} kB of migrating particles in 4 messages" in said
    assert "at the Courant number 0.5" in said
    assert "migrating particles" not in " ".join(estimate(case(), 1).remarks)
    sums = " ".join(estimate(case(grid=(1, 2), interpolation="fourier"), 2).remarks)
    assert "each step sends at most" in sums


def test_planning_needs_no_mpi() -> None:
    code = "import sys, ridgeline.models.turbulence.step_work; print('mpi4py' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "False\n"
