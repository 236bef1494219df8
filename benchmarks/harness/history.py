"""What was measured before: one JSON line for each figure, machine and commit, in benchmarks/history.

Each CPU model has a file of its own. Lines are only added, so that a file is in the order of time. A line that cannot
be read is named and left out; the others count.
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "history"


@dataclass(frozen=True)
class MachineKey:
    """What two figures must share to be compared: the CPU model, family and model number, and the usable cores.

    Virtual machines hide the model's name behind one for all ("AMD EPYC"); the numbers then tell generations apart.
    """

    cpu: str
    family_model: str
    cores: int

    @property
    def file_name(self) -> str:
        """The file of this CPU model, e.g. 'amd-epyc-26-2.jsonl'."""
        words = re.sub(r"\((?:r|tm)\)", "", f"{self.cpu} {self.family_model}".lower())
        return "-".join(re.findall(r"[a-z0-9]+", words)) + ".jsonl"


@dataclass(frozen=True)
class Record:
    """One figure of one row, as one line of a file has it.

    row: of the list of goals; name: of the figure; repeats: its values, in the order in which they were measured.
    goal: e.g. '>= 0.97', or '' for what is only noted. note: of the last repeat. commit: "+changes" behind it, if the
    sources differed. load: mean number of busy processes in the minute before. source: the command.
    """

    date: str
    commit: str
    row: str
    name: str
    repeats: tuple[float, ...]
    goal: str
    unit: str
    note: str
    cpu: str
    family_model: str
    cores: int
    caches: str
    load: float
    source: str

    @property
    def value(self) -> float:
        """The median of the repeats."""
        return median(self.repeats)

    @property
    def machine(self) -> MachineKey:
        """What another record must share to be compared."""
        return MachineKey(self.cpu, self.family_model, self.cores)

    def line(self) -> str:
        """Return the line of the file: what was measured when comes first, then the value, for those who read it."""
        content = asdict(self)
        first = {key: content[key] for key in ("date", "commit", "row", "name")} | {"value": self.value}
        return json.dumps(first | content, ensure_ascii=False) + "\n"


def parse(line: str) -> Record:
    """Return the record of a line. Raises ValueError that says what is wrong with it."""
    content = json.loads(line)
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    missing = [field.name for field in fields(Record) if field.name not in content]
    if missing:
        raise ValueError(f"it has no {missing[0]!r}")
    values = content["repeats"]
    if not isinstance(values, list) or not values or not all(map(_is_number, values)):
        raise ValueError("its 'repeats' are not a list of numbers")
    words = {field.name for field in fields(Record) if field.type is str}
    wrong = sorted(name for name in words if not isinstance(content[name], str))
    if wrong:
        raise ValueError(f"its {wrong[0]!r} is not a string")
    if not _is_number(content["cores"]) or not _is_number(content["load"]):
        raise ValueError("its 'cores' or 'load' is not a number")
    kept: dict[str, Any] = {field.name: content[field.name] for field in fields(Record)}
    return Record(**kept | {"repeats": tuple(map(float, values))})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read(path: Path, complain: Callable[[str], object]) -> list[Record]:
    """Return the records of a file, in its order; none if there is no such file. complain: of each damaged line."""
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(parse(line))
        except ValueError as wrong:
            reason = "it is not JSON" if isinstance(wrong, json.JSONDecodeError) else wrong
            complain(f"{path.name}:{number}: {reason}. The line is left out.")
    return found


def append(path: Path, records: Iterable[Record]) -> None:
    """Add records behind the others. A last line that was cut off stays a line of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    old = path.read_bytes() if path.exists() else b""
    cut_off = "\n" if old and not old.endswith(b"\n") else ""
    with path.open("a", encoding="utf-8") as file:
        file.write(cut_off + "".join(record.line() for record in records))


def last(records: Iterable[Record], machine: MachineKey) -> dict[str, Record]:
    """Return the last record of each figure on such a machine, by name, with all repeats of its commit."""
    found: dict[str, Record] = {}
    for record in records:
        if record.machine != machine:
            continue
        before = found.get(record.name)
        if before is not None and before.commit == record.commit:
            record = Record(**asdict(record) | {"repeats": before.repeats + record.repeats})
        found[record.name] = record
    return found
