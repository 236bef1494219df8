"""The wind model beside AMR-Wind, in turn in one run: seconds a step, and how much their flows differ.

    python benchmarks/wind_peers.py --amr-wind DIR            # two cores with nothing else; some ten minutes
    python benchmarks/wind_peers.py --amr-wind DIR --quick    # does it run?

DIR is a build of Exawind/amr-wind with MPI: a folder that holds the program amr_wind and CMakeCache.txt, made by

    cmake -S CHECKOUT -B DIR -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-O3 -march=native" -DAMR_WIND_ENABLE_MPI=ON
    make -C DIR amr_wind

Both compute the neutral boundary layer of harness/wind_peers.py, with one thread in each rank and one box a rank. The
median time of a step counts, and the best of the rounds.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.graph500_peers import PeerUnavailable
from harness.machine import describe
from harness.table import Row, publish
from harness.wind_peers import WIND, AmrWind, ours


def compare(settings: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Return the rows of each number of ranks: the ratio of times, and both differences of the flows."""
    n, steps, rounds = (16, 4, 1) if settings.quick else (settings.cells, settings.steps, settings.rounds)
    name = f"wind over AMR-Wind, {n}^3 cells"
    try:
        peer = AmrWind(settings.amr_wind, folder)
        for ranks in settings.ranks:
            found = [(ours(n, steps, ranks, folder), peer.run(n, steps, ranks)) for _ in range(rounds)]
            best, other = (min(run.seconds for run in runs) for runs in zip(*found))
            pairs = [theirs.seconds / mine.seconds for mine, theirs in found]
            mine, theirs = found[-1]
            note = f"{best:.3g} against {other:.3g} s a step; cycles {mine.cycles} against {theirs.cycles}"
            title = f"{name}, {ranks} rank{'s' * (ranks > 1)}"
            yield Row(title, other / best, ">= 1", median=float(np.median(pairs)), note=note)
            note = f"after {steps} steps: {mine.friction_velocity:.4g} against {theirs.friction_velocity:.4g} m/s"
            yield Row(f"friction velocity, {ranks} ranks" if ranks > 1 else "friction velocity, 1 rank",
                      mine.friction_velocity / theirs.friction_velocity, note=note)  # fmt: skip
            largest = float(np.abs(mine.mean_wind - theirs.mean_wind).max()) / WIND
            yield Row(
                f"difference of the mean u over {WIND:g} m/s",
                largest,
                note="the largest of all heights, after the same steps",
            )
    except PeerUnavailable as error:
        yield Row(name, None, ">= 1", note=f"not run: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--amr-wind", type=Path, required=True, metavar="DIR", help="build of Exawind/amr-wind"
    )
    parser.add_argument(
        "--cells", type=int, default=64, help="cells in each direction, a multiple of 16 (64)"
    )
    parser.add_argument("--steps", type=int, default=60, help="time steps of a run (60)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3, help="turns of both programs (3)")
    parser.add_argument("--quick", action="store_true", help="run a small problem once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    settings = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="ridgeline-peer-") as folder:
        for row in compare(settings, Path(folder)):
            print(row.line(), file=sys.stderr, flush=True)
            found.append(row)
    command = " ".join(["python", "benchmarks/wind_peers.py", *sys.argv[1:]])
    command = command.replace(str(settings.amr_wind), "DIR")
    publish("The wind model and AMR-Wind", found, describe(), command, settings.json)


if __name__ == "__main__":
    main()
