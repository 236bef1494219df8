"""The rows of the quick benchmark: each calls an existing benchmark, at its smallest honest size, for its figures.

A row is a function without arguments that yields `harness.table.Row`s. Every call measures anew, with the
denominators in the same call. Two threads or two ranks use two cores, whatever the machine has, so that figures of
one CPU model stay comparable.
"""

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from harness.c_library import CUnavailable
from harness.ranks import run_job
from harness.table import Row

RANKS = 2  # and threads
HERE = Path(__file__).parent
LEVEL = 0.97  # of a peer, which counts as level with it
NEKBONE_POINTS, NEKBONE_ELEMENTS, NEKBONE_ITERATIONS = 8, 1000, 100
HPCG_EDGE = 104
STIFFNESS_SIZES = (4, 7, 8, 10, 13, 16)
PRODUCT_SIZES = (4, 8, 10, 13, 16)


@dataclass(frozen=True)
class QuickRow:
    """A row: what it measures, in words of a reader, and the call that measures it once."""

    what: str
    measure: Callable[[], Iterator[Row]]


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set environment variables for the jobs that start meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def goal(rows: Iterator[Row], wanted: Mapping[str, str]) -> Iterator[Row]:
    """Return the rows whose name begins with a key of `wanted`, with its goal; rows that could not run stay."""
    for row in rows:
        for begin, target in wanted.items():
            if row.name.startswith(begin):
                yield replace(row, target=target)
                break
        else:
            if row.figure is None:
                yield row


def _stores(streaming: bool) -> str:
    return f"{'streaming' if streaming else 'ordinary'} stores"


def limits() -> Iterator[Row]:
    """What this machine can do: STREAM by threads, the dot product, the peak. Nothing of it is ours to improve."""
    import numba

    from gray_scott_sweep import STREAM_BYTES
    from harness.timing import interleave
    from ridgeline.limits.peak import measure_peak_here
    from ridgeline.limits.stream import KERNELS, StreamArrays

    for threads in range(1, RANKS + 1):
        numba.set_num_threads(threads)
        arrays = StreamArrays(STREAM_BYTES, threads)
        kinds = [(name, streaming) for name in KERNELS for streaming in (False, True)] + [("read", False)]
        calls = {f"{name}, {_stores(kind)}": partial(arrays.run, name, kind) for name, kind in kinds}
        timings = interleave(calls, 0.5)
        rates = {name: arrays.bytes_moved(name.split(",")[0]) / timings.best(name) / 1e9 for name in calls}
        read = rates.pop(f"read, {_stores(False)}")
        best = max(rates, key=rates.__getitem__)
        where = f"{threads} thread{'s' * (threads > 1)}"
        yield Row(f"STREAM, best kernel: {where}", rates[best], note=best, unit="GB/s")
        yield Row(f"STREAM dot: {where}", read, unit="GB/s")
        for dtype in ("float64", "float32"):
            peak = measure_peak_here(0.2, dtype, threads) / 1e9
            yield Row(f"peak of multiply-adds, {dtype}: {where}", peak, unit="GFLOP/s")


def gray_scott() -> Iterator[Row]:
    """The sweep over C tuned by hand, and the chosen number of fused steps over the best of some."""
    for dtype in ("float64", "float32"):
        yield _over_tuned_c(dtype)
    job = str(HERE / "gray_scott_choice_job.py")
    for n, dtype in ((128, "float64"), (128, "float32"), (256, "float64")):
        result = run_job(job, 1, {"n": n, "dtype": dtype, "threads": RANKS, "seconds": 1.0})
        name = f"fused steps as chosen over the best of 1, 2, 3, noise: {n}^3 {dtype}, {RANKS} threads"
        yield Row(name, result["best"], f">= {LEVEL}", result["median"], result["note"])


def _over_tuned_c(dtype: str) -> Row:
    """Return the speed of our sweep over the best of C's, which the peer may choose among heights of strips."""
    import numba

    from gray_scott_ours import ours
    from gray_scott_peers import Y_BLOCKS, c_tuned, check
    from gray_scott_sweep import Contest, check_ours, label

    numba.set_num_threads(RANKS)
    check_ours(dtype)
    name = f"ours over tuned C: {label(256, dtype, RANKS)}"
    try:
        check(c_tuned(dtype, RANKS, 4), "tuned C", dtype)
    except CUnavailable as reason:
        return Row(name, None, f">= {LEVEL}", note=str(reason))
    contest = Contest(256, dtype, RANKS)
    contest.enter("ours", ours(contest.fields, RANKS))
    for rows in Y_BLOCKS:
        contest.enter(f"strips of {rows} rows", c_tuned(dtype, RANKS, rows))
    outcome = contest.run(1.0)
    tuned = outcome.best_of([name for name in contest.candidates if name != "ours"])
    best, median = outcome.speed_up("ours", tuned)
    note = f"{outcome.rate('ours') / 1e9:.1f} against {outcome.rate(tuned) / 1e9:.1f} GB/s, {tuned}"
    return Row(name, best, f">= {LEVEL}", median, note)


