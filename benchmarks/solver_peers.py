"""HPL, HPCG and Nekbone beside the programs that others run, in turn in one run.

    python benchmarks/solver_peers.py --hpcc --hpcg DIR --nekbone DIR   # two cores with nothing else; some 20 minutes
    python benchmarks/solver_peers.py --hpcc --quick                    # does it run?

hpcc is Debian's package. DIR is a checkout of hpcg-benchmark/hpcg or of Nek5000/Nekbone, which is compiled in a
temporary folder by the mpicxx or mpif77 of PATH. Ours are the commands of `ridgeline bench`. Both have one thread in
each rank, the same sizes and the same formula for their rate, and the best of the rounds counts. HPCG is the
reference implementation: others are faster, as ours is. hpcc multiplies with the BLAS that Debian's alternatives
choose: without libopenblas0-serial, it is the slow one of the package libblas3.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.graph500_peers import PeerUnavailable
from harness.machine import describe
from harness.ranks import outside_mpi
from harness.solver_peers import Hpcc, Hpcg, NekboneFortran
from harness.table import Row, publish

Rate = Callable[[int], float]  # FLOP/s on so many ranks


def ours(*options: object) -> dict[str, Any]:
    """Run `ridgeline bench` with these options in a temporary folder; return its JSON."""
    command = [sys.executable, "-m", "ridgeline", "bench", *map(str, options), "--json", "-"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, cwd=folder, env=outside_mpi(), capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise PeerUnavailable(f"ours says {done.stderr.strip().splitlines()[-1]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def pairs_of(
    settings: argparse.Namespace, folder: Path
) -> Iterator[tuple[str, str, Callable[[], Rate], Rate]]:
    """Return name and goal of each comparison, what makes the peer, and ours."""
    n, edge, seconds, elements = (1000, 16, 1, 27) if settings.quick else (12000, 104, 60, 512)

    def hpl(ranks: int) -> float:
        content = ours("hpl", "-n", ranks, "--n", n, "--nb", 256, "--p", 1, "--no-dgemm")
        return float(content["extra"]["solves"][0]["flops_per_second"])

    def hpcg(ranks: int) -> float:
        content = ours("hpcg", "-n", ranks, "--nx", edge, "--rt", seconds, "--no-stream")
        return float(content["extra"]["rating"])

    def nekbone(nx1: int) -> Rate:
        options = ("--nx1", nx1, "--elements", elements, "--no-stream")
        return lambda ranks: float(ours("nekbone", "-n", ranks, *options)["rows"][0]["rate"])

    if settings.hpcc:

        def make_hpcc() -> Rate:
            peer = Hpcc(folder)
            print(f"hpcc multiplies with {peer.blas}", file=sys.stderr)
            return lambda ranks: peer.rate(ranks, n, 256)

        yield f"HPL over hpcc, N = {n}, NB = 256", ">= 1", make_hpcc, hpl
    if settings.hpcg:

        def make_hpcg() -> Rate:
            peer = Hpcg(settings.hpcg, folder)
            return lambda ranks: peer.rate(ranks, edge, seconds)

        yield f"HPCG over the reference in C++, {edge}^3 points of a rank", ">= 1", make_hpcg, hpcg
    for nx1 in settings.nx1 if settings.nekbone else ():

        def make_nekbone(nx1: int = nx1) -> Rate:
            peer = NekboneFortran(settings.nekbone, folder)
            return lambda ranks: peer.rate(ranks, nx1, elements)

        yield (
            f"Nekbone over Fortran, nx1 = {nx1}, {elements} elements of a rank",
            ">= 2",
            make_nekbone,
            nekbone(nx1),
        )


def compare(
    name: str, goal: str, make: Callable[[], Rate], mine: Rate, settings: argparse.Namespace
) -> Iterator[Row]:
    """Return a row for each number of ranks."""
    try:
        peer = make()
        for ranks in settings.ranks:
            found = [(mine(ranks), peer(ranks)) for _ in range(1 if settings.quick else settings.rounds)]
            best, other = (max(rates) for rates in zip(*found))
            note = f"{best / 1e9:.3g} against {other / 1e9:.3g} GFLOP/s"
            yield Row(f"{name}, {ranks} rank{'s' * (ranks > 1)}", best / other, goal, note=note)
    except PeerUnavailable as error:
        yield Row(name, None, goal, note=f"not run: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hpcc", action="store_true", help="compare with the hpcc of PATH")
    parser.add_argument("--hpcg", type=Path, metavar="DIR", help="checkout of hpcg-benchmark/hpcg")
    parser.add_argument("--nekbone", type=Path, metavar="DIR", help="checkout of Nek5000/Nekbone")
    parser.add_argument("--nx1", type=int, nargs="+", default=[8, 10, 12, 16], help="of Nekbone (8 10 12 16)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3, help="turns of both programs (3)")
    parser.add_argument("--quick", action="store_true", help="run small problems once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    settings = parser.parse_args()
    if not (settings.hpcc or settings.hpcg or settings.nekbone):
        parser.error("name a peer: --hpcc, --hpcg or --nekbone")
    found = []
    with tempfile.TemporaryDirectory(prefix="ridgeline-peer-") as folder:
        for name, goal, make, mine in pairs_of(settings, Path(folder)):
            for row in compare(name, goal, make, mine, settings):
                print(row.line(), file=sys.stderr, flush=True)
                found.append(row)
    command = " ".join(["python", "benchmarks/solver_peers.py", *sys.argv[1:]])
    for option in ("hpcg", "nekbone"):
        command = command.replace(str(getattr(settings, option)), "DIR")
    publish("Solvers and their peers", found, describe(), command, settings.json)


if __name__ == "__main__":
    main()
