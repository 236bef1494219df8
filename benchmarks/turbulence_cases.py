"""The cases of the turbulence benchmark: what runs in each job, and the rows that its times make."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.ranks import JobFailed, run_job
from harness.table import Row
from harness.timing import Timings
from turbulence_job import settings_of_case

JOB = str(Path(__file__).with_name("turbulence_job.py"))
DEALIAS = {"phase-shift": "<= 1.15", "two-thirds": "<= 1.0"}  # target of an RK2 step over its FFTs
SUBSTEPS = {"rk2": 2, "rk4": 4}
PEER_SIZE = 128
PLANNING_LIMIT = 6.0  # seconds for one plan of full transforms
TARGET_SIZES = (128, 256)  # for which there are targets
# Seconds per step at 128^3, float64, 2/3 rule, measured on 2 cores where STREAM's triad gave 21 GB/s on one
# thread and 31-38 GB/s on two: solver, scheme, ranks.
QUOTED = {
    ("FluidSim", "rk2", 1): 0.248,
    ("FluidSim", "rk4", 1): 0.449,
    ("spectralDNS", "rk4", 1): 0.776,
    ("spectralDNS", "rk4", 2): 0.567,
}
PEER_TARGETS = {"FluidSim": ">= 2.0", "spectralDNS": ">= 3.5"}
QUOTED_NOTE = "quoted: another run on such a machine, triad 21 GB/s (1 thread), 31-38 (2)"
PAPER_VARIABLES = 3 + 4  # of a substep through the last transpose: inverse and forward


@dataclass(frozen=True)
class Settings:
    """What to run: sizes, precisions, ranks; which comparisons; how long."""

    sizes: tuple[int, ...] = (128, 256)
    dtypes: tuple[str, ...] = ("float32", "float64")
    ranks: tuple[int, ...] = (1, 2)
    only: tuple[str, ...] = ("fft", "rk4", "pencils", "ranks", "peers", "bytes")
    seconds: float = 15.0  # of each case, beside setting up
    min_rounds: int = 4
    patient: bool | None = (
        None  # PATIENT plans of full transforms at all sizes, however long; None: at small ones
    )
    fluidsim: str | None = None  # a Python that has it
    folder: str = ""  # for what the jobs of one benchmark run share

    @property
    def peer_size(self) -> int:
        """The size at which peers are compared."""
        return PEER_SIZE if PEER_SIZE in self.sizes else min(self.sizes)


@dataclass(frozen=True)
class Case:
    """One grid, precision and number of ranks, and the result of its job."""

    n: int
    dtype: str
    ranks: int
    result: dict[str, Any]

    @property
    def where(self) -> str:
        """Return the case in words."""
        return f"{self.n}^3 {self.dtype}, {self.ranks} rank{'s' * (self.ranks > 1)}"

    @property
    def timings(self) -> Timings:
        """Return seconds per step of all candidates."""
        return Timings({name: np.array(values) for name, values in self.result["samples"].items()})

    def has(self, *names: str) -> bool:
        """Say whether the job ran all these."""
        return all(name in self.result["samples"] for name in names)

    def compare(self, name: str, numerator: str, denominator: str, target: str = "", note: str = "") -> Row:
        """Return the row of a ratio of two times; the target holds for the grids that it was set for."""
        timings = self.timings
        seconds = [f"{timings.best(x):.4g} s" for x in (numerator, denominator)]
        words = f"{seconds[0]} against {seconds[1]}" + (f"; {note}" if note else "")
        ratio, median = (
            timings.ratio(numerator, denominator),
            timings.median_ratio(numerator, denominator),
        )
        return Row(f"{name}: {self.where}", ratio, self.target(target), median, words)

    def target(self, target: str) -> str:
        """Return the target, or none for a grid that it was not set for."""
        return target if self.n in TARGET_SIZES else ""


def slabs(scheme: str, dealias: str, ranks: int) -> str:
    """Return the name of a run on slabs."""
    return f"{scheme} {dealias} 1x{ranks}"


def pencils(scheme: str, dealias: str, ranks: int) -> str:
    """Return the name of a run on the pencils that are least like slabs."""
    return f"{scheme} {dealias} {ranks}x1"


def _runs(settings: Settings, n: int, dtype: str, ranks: int) -> list[tuple[str, str, list[int]]]:
    """Return scheme, dealiasing and process grid of all runs of a case."""
    runs = [("rk2", dealias, [1, ranks]) for dealias in DEALIAS]
    peers = "peers" in settings.only and n == settings.peer_size and dtype == "float64"
    if "rk4" in settings.only:
        runs += [("rk4", dealias, [1, ranks]) for dealias in DEALIAS]
    elif peers:
        runs.append(("rk4", "two-thirds", [1, ranks]))
    if "pencils" in settings.only and ranks > 1:
        runs += [("rk2", dealias, [ranks, 1]) for dealias in DEALIAS]
    return runs


def run_case(settings: Settings, n: int, dtype: str, ranks: int) -> Case:
    """Run the job of one case. Raises JobFailed."""
    peers = "peers" in settings.only and n == settings.peer_size and dtype == "float64" and ranks == 1
    patient = n <= PEER_SIZE if settings.patient is None else settings.patient
    folder = Path(settings.folder) / f"{n}-{dtype}"
    folder.mkdir(exist_ok=True)
    job = {
        "n": n,
        "dtype": dtype,
        "seconds": settings.seconds,
        "min_rounds": settings.min_rounds,
        "runs": _runs(settings, n, dtype, ranks),
        "alone": "ranks" in settings.only and ranks > 1,
        "efforts": ["MEASURE", "PATIENT"] if patient else ["MEASURE"],
        "limit": 3600.0 if settings.patient else PLANNING_LIMIT,
        "folder": str(folder),
        "fluidsim": settings.fluidsim if peers else None,
    }
    return Case(n, dtype, ranks, run_job(JOB, ranks, job))


def cases(settings: Settings) -> Iterator[Case | Row]:
    """Run all jobs; a Row stands for one that failed."""
    for n in settings.sizes:
        for dtype in settings.dtypes:
            for ranks in settings.ranks:
                try:
                    yield run_case(settings, n, dtype, ranks)
                except JobFailed as failure:
                    yield Row(f"job {n}^3 {dtype}, {ranks} ranks", None, note=f"failed: {failure}")


def rows(settings: Settings, case: Case) -> Iterator[Row]:
    """Return the figures of one case."""
    for scheme in SUBSTEPS:
        for dealias, target in DEALIAS.items():
            if case.has(run := slabs(scheme, dealias, case.ranks)):
                yield _over_transforms(case, run, scheme, dealias, target if scheme == "rk2" else "")
    for dealias in DEALIAS:
        pair = pencils("rk2", dealias, case.ranks), slabs("rk2", dealias, case.ranks)
        if case.ranks > 1 and case.has(*pair):
            grid = f"pencils {case.ranks}x1 over slabs 1x{case.ranks}"
            yield case.compare(f"{grid}, RK2 {dealias}", *pair, target="<= 1.05")
    if case.has("alone"):
        run = next(iter(case.result["samples"]))
        target = ">= 1.8" if case.n == 256 and case.ranks == 2 else ""
        yield case.compare(f"speed of {case.ranks} ranks over 1, {_words(run)}", "alone", run, target=target)
    if "peers" in settings.only and case.n == settings.peer_size and case.dtype == "float64":
        yield from _peers(settings, case)


def _words(run: str) -> str:
    scheme, dealias, _ = run.split()
    return f"{scheme.upper()} {dealias}"


def _over_transforms(case: Case, run: str, scheme: str, dealias: str, target: str) -> Row:
    """Return the row of a step over its FFTs alone: 8 full transforms per substep."""
    timings, factor = case.timings, SUBSTEPS[scheme] / 2
    return Row(
        f"{scheme.upper()} step over its {8 * SUBSTEPS[scheme]} FFTs alone, {dealias}: {case.where}",
        timings.ratio(run, "transforms") / factor,
        case.target(target),
        timings.median_ratio(run, "transforms") / factor,
        f"{timings.best(run):.4g} s against {factor * timings.best('transforms'):.4g} s; FFTW: "
        f"{case.result['transforms']}; triad {case.result['triad'] / 1e9:.3g} GB/s",
    )


def _peers(settings: Settings, case: Case) -> Iterator[Row]:
    """Return the rows of our speed over that of other solvers: measured where they run, and as quoted."""
    for scheme in SUBSTEPS:
        run, peer = slabs(scheme, "two-thirds", case.ranks), f"fluidsim {scheme}"
        name = f"speed over FluidSim's, {scheme.upper()}, 2/3 rule"
        if case.has(run, peer):
            target, versions = PEER_TARGETS["FluidSim"], case.result["fluidsim"]
            yield case.compare(name, peer, run, target, f"{versions}; numerator is FluidSim")
        elif case.ranks == 1 and case.has(run):
            why = case.result.get("fluidsim", "not run: --fluidsim was not given")
            yield Row(f"{name}: {case.where}", None, case.target(PEER_TARGETS["FluidSim"]), note=why)
    for (solver, scheme, ranks), seconds in QUOTED.items():
        run = slabs(scheme, "two-thirds", ranks)
        if ranks == case.ranks and case.n == PEER_SIZE and case.has(run):
            ours = case.timings.best(run)
            triad = case.result["triad"] / 1e9
            yield Row(
                f"speed over {solver}'s as quoted, {scheme.upper()}, 2/3 rule: {case.where}",
                seconds / ours,
                PEER_TARGETS[solver],
                note=f"{seconds} s against {ours:.4g} s; {QUOTED_NOTE}; here {triad:.3g}",
            )


def transposed_bytes(settings: Settings) -> Iterator[Row]:
    """Bytes through the last transpose over those of whole lines: 3 + 4 variables of N^3/2 modes, as in the paper."""
    from ridgeline.models import case_class, estimate

    for n in settings.sizes:
        for dealias, target in zip(DEALIAS, ("<= 0.71", "")):
            case = case_class("turbulence").model_validate(
                settings_of_case(n, "float32", "rk2", dealias, [1, 2])
            )
            ours = estimate(case, 2).work.bytes_exchanged
            paper = SUBSTEPS["rk2"] * PAPER_VARIABLES * n**3 / 2 * 8 / 2  # half of it stays on its rank
            yield Row(
                f"bytes through the last transpose over the paper's, {dealias}: {n}^3, 2 ranks",
                ours / paper,
                target if n in TARGET_SIZES else "",
                note=f"{ours / 1e6:.4g} against {paper / 1e6:.4g} MB per RK2 step in single precision, counted",
            )


def breakdown(case: Case) -> Iterator[dict[str, str]]:
    """Return the columns of the paper's Tables 2-7 for every run of a case: milliseconds per step, means."""
    for name, phases in case.result["phases"].items():
        samples = case.timings.samples[name]
        mean = float(samples.mean())
        other = mean - sum(phases.values())
        yield {
            "case": case.where,
            "run": name,
            **{phase: f"{1e3 * seconds:.4g} ms" for phase, seconds in phases.items()},
            "other": f"{1e3 * other:.4g} ms",
            "mean step": f"{1e3 * mean:.4g} ms",
            "best step": f"{1e3 * samples.min():.4g} ms",
            "N^3/best": f"{case.n**3 / samples.min() / 1e6:.4g} M/s",
            "method": case.result["methods"][name],
        }
