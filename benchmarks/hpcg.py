"""HPCG against read bandwidth, our own reference phase, and plain C laid out as the official code.

    python benchmarks/hpcg.py                       # some ten minutes, 6 GB of memory; two cores with nothing else
    python benchmarks/hpcg.py --only small          # some
    python benchmarks/hpcg.py --quick               # does it run? figures from caches say little

What each figure means and its target: benchmarks/README.md. One MPI job per number of ranks runs everything in turn.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from harness.machine import describe
from harness.ranks import JobFailed, run_job
from harness.table import Row, markdown, show, write_json

THEMES = ("bandwidth", "rating", "threads", "small")
SWEEPS = ("SpMV with dot", "forward sweep from zero", "backward sweep", "forward sweep")
SMALL = 16  # local box where the language would show
CHARGED, ITERATIONS = 10, 50  # sets that share set-up and optimisation, and iterations of a set, by the rules
Samples = dict[str, np.ndarray]


def ratio(samples: Samples, of: str, to: str, weight: float = 1.0) -> tuple[float, float]:
    """Return how many times as fast `of` is as `to`: of best times, and the median over rounds. weight: of work."""
    rounds = samples[to] / samples[of]
    return weight * samples[to].min() / samples[of].min(), weight * float(np.median(rounds))


def bandwidth_rows(where: str, job: dict[str, Any], samples: Samples) -> Iterator[Row]:
    """Return STREAM's rates, then each kernel's share of the dot's, by bytes read."""
    rates = {
        name: (job["read"][name] + job["written"][name]) / samples[name].min() / 1e9 for name in job["read"]
    }
    for name in ("dot", "triad"):
        yield Row(f"STREAM {name}: {where}", rates[name], unit="GB/s")
    for name in SWEEPS:
        weight = job["read"][name] / job["read"]["dot"]
        best, median = ratio(samples, name, "dot", weight)
        note = (
            f"{rates[name]:.1f} GB/s read and written, {rates[name] / rates['dot']:.2f} of dot, "
            f"{rates[name] / rates['triad']:.2f} of triad"
        )
        yield Row(f"{name}, share of STREAM dot: {where}", best, ">= 0.85", median, note)
    rate = job["moved"] / samples["optimised"].min() / 1e9
    note = f"{rate:.1f} GB/s read and written, {rate / rates['triad']:.2f} of triad"
    yield Row(f"whole iteration, share of STREAM dot: {where}", rate / rates["dot"], note=note)


def gflops(job: dict[str, Any], samples: Samples, name: str, charge: float = 0.0) -> float:
    """Return the rate of sets in GFLOP/s. charge: seconds that the rules add to each set."""
    return float(job["flops"][name] / (samples[name].min() + charge) / 1e9)


def agreement_rows(where: str, job: dict[str, Any]) -> Iterator[Row]:
    """Return how far residual histories are from the reference path's."""
    for name, limit in (("C", "<= 1e-12"), ("optimised", "<= 1e-6")):
        if name in job["agreement"]:
            yield Row(f"residuals, {name} - reference: {where}", job["agreement"][name], limit)


def rating_rows(where: str, job: dict[str, Any], samples: Samples, iterations: int) -> Iterator[Row]:
    """Return our sets against our reference path's and the C twin's, without and with what is charged."""
    ours = gflops(job, samples, "optimised")
    yield from agreement_rows(where, job)
    best, median = ratio(samples, "optimised", "reference")
    note = f"{ours:.2f} against {gflops(job, samples, 'reference'):.2f} GFLOP/s"
    yield Row(f"CG sets over our reference path's: {where}", best, ">= 2", median, note)
    if "C" not in samples:
        yield Row(f"CG sets over C's: {where}", None, ">= 1.6", note=f"not run: {job['missing']['C']}")
        return
    best, median = ratio(samples, "optimised", "C")
    yield Row(
        f"CG sets over C's: {where}",
        best,
        ">= 1.6",
        median,
        f"{ours:.2f} against {gflops(job, samples, 'C'):.2f} GFLOP/s",
    )
    once = job["set_up"]["problem"] + job["set_up"]["optimised"]
    charge = once / CHARGED * iterations / ITERATIONS
    rates = gflops(job, samples, "optimised", charge), gflops(job, samples, "C")
    note = (
        f"{rates[0]:.2f} against {rates[1]:.2f} GFLOP/s; charged: set-up {job['set_up']['problem']:.2f} s, "
        f"optimisation {job['set_up']['optimised']:.2f} s, for C none"
    )
    yield Row(f"rating over C's sets: {where}", rates[0] / rates[1], ">= 1.6", note=note)


