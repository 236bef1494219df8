"""The energy that a node has used, from the counters of its system: Cray's pm_counters, RAPL, NVIDIA's NVML.

- Cray's pm_counters: /sys/cray/pm_counters/energy counts the whole node, as in Hadri et al. (NekBox), Sec. 4.6. The
  number in `freshness` changes with each scan of the sensors; if it does not change, nothing is measured.
- RAPL, by the kernel's powercap: a counter of microjoules for each processor package and, where there is one, for its
  memory. It wraps around to 0 at `max_energy_range_uj`.
- NVML, through the package nvidia-ml-py: millijoules of each GPU since the driver was loaded. Source: NVIDIA, NVML
  API reference, nvmlDeviceGetTotalEnergyConsumption (Volta and newer).

If a counter wraps around once between two reads, that is noticed; if it does so twice, it is not. A long run
therefore reads the counters often (`sample`), and `EnergyUsed` says below which power its figures are exact. The
counters are those of the node, so they include what other jobs on it use. Nothing here communicates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from ridgeline.runtime.extras import import_extra

Part = Literal["node", "processors", "memory", "GPUs"]
SAMPLE_SECONDS = 10.0  # between two reads of `sample`
_STALE_SECONDS = 1.0  # in which pm_counters, scanned ten times a second, must have changed
_TRIES = 5  # to read Cray's counters within one scan
_INSIDE_PACKAGE = ("core", "uncore")  # RAPL zones whose energy is that of their package too


@dataclass(frozen=True)
class EnergyCounter:
    """One counter.

    read: returns joules since some beginning, or raises OSError with the reason. range: joules after which the
    counter wraps around, 0 if it never does.
    """

    name: str
    part: Part
    read: Callable[[], float]
    range: float = 0.0


@dataclass(frozen=True)
class EnergyUsed:
    """The energy used between `start` and `stop` of a meter. Joules and seconds.

    joules: of the whole node where that is counted, otherwise of the parts that are; None if nothing is counted.
    covers: the parts that `joules` includes. counters: joules of each counter. unreadable: the reason for each kind
    of counter, or each counter, that cannot be read. exact_below: power in W above which a counter could have wrapped
    around twice between two reads, None if no counter wraps around.
    """

    joules: float | None
    covers: str
    counters: dict[str, float]
    unreadable: dict[str, str]
    seconds: float
    exact_below: float | None


@dataclass
class _Track:
    """The readings of one counter so far."""

    counter: EnergyCounter
    last: float
    used: float = 0.0

    def update(self) -> None:
        """Read the counter and add what was used since the last read."""
        now = self.counter.read()
        step = now - self.last
        if step < 0.0:
            if not self.counter.range:
                raise OSError("the counter went back, as if it had been reset")
            step += self.counter.range
        self.used, self.last = self.used + step, now


@dataclass
class EnergyMeter:
    """Adds up the counters of this node from `start` to `stop`.

    root: of the tree that holds sys. gpus: a function that lists the counters of the GPUs, or raises OSError.
    """

    root: Path = Path("/")
    gpus: Callable[[], Sequence[EnergyCounter]] | None = None
    clock: Callable[[], float] = time.monotonic
    _tracks: list[_Track] = field(default_factory=list)
    _unreadable: dict[str, str] = field(default_factory=dict)
    # Parts of which a counter cannot be read, so that no sum over the part is complete.
    _lost: set[Part] = field(default_factory=set)

    def start(self) -> None:
        """Find the counters and read them for the first time."""
        counters: list[EnergyCounter] = []
        for kind, find in {
            "pm_counters": lambda: cray_counters(self.root),
            "RAPL": lambda: rapl_counters(self.root),
            "NVML": self.gpus or nvml_counters,
        }.items():
            try:
                counters += find()
            except OSError as problem:
                self._unreadable[kind] = str(problem)
        for counter in counters:
            try:
                self._tracks.append(_Track(counter, counter.read()))
            except OSError as problem:
                self._lose(counter, str(problem))
        self._freshness = _freshness(self.root)
        self._started = self._last = self.clock()
        self._gap = 0.0

    def sample(self) -> None:
        """Read all counters if the last read was SAMPLE_SECONDS ago; otherwise only look at the clock."""
        if self._tracks and self.clock() - self._last >= SAMPLE_SECONDS:
            self._read_all()

    def _read_all(self) -> None:
        for track in tuple(self._tracks):
            try:
                track.update()
            except OSError as problem:
                self._tracks.remove(track)
                self._lose(track.counter, str(problem))
        now = self.clock()
        self._gap, self._last = max(self._gap, now - self._last), now

    def _lose(self, counter: EnergyCounter, why: str) -> None:
        self._unreadable[counter.name] = why
        self._lost.add(counter.part)

    def stop(self) -> EnergyUsed:
        """Read the counters for the last time and return what was used since `start`."""
        self._read_all()
        seconds = self._last - self._started
        if seconds >= _STALE_SECONDS and self._freshness and _freshness(self.root) == self._freshness:
            self._tracks = [
                track for track in self._tracks if not track.counter.name.startswith("pm_counters")
            ]
            self._unreadable["pm_counters"] = (
                f"the freshness of its sensors stayed at {self._freshness} for {seconds:.1f} s"
            )
        parts = [track.counter.part for track in self._tracks if track.counter.part not in self._lost]
        counted = ["node"] if "node" in parts else list(dict.fromkeys(parts))
        used = [track.used for track in self._tracks if track.counter.part in counted]
        ranges = [track.counter.range for track in self._tracks if track.counter.range]
        return EnergyUsed(
            joules=sum(used) if used else None,
            covers="the whole node" if counted == ["node"] else " and ".join(counted),
            counters={track.counter.name: track.used for track in self._tracks},
            unreadable=self._unreadable,
            seconds=seconds,
            exact_below=min(ranges) / self._gap if ranges and self._gap else None,
        )


def _text(file: Path) -> str:
    """Return the content of a counter's file. Raises OSError with the path and the system's reason."""
    try:
        return file.read_text().strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise OSError(f"{file}: {why}") from None


def _whole_number(file: Path) -> int:
    """Return the number at the beginning of a counter's file. Raises OSError."""
    words = _text(file).split()
    if not words or not words[0].isdigit():
        raise OSError(f"{file} does not begin with a number")
    return int(words[0])


