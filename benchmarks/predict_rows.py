"""The rows of the papers' tables that predictions are fitted to and judged on, and which are which.

FIT was chosen before any row was predicted: the breakdown of pencils in Table 3, and the exchange alone of Tables 10,
12 and 14. Left out of both are the rows that Table 3 shares with Table 5 (rows 9-16) and Table 7: nothing of those
two, nor of Table 13, is used.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ridgeline.config.machine_file import MachineFile, Quantity
from ridgeline.limits.exchange_costs import host_copies
from ridgeline.limits.prediction import Allocation, Prediction
from ridgeline.models.gray_scott.estimate import effective_bytes
from ridgeline.models.turbulence.estimate import SpectralStep, spectral_parts

PAPERS = Path(__file__).resolve().parent / "papers"
# (table, row) of the fit. Of Table 3, rows 9 and 10 are rows 9 and 13 of Table 5; 15, 16 and 17 are 1, 4 and 7 of
# Table 7.
FIT_STEPS = tuple((3, row) for row in (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 18))
FIT_EXCHANGES = tuple((table, row) for table in (10, 12, 14) for row in (2, 3, 4, 5))
FIT_COPIES = tuple((10, row) for row in (1, 2, 3, 4, 5))
# What no constant may be fitted to: whole tables, and of Table 5 the rows 9 to 16.
MUST_BE_JUDGED: dict[int, Callable[[int], bool]] = {
    5: lambda row: row >= 9,
    7: lambda row: True,
    13: lambda row: True,
}
# Rows of Table 3 that the paper prints again: those of the fit count in it, the others where they are printed again.
AGAIN = ((3, 9), (3, 10), (3, 15), (3, 16), (3, 17), (5, 1), (5, 5), (6, 1), (6, 4), (6, 7), (6, 10))
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

    def predicted(self, machine: MachineFile) -> Prediction:
        """Return what is predicted."""
        place = self.place(machine)
        (part,) = (p for p in spectral_parts(self.step, place) if p.name == f"{self.kind} exchange")
        part = replace(part, seconds=self.share * (part.seconds or 0.0))
        return Prediction(f"Table {self.table}, row {self.row}", place, (part,))

    def copied(self, machine: MachineFile) -> float:
        """Return the seconds that are predicted for the copies to the host and back, if MPI needed them."""
        return host_copies(
            self.place(with_figures(machine, {"links.device_messages": 0.0})), self.step.volume
        )


@dataclass(frozen=True)
class KernelRow:
    """A row of the Gray-Scott paper's Table 3: a sweep over edge^3 cells of some variables, on one GCD."""

    row: int
    kernel: str
    edge: int
    variables: int
    seconds: float
    bandwidth: float  # of Table 2, B/s

    @property
    def moved(self) -> float:
        """Bytes of Eqs. 4a and 4b."""
        return effective_bytes((self.edge,) * 3, 8, self.variables)


def with_figures(machine: MachineFile, figures: dict[str, float]) -> MachineFile:
    """Return the machine with other values of figures by their keys; "all_to_all": the only row's efficiency."""
    changes: dict[str, object] = {}
    for key, value in figures.items():
        quantity = Quantity(value, "benchmarks/predict.py")
        section, _, name = key.partition(".")
        if key == "all_to_all":
            row = machine.all_to_all[0].model_copy(update={"efficiency": quantity})
            changes[key] = (row,)
        else:
            table = changes.get(section, getattr(machine, section))
            changes[section] = table.model_copy(update={name: quantity})
    return machine.model_copy(update=changes)


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


def kernels() -> list[KernelRow]:
    """Return the rows of the Gray-Scott paper."""
    return [
        KernelRow(
            int(row["row"]),
            row["kernel"],
            int(row["edge"]),
            int(row["variables"]),
            float(row["milliseconds"]) / 1e3,
            float(row["effective_gb_s"]) * 1e9,
        )
        for row in read("gray_scott_kernels.csv")
    ]
