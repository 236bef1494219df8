"""A model of ten numbers that decay, with an adaptive time step, outputs that are no state, and spectra."""

import json
import math
import signal
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.case import AnyCase
from ridgeline.config.fields import Integer, setting
from ridgeline.models.contract import DistributedArray, Metric, Model, Profile, Variable, Work
from ridgeline.models.recorders import profiles_recorder
from ridgeline.parallel.partition import split
from ridgeline.runtime.context import Context
from ridgeline.runtime.signals import SignalCatcher
from ridgeline.simulation import report
from ridgeline.simulation.case_run import RunCaller, run_case
from ridgeline.simulation.run_options import RunOptions

N = 10
ERRORS: list[Exception] = []


class OutputSection(sections.OutputSection):
    spectra: str = setting("spectra.bp", "Data set of spectra.")
    spectra_every: Integer = setting(0, "Steps between spectra.", ge=0)


class DecayCase(AnyCase):
    PHYSICS: ClassVar[tuple[str, ...]] = ("run.model", "grid.shape")
    grid: sections.GridSection
    output: OutputSection = Field(default_factory=OutputSection)


class Decay(Model):
    """u_t = -(1 + i) u for number i; two steps at a time where that fits, as fused sweeps do."""

    name: ClassVar[str] = "decay"
    phases: ClassVar[tuple[str, ...]] = ("decay", "all-to-all")
    advice: ClassVar[str] = "try another toy"

    def __init__(
        self, crash_at: int | None = None, spoil_at: int | None = None, signal_at: int | None = None
    ) -> None:
        self.crash_at, self.spoil_at, self.signal_at = crash_at, spoil_at, signal_at
        self.crash: Exception = RuntimeError("the power failed")
        self.signals = SignalCatcher()
        self.calls: list[int] = []  # the steps at which `step` was called

    def setup(self, case: DecayCase, context: Context) -> None:
        self.case, self.context = case, context
        self.first, size = split(N, context.comm.size, context.comm.rank)
        self.rates = 1.0 + self.first + np.arange(size)
        self.u = np.zeros(size)
        self.now, self.elapsed = 0, 0.0

    def compile(self) -> None:
        pass

    def initialize(self) -> None:
        self.u[...] = 1.0

    def state(self) -> dict[str, DistributedArray]:
        return {"u": DistributedArray("u", (N,), (self.first,), self.u)}

    def restored(self, step: int, time: float) -> None:
        self.now, self.elapsed = step, time

    def step(self, most: int, until: float = math.inf) -> int:
        self.calls.append(self.now)
        steps = min(2, most)
        for _ in range(steps):
            if self.now == self.crash_at:
                raise self.crash
            if self.now == self.signal_at and self.context.comm.rank == self.context.comm.size - 1:
                self.signals.received = signal.SIGTERM
            with self.context.regions("all-to-all"):
                largest = max(self.context.comm.allgather(float(np.abs(self.u).max(initial=0.0))))
            with self.context.regions("decay"):
                dt = 0.01 / (1.0 + largest)
                self.u *= 1.0 - dt * self.rates
                self.elapsed += dt
                self.now += 1
                if self.now == self.spoil_at and self.context.comm.rank == 0:
                    self.u[0] = np.nan
        return steps

    def time(self, step: int) -> float:
        return self.elapsed

    def whole(self) -> np.ndarray:
        return np.concatenate(self.context.comm.allgather(self.u))

    def diagnostics(self) -> dict[str, float]:
        return {"sum": float(self.whole().sum())}

    def locate_nonfinite(self) -> str | None:
        return None if np.isfinite(self.whole()).all() else "u somewhere"

    def work(self) -> Work:
        return Work(N, 2.0 * N, 16.0 * N, 0.0, 0.0)

    def describe(self) -> dict[str, Any]:
        return {"process_grid": [self.context.comm.size]}

    def output_layout(self, names) -> list[Variable]:
        places = (N, 3), (self.first, 0), (len(self.u), 3)
        return [Variable(name, np.float64, *places, unit="m") for name in names]

    def outputs(self, names) -> dict[str, DistributedArray]:
        powers = self.u[:, np.newaxis] ** [1, 2, 3]
        return {name: DistributedArray(name, (N, 3), (self.first, 0), powers) for name in names}

    def recorders(self, case, comm):
        output = case.output
        spectra = profiles_recorder(self, output.spectra, output.interval("spectra_every"), comm)
        return [*super().recorders(case, comm), *spectra]

    def series(self) -> dict[str, float]:
        return {"largest": float(self.whole().max()), "sum": float(self.whole().sum())}

    def profiles(self) -> dict[str, Profile]:
        k = np.arange(4.0)
        energy = (self.whole()[:4] ** 2).astype(np.float32)
        return {
            "k": Profile(k, ("k",), unit="1/m"),
            "energy": Profile(energy, ("k",), description="energy of mode k"),
            "joint": Profile(np.outer(k, energy), ("row", "k")),
        }

    def figures(self, step) -> dict[str, Metric]:
        return {"figure_of_merit": Metric(N / step.total, "points/s"), "message": Metric(8.0, "B")}


def decay_case(folder: Path, **output) -> DecayCase:
    """Return a case of 20 steps that writes everything into `folder`."""
    paths = {"path": f"{folder}/u.bp", "series": f"{folder}/s.csv", "spectra": f"{folder}/e.bp"}
    intervals = {"every": 6, "series_every": 3, "spectra_every": 4, "initial": True, "variables": ("powers",)}
    return DecayCase(
        run={"model": "decay", "steps": 20, "check_memory": False},  # nobody estimates a toy
        grid={"shape": (1, 1, N)},
        output={**paths, **intervals, **output},
        checkpoint={"path": f"{folder}/checkpoints", "every": 5},
    )


def run(comm, monkeypatch, case, model, resume="never") -> dict[str, Any]:
    """Run a case in this process, without measuring the machine."""
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})
    try:
        result = run_case(
            case,
            model,
            Context(comm),
            RunOptions(resume=resume),
            RunCaller(progress=False, signals=model.signals),
        )
    except Exception as error:
        # A loop that ends by an error leaves a message under way. Its buffers live as long as the traceback.
        ERRORS.append(error)
        raise
    json.dumps(result, default=str)
    return result