def temporal() -> Iterator[Row]:
    """Several steps a sweep over one, float64, periodic, without noise and with it."""
    import numba

    from gray_scott_ours import ours
    from gray_scott_sweep import NOISE, STEPS, Contest, Outcome, check_ours, label
    from harness.timing import interleave

    numba.set_num_threads(RANKS)
    check_ours("float64")
    for n, kinds in ((256, {"": 0.0, ", noise": NOISE}), (512, {", noise": NOISE})):
        gc.collect()
        contest = Contest(n, "float64", RANKS, ghost=max(STEPS))
        for words, amplitude in kinds.items():
            for steps in (1, *STEPS):
                sweep = ours(contest.fields, RANKS, steps, amplitude)
                contest.enter(f"{steps} steps{words}", sweep, steps)
        outcome = Outcome(contest, interleave(contest.candidates, 1.0, min_rounds=3))
        for words in kinds:
            blocked = outcome.best_of([f"{steps} steps{words}" for steps in STEPS])
            best, median = outcome.speed_up(blocked, f"1 steps{words}")
            name = f"several steps a sweep over one{words}: {label(n, 'float64', RANKS)}"
            yield Row(name, best, ">= 1.5", median, f"{blocked}, {outcome.rate(blocked) / 1e9:.1f} GB/s")
        del contest, outcome, sweep


def noise() -> Iterator[Row]:
    """Time of a sweep with noise over one without."""
    from gray_scott_sweep import Settings
    from gray_scott_sweep import noise as noise_rows

    for dtype, target in (("float64", "<= 1.10"), ("float32", "<= 1.20")):
        settings = Settings(sizes=(256,), dtypes=(dtype,), threads=(1, RANKS), seconds=0.5)
        yield from goal(noise_rows(settings), {"noise": target})


def packing() -> Iterator[Row]:
    """Packing faces over a copy of as many bytes, out of memory."""
    from gray_scott_packing import packing as packing_rows
    from gray_scott_sweep import Settings

    settings = Settings(sizes=(256,), threads=(RANKS,), seconds=1.0)
    yield from goal(packing_rows(settings), {"packing faces": ">= 0.8", "packing and unpacking": ""})


def stiffness() -> Iterator[Row]:
    """The stiffness operator over min(peak, STREAM x intensity), one core."""
    import tensor

    settings = tensor.Settings(sizes=STIFFNESS_SIZES, seconds=0.2)
    yield from goal(tensor.stiffness(settings), {"stiffness": ">= 0.85"})


def products() -> Iterator[Row]:
    """Small matrix products over LIBXSMM's, one core, in cache."""
    import tensor

    settings = tensor.Settings(sizes=PRODUCT_SIZES, seconds=0.05)
    yield from goal(tensor.products(settings), {"product along": ">= 1.0"})


def nekbone() -> Iterator[Row]:
    """Conjugate gradients of Nekbone: unknowns a second and GB/s of STREAM."""
    from nekbone import run

    for ranks in (1, RANKS):
        job = run(ranks, NEKBONE_POINTS, NEKBONE_ELEMENTS, NEKBONE_ITERATIONS)
        figure, stream = job["rows"][0], job["extra"]["stream"]
        rate = figure["points"] * NEKBONE_ITERATIONS / figure["seconds"]
        where = f"nx1 = {NEKBONE_POINTS}, {ranks} rank{'s' * (ranks > 1)}"
        note = (
            f"{rate / 1e6:.1f} MDOF/s, {figure['rate'] / 1e9:.1f} GFLOP/s; STREAM {stream['best'] / 1e9:.1f} GB/s "
            f"({stream['best_name']})"
        )
        per_bandwidth = rate / (stream["best"] / 1e9) / 1e6
        yield Row(f"10^6 DOF/s per GB/s of STREAM: {where}", per_bandwidth, ">= 6", note=note)


def navier_stokes() -> Iterator[Row]:
    """A Navier-Stokes step: share of STREAM's triad at p = 7 and 15, and two ranks over one."""
    import navier_stokes as benchmark

    for ranks in (1, RANKS):
        asked = {
            "runs": ["p=7", "p=15"],
            "points": benchmark.POINTS,
            "seconds": 2.0,
            "min_rounds": 10,
            "alone": ranks > 1,
        }
        found = benchmark.rows(ranks, run_job(benchmark.JOB, ranks, asked))
        yield from goal(found, {"overall efficiency": ">= 0.5", f"speed of {RANKS} ranks": ">= 1.8"})


def wind() -> Iterator[Row]:
    """A step of the wind model at 64^3: share of STREAM's triad, and two ranks over one."""
    import wind as benchmark

    seconds = {}
    for ranks in (1, RANKS):
        job = run_job(benchmark.JOB, ranks, {"shapes": [[64, 64, 64]], "rounds": 6})
        (layer,) = job["layers"]
        seconds[ranks] = min(layer["seconds"])
        yield from list(benchmark.rows_of(layer, ranks, job["triad"]))[1:]
    yield Row(f"wind, 64^3: {RANKS} ranks over 1", seconds[1] / seconds[RANKS], ">= 1.7")


