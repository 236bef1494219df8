"""How far the estimated time of a step was off in earlier runs on this machine.

A run on one node whose steps took long enough stores, in the user's private folder, how many times longer they took
than each of the two estimates: the least memory traffic at the measured bandwidth (`ridgeline check`), and the
prediction from the machine file (`ridgeline predict`). Both commands then say how far they were off. A run is no
longer compared once another release estimates its model differently. Nothing else depends on these files.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ridgeline.config.machine_file import read_machine_file
from ridgeline.io.machine_file import machine_file_here, machine_name_here
from ridgeline.limits.prediction import Allocation
from ridgeline.models.prediction import estimate_module, predict_case
from ridgeline.runtime.errors import OutputError, RidgelineError
from ridgeline.runtime.files import DAMAGED
from ridgeline.runtime.user_cache import private_folder, read_kept_table, write_kept

if TYPE_CHECKING:
    from ridgeline.config.case import AnyCase

FOLDER = "estimates"
KEPT = 200  # runs in a file
MOST_COMPARED = 10
LEAST_SECONDS = 0.1  # of steady steps in a run that is stored
LARGEST_FACTOR = 10.0  # between the points of two runs that are compared


@dataclass(frozen=True)
class EarlierRun:
    """One run: what decides its speed, and how many times longer its steps took than estimated.

    `bound` compares with the bandwidth, `predicted` with the machine file, where there was one; `estimate` is the
    digest of the model's file that estimated it.
    """

    points: float
    precision: str
    bound: float
    predicted: float | None = None
    estimate: str = ""


@dataclass(frozen=True)
class EarlierRatios:
    """How many times longer than estimated the steps of comparable earlier runs took: least, median, greatest."""

    runs: int
    least: float
    middle: float
    greatest: float

    def words(self, what: str) -> str:
        """Return the sentence for people. what: such as "this estimate"."""
        if self.runs == 1:
            return f"the steps of an earlier run on this machine took {self.middle:.2g} times {what}"
        return (
            f"the steps of {self.runs} earlier runs on this machine took {self.least:.2g} to {self.greatest:.2g} "
            f"times {what}"
        )


def remember_run(case: AnyCase, report: Mapping[str, Any]) -> None:
    """Store how far the estimates of a run that has ended were off. Called on one rank; failures are silent."""
    run = report["run"]
    fraction, steady = report.get("fraction_of_stream"), report["seconds"]["steady"]
    if not fraction or steady < LEAST_SECONDS or run["ranks_on_node"] != run["ranks"]:
        return
    predicted = None
    with suppress(OSError, RidgelineError):
        machine = read_machine_file(machine_file_here())
        least = predict_case(case, Allocation.of(machine, 1, run["ranks"])).least_seconds
        predicted = report["seconds_per_step"] / least if least else None
    this = EarlierRun(report["work"]["points"], case.run.precision, 1.0 / fraction, predicted, _digest(case))
    with suppress(OSError, OutputError):
        file = _file(case)
        kept = [*_read(file), this][-KEPT:]
        write_kept(file, json.dumps({"runs": [asdict(each) for each in kept]}, indent=1).encode())


def earlier_ratios(case: AnyCase, points: float, kind: str) -> EarlierRatios | None:
    """Return how far an estimate was off in the earlier runs that are most like this case, None if there are none.

    They are runs of the same model, estimate, device and precision on this machine whose points differ by a factor of
    at most LARGEST_FACTOR. kind: "bound" or "predicted".
    """
    try:
        runs = _read(_file(case, make=False))
    except OutputError:
        return None
    digest = _digest(case)
    near = sorted(
        (abs(math.log(run.points / points)), getattr(run, kind))
        for run in runs
        if (run.precision, run.estimate) == (case.run.precision, digest) and getattr(run, kind) and points > 0
    )
    ratios = [ratio for distance, ratio in near[:MOST_COMPARED] if distance <= math.log(LARGEST_FACTOR)]
    return EarlierRatios(len(ratios), min(ratios), median(ratios), max(ratios)) if ratios else None


def _digest(case: AnyCase) -> str:
    """Return the digest of the file that estimates the model of a case."""
    file = estimate_module(case.run.model).__file__
    return f"{zlib.crc32(Path(file).read_bytes()):08x}" if file else ""


def _file(case: AnyCase, make: bool = True) -> Path:
    """Return the file of a model, a device and this machine. Raises OutputError if there is no private folder."""
    return (
        private_folder(FOLDER, make=make) / f"{machine_name_here()}.{case.run.model}.{case.run.device}.json"
    )


def _read(file: Path) -> list[EarlierRun]:
    """Return the runs that a file holds; those that are damaged are left out."""
    runs = []
    entries = read_kept_table(file).get("runs", [])
    for entry in entries if isinstance(entries, list) else []:
        with suppress(*DAMAGED):
            run = EarlierRun(**entry)
            numbers = (run.points, run.bound, run.bound if run.predicted is None else run.predicted)
            if all(math.isfinite(number) and number > 0 for number in numbers):
                runs.append(run)
    return runs
