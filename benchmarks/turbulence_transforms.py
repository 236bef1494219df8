"""The peer that a step is measured against: full 3-D real transforms by the best plan that FFTW finds.

A step of RK2 has two substeps of 3 inverse and 5 forward transforms, 16 in all. Here every rank does whole transforms
of the full grid on its own, 16/P of them: perfect scaling without any communication, which no distributed code
can have. Nothing but FFTW runs: no packing, no products, no other field in the caches. FFTW gets the choice between
in place (padded rows) and out of place, and between plans of MEASURE and PATIENT, separately for both
directions. Each transform has arrays of its own, as the fields of a solver have.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyfftw

from ridgeline.runtime.aligned import aligned_empty

N_INVERSE, N_FORWARD = 3, 5  # of one substep
COMPLEX = {"float32": np.complex64, "float64": np.complex128}
TRIALS = 4  # of each plan, the fastest counts


class FullTransforms:
    """3 inverse and 5 forward transforms of n^3 points, one thread, by the fastest plans found.

    efforts: of "MEASURE" and "PATIENT", which are planned and compared. limit: seconds for each plan. folder: where
    the wisdom of one benchmark run is kept for its other jobs; that of simulations is not touched.
    """

    def __init__(self, n: int, dtype: str, efforts: tuple[str, ...], limit: float, folder: Path) -> None:
        self._complex = [aligned_empty((n, n, n // 2 + 1), COMPLEX[dtype]) for _ in range(N_FORWARD)]
        self._real = [aligned_empty((n, n, n), dtype) for _ in range(N_FORWARD)]
        for array in (*self._complex, *self._real):
            array.fill(0)
        self._padded = [array.view(dtype)[..., :n] for array in self._complex]
        kept = pyfftw.export_wisdom()
        plans = {
            (direction, f"{place}, {effort}"): plan
            for effort in efforts
            for (direction, place), plan in self._plan(effort, limit, folder).items()
        }
        pyfftw.forget_wisdom()
        pyfftw.import_wisdom(kept)
        seconds = {key: _fastest(plan.execute) for key, plan in plans.items()}
        self.best: dict[str, str] = {}
        self._calls: list[tuple[Any, Any, Any]] = []
        for direction, count in (("inverse", N_INVERSE), ("forward", N_FORWARD)):
            best = min((key for key in seconds if key[0] == direction), key=seconds.__getitem__)
            self.best[direction] = best[1]
            for i in range(count):
                real = self._real[i] if best[1].startswith("out") else self._padded[i]
                pair = (self._complex[i], real) if direction == "inverse" else (real, self._complex[i])
                self._calls.append((plans[best], *pair))

    def _plan(self, effort: str, limit: float, folder: Path) -> dict[tuple[str, str], Any]:
        """Plan both directions, in place and out of place, with and for the wisdom of this effort."""
        path = folder / f"{effort}.wisdom"
        pyfftw.forget_wisdom()
        if path.exists():
            pyfftw.import_wisdom(tuple(path.read_bytes().split(b"\0")))
        plans = {}
        for place, real in (("out of place", self._real[0]), ("in place", self._padded[0])):
            for direction, pair in (
                ("forward", (real, self._complex[0])),
                ("inverse", (self._complex[0], real)),
            ):
                plans[direction, place] = pyfftw.FFTW(
                    *pair,
                    axes=(0, 1, 2),
                    direction="FFTW_FORWARD" if direction == "forward" else "FFTW_BACKWARD",
                    flags=(f"FFTW_{effort}", "FFTW_DESTROY_INPUT"),
                    planning_timelimit=limit,
                )
                for array in pair:
                    array.fill(0)  # planning leaves anything, subnormal numbers too
        path.write_bytes(b"\0".join(pyfftw.export_wisdom()))
        return plans

    def substep(self) -> None:
        """Transform once what one substep transforms."""
        for plan, source, target in self._calls:
            plan.update_arrays(source, target)
            plan.execute()

    def describe(self) -> str:
        """Return which plans were the fastest."""
        return f"inverse {self.best['inverse']}; forward {self.best['forward']}"


def _fastest(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(TRIALS):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best