@cache
def _plans() -> TemporaryDirectory[str]:
    """Return the folder of FFTW's plans of this command, which no other benchmark or run sees."""
    return TemporaryDirectory(prefix="ridgeline-plans-")


def turbulence() -> Iterator[Row]:
    """Turbulence on two ranks: pencils over slabs, and a step over its 16 full transforms by FFTW."""
    from turbulence_cases import Settings, cases, rows

    folder = _plans().name
    settings = Settings(
        sizes=(128,), ranks=(RANKS,), only=("fft", "pencils"), seconds=3.0, patient=False, folder=folder
    )
    with environment(RIDGELINE_CACHE_DIR=folder):
        for case in cases(settings):
            found = iter([case]) if isinstance(case, Row) else rows(settings, case)
            yield from goal(found, {"pencils": "<= 1.05", "RK2 step over its": "<= 0.75"})


def hpcg() -> Iterator[Row]:
    """HPCG: share of STREAM dot of each pass over the matrix, and of set-up and optimisation in an official run."""
    import hpcg as benchmark

    iterations = 10  # of a set; the more, the less weighs its start, which counts for none
    asked = {
        "box": [HPCG_EDGE] * 3,
        "iterations": iterations,
        "rounds": 4,
        "kernels": True,
        "threads": False,
        "peers": False,
    }
    with environment(NUMBA_NUM_THREADS="1", OMP_NUM_THREADS="1"):
        job = run_job(str(HERE / "hpcg_job.py"), RANKS, asked)
    samples = {name: np.array(seconds) for name, seconds in job["samples"].items()}
    where = f"{HPCG_EDGE}^3, {RANKS} ranks"
    shares = benchmark.bandwidth_rows(where, job, samples)
    yield from goal(shares, dict.fromkeys((*benchmark.SWEEPS, "whole iteration"), ">= 0.85"))
    once = job["set_up"]["problem"] + job["set_up"]["optimised"]
    official = benchmark.CHARGED * benchmark.ITERATIONS * samples["optimised"].min() / iterations
    yield Row(
        f"share of set-up and optimisation in an official run: {where}",
        once / (once + official),
        "<= 0.04",
        note=f"{job['set_up']['problem']:.2f} s and {job['set_up']['optimised']:.2f} s beside {benchmark.CHARGED} "
        f"sets of {benchmark.ITERATIONS} iterations, {official:.1f} s",
    )


def isend() -> Iterator[Row]:
    """Bandwidth of mpi4py's Isend over C's, to Irecv and to receives made once; one MPI, two ranks of one node."""
    import mpi

    sizes = [65_536, 131_072]
    asked = {"size": mpi.SIZE, "batch": 1000, "seconds": 1.5, "sizes": sizes, "window": mpi.WINDOW}
    with environment(NUMBA_NUM_THREADS="1", OMP_NUM_THREADS="1"):
        job = run_job(str(HERE / "mpi_job.py"), RANKS, asked | {"bytes": mpi.BYTES})
    if "C" in job["missing"]:
        yield Row("bandwidth of mpi4py / C", None, ">= 0.98", note=f"not run: {job['missing']['C']}")
        return
    for size in sizes:
        rows = iter(mpi.bandwidth_rows(size, job["bandwidth"][str(size)]))
        ways = "bandwidth of mpi4py / C", "bandwidth of mpi4py, receives prepared"
        yield from goal(rows, dict.fromkeys(ways, mpi.BANDWIDTH_TARGET))


def placement() -> Iterator[Row]:
    """What the place of an engine's arrays costs: small pages, and first touches by one thread."""
    from quick_placement import rows

    yield from rows(RANKS, f">= {LEVEL}")


ROWS = {
    "gray-scott": QuickRow("Gray-Scott: the sweep and its choices", gray_scott),
    "temporal": QuickRow("temporal blocking, float64", temporal),
    "noise": QuickRow("noise, time over time without", noise),
    "packing": QuickRow("packing over copy", packing),
    "stiffness": QuickRow("stiffness operator over its limit", stiffness),
    "products": QuickRow("small products over LIBXSMM's", products),
    "nekbone": QuickRow("Nekbone conjugate gradients", nekbone),
    "navier-stokes": QuickRow("Navier-Stokes step", navier_stokes),
    "wind": QuickRow("Wind step", wind),
    "turbulence": QuickRow("turbulence: pencils over slabs, a step over its transforms", turbulence),
    "hpcg": QuickRow("HPCG: shares of STREAM dot, set-up", hpcg),
    "isend": QuickRow("MPI_Isend over C's", isend),
    "placement": QuickRow("memory placement", placement),
}
