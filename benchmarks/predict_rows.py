"""The rows of the papers' tables that predictions are fitted to and judged on, and which are which.

FIT was chosen before any row was predicted: the breakdown of pencils in Table 3, and the exchange alone of Tables 10,
12 and 14. Left out of both are the rows that Table 3 shares with Table 5 (rows 9-16) and Table 7: nothing of those
two, nor of Table 13, is used.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ridgeline.config.machine_file import MachineFile
from ridgeline.study.prediction.allocation import Allocation
from ridgeline.study.prediction.prediction import Prediction
from ridgeline.study.prediction.turbulence_step import SpectralStep, spectral_parts

PAPERS = Path(__file__).resolve().parent / "papers"
# (table, row) of the fit. Of Table 3, rows 9 and 10 are rows 9 and 13 of Table 5; 15, 16 and 17 are 1, 4 and 7 of
# Table 7.
FIT_STEPS = tuple((3, row) for row in (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 18))
FIT_EXCHANGES = tuple((table, row) for table in (10, 12, 14) for row in (2, 3, 4, 5))
FIT_COPIES = tuple((10, row) for row in (1, 2, 3, 4, 5))
# Rows of one measurement that the paper prints twice: the second is judged with the first.
TWICE = {(5, 1): (3, 7), (5, 5): (3, 8), (6, 1): (3, 11), (6, 4): (3, 12), (6, 7): (3, 13), (6, 10): (3, 14)}
PARTS = {
    "transforms": "transforms", "packing": "packing", "row_exchange": "row exchange",
    "column_exchange": "column exchange", "other": "other computation",
}  # fmt: skip


@dataclass(frozen=True)
class StepRow:
    """A row of GESTS Tables 2, 3, 5, 6 or 7. measured: seconds of a step by part; total: as printed."""

    table: int
    row: int
    step: SpectralStep
    nodes: int
    measured: dict[str, float]
    total: float

    def place(self, machine: MachineFile) -> Allocation:
        """Return the nodes it ran on."""
        return Allocation.of(machine, self.nodes)

    def predicted(self, machine: MachineFile) -> Prediction:
        """Return what is predicted."""
        place = self.place(machine)
        return Prediction(f"Table {self.table}, row {self.row}", place, spectral_parts(self.step, place))


@dataclass(frozen=True)
class ExchangeRow:
    """A row of GESTS Tables 10 to 14: one exchange of Q variables. kind: "row" or "column"; copy: "" where none."""

    table: int
    row: int
    kind: str
    step: SpectralStep
    nodes: int
    seconds: float
    copy: float | None

    def place(self, machine: MachineFile) -> Allocation:
        """Return the nodes it ran on."""
        return Allocation.of(machine, self.nodes)

    @property
    def share(self) -> float:
        """Share of a step's exchanges of this kind that the row times: those of Q of all variables."""
        all_variables = self.step.column_variables if self.kind == "column" else self.step.row_variables
        return self.step.batch / all_variables

    def predicted(self, machine: MachineFile) -> float:
        """Return the seconds that are predicted."""
        place = self.place(machine)
        whole = self.step.column_exchange if self.kind == "column" else self.step.row_exchange
        return self.share * whole(place)


def read(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of a paper as text."""
    with (PAPERS / name).open() as file:
        yield from csv.DictReader(file)


def spectral_step(row: dict[str, str]) -> SpectralStep:
    n = int(row["n"])
    return SpectralStep((n, n, n), (int(row["p_r"]), int(row["p_c"])), batch=int(row["q"]))


def steps() -> list[StepRow]:
    """Return all rows that time a step."""
    return [
        StepRow(
            int(row["table"]), int(row["row"]), spectral_step(row), int(row["nodes"]),
            {part: float(row[name]) for name, part in PARTS.items()}, float(row["total"]),
        )
        for row in read("gests_steps.csv")
    ]  # fmt: skip


def exchanges() -> list[ExchangeRow]:
    """Return all rows that time one exchange."""
    return [
        ExchangeRow(
            int(row["table"]), int(row["row"]), row["exchange"], spectral_step(row), int(row["nodes"]),
            float(row["seconds"]), float(row["copy"]) if row["copy"] else None,
        )
        for row in read("gests_exchanges.csv")
    ]  # fmt: skip