def rapl_counters(root: Path) -> list[EnergyCounter]:
    """Return the counters of processor packages and of their memory. Raises OSError if there is none.

    Zones inside a package (core, uncore) and the zone of the whole platform (psys) are left out, because they count
    the same energy again.
    """
    folder = root / "sys/class/powercap"
    zones = sorted(path for path in folder.glob("intel-rapl:*") if (path / "energy_uj").exists())
    counters = []
    for zone in zones:
        name = _text(zone / "name")
        if name in _INSIDE_PACKAGE or name.startswith("psys"):
            continue
        number = zone.name.removeprefix("intel-rapl:")
        part: Part = "memory" if name == "dram" else "processors"
        energy_range = 1e-6 * _whole_number(zone / "max_energy_range_uj")
        counters.append(
            EnergyCounter(f"RAPL {number} {name}", part, partial(_rapl_joules, zone), energy_range)
        )
    if not counters:
        raise OSError(f"{folder} has no zone of intel-rapl")
    return counters


def _rapl_joules(zone: Path) -> float:
    return 1e-6 * _whole_number(zone / "energy_uj")


def cray_counters(root: Path) -> list[EnergyCounter]:
    """Return Cray's counter of the whole node and those of its parts. Raises OSError if there is none."""
    folder = root / "sys/cray/pm_counters"
    if not (folder / "energy").exists():
        raise OSError(f"{folder} does not exist, so this is not a Cray")
    parts: dict[str, Part] = {"energy": "node", "cpu_energy": "processors", "memory_energy": "memory"}
    parts |= {path.name: "GPUs" for path in sorted(folder.glob("accel*_energy"))}
    return [
        EnergyCounter(f"pm_counters {name}", part, partial(_cray_joules, folder, name))
        for name, part in parts.items()
        if (folder / name).exists()
    ]


def _cray_joules(folder: Path, name: str) -> float:
    """Return the joules of one scan: "8463 J 1452113124443142 us", without the time on older systems."""
    for _ in range(_TRIES):
        before = _scan(folder)
        value = _text(folder / name)
        if _scan(folder) == before:
            break
    words = value.split()
    if len(words) < 2 or not words[0].isdigit() or words[1] != "J":
        raise OSError(f"{folder / name} holds {value[:40]!r}, not a number of joules")
    return float(words[0])


def _scan(folder: Path) -> tuple[str, str]:
    """Return the number of a scan of the sensors, and when their controller, and thus its counters, started."""
    startup = folder / "startup"
    return _text(folder / "freshness"), _text(startup) if startup.exists() else ""


def _freshness(root: Path) -> str:
    try:
        return _text(root / "sys/cray/pm_counters/freshness")
    except OSError:
        return ""


def nvml_counters() -> list[EnergyCounter]:
    """Return the counters of all GPUs of this node, including those that the job does not use. Raises OSError."""
    nvml = import_extra("pynvml", "the energy of GPUs", error=OSError)

    @contextmanager
    def errors_in_words() -> Iterator[None]:
        try:
            yield
        except nvml.NVMLError_LibraryNotFound:
            raise OSError(
                "libnvidia-ml.so.1 does not load, so there is no NVIDIA driver on this machine"
            ) from None
        except nvml.NVMLError as error:
            raise OSError(f"NVML failed: {error}") from None

    @errors_in_words()
    def joules(index: int) -> float:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        return float(1e-3 * nvml.nvmlDeviceGetTotalEnergyConsumption(handle))

    with errors_in_words():
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    if not count:
        raise OSError("NVML shows no GPU")
    return [EnergyCounter(f"NVML GPU {index}", "GPUs", partial(joules, index)) for index in range(count)]