def threads_rows(where: str, job: dict[str, Any], samples: Samples, ranks: int) -> Iterator[Row]:
    """Return the speed of all ranks over that of one with as many threads, on the same global box."""
    name = f"1 rank x {ranks} threads"
    best, median = ratio(samples, "optimised", name)
    note = f"{gflops(job, samples, 'optimised'):.2f} against {gflops(job, samples, name):.2f} GFLOP/s"
    yield Row(f"{ranks} ranks over {name}: {where}", best, ">= 1.0", median, note)


def small_rows(where: str, job: dict[str, Any], samples: Samples, iterations: int) -> Iterator[Row]:
    """Return the time of an iteration over the C twin's, where communication and calls count."""
    yield from agreement_rows(where, job)
    if "C" not in samples:
        yield Row(f"time of an iteration over C's: {where}", None, "<= 1.2", note=job["missing"]["C"])
        return
    for name, target in (("optimised", "<= 1.2"), ("reference", "")):
        best, median = ratio(samples, "C", name)
        mine, peer = (1e6 * samples[key].min() / iterations for key in (name, "C"))
        note = f"{mine:.0f} against {peer:.0f} us"
        yield Row(f"time of an iteration over C's, {name}: {where}", best, target, median, note)


def run_jobs(settings: argparse.Namespace) -> Iterator[Row]:
    """Run the jobs of the chosen themes; return their rows."""
    script = str(Path(__file__).with_name("hpcg_job.py"))
    large = {"bandwidth", "rating", "threads"} & set(settings.only)
    cases = [
        (ranks, settings.edge, settings.iterations, settings.rounds) for ranks in settings.ranks if large
    ]
    if "small" in settings.only:
        # Sets of a few ms: many rounds.
        cases.append((2, SMALL, ITERATIONS, 10 * settings.rounds))
    for ranks, edge, iterations, rounds in cases:
        small = edge == SMALL and rounds != settings.rounds
        where = f"{edge}^3, {ranks} rank{'s' * (ranks > 1)}"
        asked = {
            "box": [edge] * 3,
            "iterations": iterations,
            "rounds": rounds,
            "kernels": not small and "bandwidth" in settings.only,
            "threads": not small and ranks > 1 and "threads" in settings.only,
        }
        os.environ["NUMBA_NUM_THREADS"] = str(ranks if asked["threads"] else 1)
        try:
            job = run_job(script, ranks, asked)
        except JobFailed as error:
            yield Row(where, None, note=f"failed: {error}")
            continue
        samples = {name: np.array(seconds) for name, seconds in job["samples"].items()}
        if small:
            yield from small_rows(where, job, samples, iterations)
            continue
        if asked["kernels"]:
            yield from bandwidth_rows(where, job, samples)
        if "rating" in settings.only:
            yield from rating_rows(where, job, samples, iterations)
        if asked["threads"]:
            yield from threads_rows(where, job, samples, ranks)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=THEMES, default=THEMES, help="run only these comparisons (all)"
    )
    parser.add_argument("--edge", type=int, default=104, help="edge of each rank's cube of points (104)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--iterations", type=int, default=ITERATIONS, help="number of iterations of a set (50, as in HPCG)"
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="number of rounds, in each of which all programs take turns (5)"
    )
    parser.add_argument("--quick", action="store_true", help="run 32^3 points with 5 iterations in 2 rounds")
    parser.add_argument("--json", metavar="FILE", help="also write the rows to this file")
    settings = parser.parse_args()
    if settings.quick:
        settings.edge, settings.iterations, settings.rounds = 32, 5, 2
    os.environ.update({"OMP_NUM_THREADS": "1", "NUMBA_THREADING_LAYER": "workqueue"})
    rows = []
    for row in run_jobs(settings):
        rows.append(row)
        print(row.line(), file=sys.stderr, flush=True)
    machine = describe()
    show("HPCG", rows, machine)
    command = ("python benchmarks/hpcg.py " + " ".join(sys.argv[1:])).strip()
    print(markdown(rows, machine, command))
    if settings.json:
        write_json(Path(settings.json), rows, machine, command)


if __name__ == "__main__":
    main()
