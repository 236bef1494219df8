"""Predictions beside measured points: what `ridgeline study collect` writes as `predicted`, and draws dashed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ridgeline.config.case import AnyCase
from ridgeline.config.load import load_case
from ridgeline.config.machine_file import MachineFile
from ridgeline.io.machine_file import machine_name, machine_name_here
from ridgeline.limits.allocation import Allocation
from ridgeline.limits.prediction import Prediction
from ridgeline.models import case_class
from ridgeline.models.prediction import predict_case, solves_of
from ridgeline.runtime.errors import RidgelineError
from ridgeline.study.folder import JobStatus
from ridgeline.study.prediction.machines import find_machine, machine_here
from ridgeline.study.prediction.predict import predict_benchmark

SIZES = ("nx", "ny", "nz")


class Predictor:
    """Predicts the points of a study, from the same settings and the iterations that its solves took.

    folder: of the study; machine: name or file of a machine for all points. Without one, points that were measured on
    the machine at hand are predicted, if that has a machine file. Raises ConfigError for a machine that is none.
    reasons: what predictions lack, or why there are none, in sentences.
    """

    def __init__(self, folder: Path, machine: str | None = None) -> None:
        self.folder = folder
        self.named: MachineFile | None = None if machine is None else find_machine(machine)
        self.reasons: dict[str, None] = {}
        self._here: MachineFile | None = None
        if machine is None:
            try:
                self._here = machine_here()
            except RidgelineError as why:
                self.reasons[f"no prediction: {why}"] = None

    def of(self, job: JobStatus, labels: Mapping[str, str]) -> dict[str, float]:
        """Return the keys of a row that a prediction adds: seconds of a step, and their interval; {} without one."""
        host = str(job.report.get("machine", {}).get("host", ""))
        machine = self.named or (self._here if machine_name(host) == machine_name_here() else None)
        if machine is None:
            return {}
        try:
            found = self._predict(job, labels, machine)
        except RidgelineError as why:
            self.reasons[f"no prediction: {why}"] = None
            return {}
        if found is None:
            return {}
        if found.seconds is None:
            lacking = "; ".join(f"{part} (no {figure})" for part, figure in found.lacks.items())
            self.reasons[f"no prediction, which would lack {lacking}"] = None
            return {}
        if found.bounds:
            self.reasons[f"predictions are lower bounds: {'; '.join(found.bounds)}"] = None
        row = {"predicted": found.seconds}
        if found.interval is not None:
            row["predicted_least"], row["predicted_most"] = found.interval
        return row

    def _predict(self, job: JobStatus, labels: Mapping[str, str], machine: MachineFile) -> Prediction | None:
        ranks, report = int(job.record["ranks"]), job.report
        if "run" in report:
            per_node = int(report["run"]["ranks_on_node"])
            place = Allocation.of(machine, -(-ranks // per_node), per_node)
            case = load_case(self._case(), case_class, settings_of(job.record["arguments"])).case
            return predict_case(case, place, _iterations(case, report.get("solves", {})))
        if job.record["subject"] != "hpcg-iteration" or labels.get("implementation") != "optimised":
            return None
        nodes = int(report["nodes"])
        box = next(row["box"] for row in report["rows"] if row["implementation"] == "optimised")
        sizes = [f"{name}={size}" for name, size in zip(SIZES, box.split(" x "))]
        return predict_benchmark("hpcg", sizes, Allocation.of(machine, nodes, -(-ranks // nodes)))

    def _case(self) -> Path:
        return next(iter(sorted(self.folder.glob("case.*"))))


def settings_of(arguments: Sequence[str]) -> list[str]:
    """Return what --set says in the arguments of a job."""
    return [after for flag, after in itertools.pairwise(arguments) if flag == "--set"]


def _iterations(case: AnyCase, solves: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the iterations of each solve that a run took and that a prediction takes; one at least."""
    known = [name for name in solves_of(case.run.model) if name in solves]
    return {name: max(1.0, solves[name]["iterations_per_solve"]) for name in known}
