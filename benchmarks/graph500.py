"""Graph500 against the GAP benchmark suite and the reference code, in turn in one run.

    python benchmarks/graph500.py --gap GAPBS --reference GRAPH500   # some 15 minutes; two cores with nothing else
    python benchmarks/graph500.py --quick                            # does it run? figures of small graphs say little

GAPBS is a checkout of sbeamer/gapbs, GRAPH500 one of graph500/graph500; both are compiled into a temporary folder.
What each figure means and its target: benchmarks/README.md. Ours is `ridgeline bench graph500`, every search of which
is validated. The peers search graphs of the same generator's parameters: same scale, edge factor 16, other numbers.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.graph500_peers import Gap, PeerUnavailable, Reference
from harness.machine import describe
from harness.ranks import outside_mpi
from harness.table import Row, markdown, show, write_json

Samples = dict[str, list[float]]  # seconds of searches, by name
LAYOUTS = ((1, 1), (1, 2), (2, 1))  # ranks, threads


def ours(scale: int, roots: int, ranks: int, threads: int, sssp: bool = True) -> dict[str, Any]:
    """Return what `ridgeline bench graph500` writes as JSON. Raises SystemExit if a search was not valid."""
    options: dict[str, Any] = {
        "-n": ranks,
        "--scale": scale,
        "--roots": roots,
        "--threads": threads,
        "--json": "-",
    }
    command = [sys.executable, "-m", "ridgeline", "bench", "graph500", *map(str, sum(options.items(), ()))]
    if not sssp:
        command.append("--no-sssp")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=outside_mpi(), check=False)
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command)} ended with exit code {done.returncode}.")
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def seconds_of(content: dict[str, Any], kernel: str) -> list[float]:
    """Return the seconds of the searches of a kernel."""
    return [row["seconds"] for row in content["rows"] if row["kernel"] == kernel]


class Peers:
    """What was compiled of the checkouts; `missing` says of each other one why there is none."""

    def __init__(self, settings: argparse.Namespace, folder: Path) -> None:
        self.missing: dict[str, str] = {}
        self.gap = self._build("GAP", Gap, settings.gap, folder)
        self.reference = self._build("reference", Reference, settings.reference, folder)

    def _build(self, name: str, peer: Any, checkout: Path | None, folder: Path) -> Any:
        if checkout is None:
            option = "--gap" if peer is Gap else "--reference"
            self.missing[name] = f"no checkout named by {option}"
            return None
        try:
            return peer(checkout, folder)
        except PeerUnavailable as error:
            self.missing[name] = str(error)
            return None


def take_turns(settings: argparse.Namespace, peers: Peers) -> tuple[Samples, dict[str, Any]]:
    """Return the seconds of all searches by name, and the last result of ours for every layout."""
    samples: Samples = defaultdict(list)
    last: dict[str, Any] = {}
    for _ in range(settings.rounds):
        for ranks, threads in LAYOUTS:
            name = f"{ranks}x{threads}"
            last[name] = ours(settings.scale, settings.roots, ranks, threads)
            for kernel in ("bfs", "sssp"):
                samples[f"{kernel} {name}"] += seconds_of(last[name], kernel)
            samples[f"build sssp {name}"].append(last[name]["extra"]["facts"]["construction_time"])
            bare = ours(settings.scale, 1, ranks, threads, sssp=False)
            samples[f"build bfs {name}"].append(bare["extra"]["facts"]["construction_time"])
            if peers.gap is not None and ranks == 1:
                for kernel in ("bfs", "relabelled bfs", "sssp"):
                    run = peers.gap.run(kernel, settings.scale, settings.roots, threads)
                    samples[f"GAP {kernel} {name}"] += run.searches
                    samples[f"GAP build {kernel} {name}"].append(run.build)
            if peers.reference is not None and threads == 1:
                samples[f"reference bfs {name}"] += peers.reference.search(settings.scale, ranks)
    return samples, last


def speed(samples: Samples, of: str, to: str) -> tuple[float, float]:
    """Return how many times as fast `of` is as `to`, by the lower quartile and by the median of searches.

    The best is no measure: a root in a small component is searched in no time.
    """
    mine, other = (np.quantile(samples[name], [0.25, 0.5]) for name in (of, to))
    quartile, median = other / mine
    return float(quartile), float(median)


def compared(samples: Samples, edges: float, of: str, to: str, title: str, target: str = "") -> Row:
    """Return the row of one comparison. edges: of a search, for the note."""
    if not samples.get(to):
        return Row(title, None, target, note="not run")
    quartile, median = speed(samples, of, to)
    rates = [edges / float(np.median(samples[name])) / 1e6 for name in (of, to)]
    note = f"medians, {rates[0]:.0f} against {rates[1]:.0f} MTEPS; {quartile:.3g} by lower quartiles"
    return Row(title, median, target, note=note)


def built(samples: Samples, of: str, kernel: str, layout: str, title: str) -> Row:
    """Return the row of the time of our construction over that of GAP, by the best of all rounds."""
    theirs = samples.get(f"GAP build {kernel} {layout}")
    if not theirs:
        return Row(title, None, "<= 2", note="not run")
    mine = min(samples[f"build {of} {layout}"])
    return Row(title, mine / min(theirs), "<= 2", note=f"{mine:.3g} s against {min(theirs):.3g} s")


def rows_of(settings: argparse.Namespace, peers: Peers) -> Iterator[Row]:
    """Return all rows; they begin with what is missing."""
    for name, why in peers.missing.items():
        yield Row(f"{name} of the user's checkout", None, note=f"not run: {why}")
    samples, last = take_turns(settings, peers)
    edges = last["1x1"]["extra"]["summaries"]["bfs"]["edges"]["median"]
    for kernel in ("bfs", "sssp"):
        for name, layout, target in (("1 thread", "1x1", ">= 1.0"), ("2 threads", "1x2", "")):
            title = f"{kernel}, {name}, over GAP's: scale {settings.scale}"
            yield compared(samples, edges, f"{kernel} {layout}", f"GAP {kernel} {layout}", title, target)
    for name, layout in (("1 thread", "1x1"), ("2 threads", "1x2")):
        title = f"bfs, {name}, over GAP's after relabelling by degree: scale {settings.scale}"
        yield compared(samples, edges, f"bfs {layout}", f"GAP relabelled bfs {layout}", title, ">= 1.5")
    for kernel, of in (("relabelled bfs", "bfs"), ("bfs", "bfs"), ("sssp", "sssp")):
        for name, layout in (("1 thread", "1x1"), ("2 threads", "1x2")):
            yield built(
                samples, of, kernel, layout, f"construction for {of}, {name}, over GAP's for {kernel}"
            )
    for ranks in ("1x1", "2x1"):
        title = f"bfs over the reference code's on {ranks[0]} rank{'s' * (ranks[0] != '1')}: scale {settings.scale}"
        target = ">= 10" if ranks == "2x1" else ""
        yield compared(samples, edges, f"bfs {ranks}", f"reference bfs {ranks}", title, target)
    for kernel, target in (("bfs", ">= 1.6"), ("sssp", "")):
        title = f"{kernel}, 2 ranks over 1 rank: scale {settings.scale}"
        yield compared(samples, edges, f"{kernel} 2x1", f"{kernel} 1x1", title, target)
    for layout, content in last.items():
        for kernel, summary in content["extra"]["summaries"].items():
            rate = summary["rate"]["harmonic_mean"] / 1e6
            ranks, threads = layout.split("x")
            yield Row(f"{kernel}, {ranks} x {threads}: harmonic mean", rate, unit="MTEPS")
    if settings.large:
        content = ours(settings.large, min(settings.roots, 8), 2, 1)
        for kernel, summary in content["extra"]["summaries"].items():
            rate = summary["rate"]["harmonic_mean"] / 1e6
            note = f"all searches valid, {content['extra']['took']['seconds']:.0f} s"
            yield Row(
                f"{kernel} at scale {settings.large}, 2 ranks: harmonic mean", rate, note=note, unit="MTEPS"
            )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gap", type=Path, metavar="DIR", help="checkout of sbeamer/gapbs")
    parser.add_argument("--reference", type=Path, metavar="DIR", help="checkout of graph500/graph500")
    parser.add_argument(
        "--scale", type=int, default=20, help="base-2 logarithm of the number of vertices (20)"
    )
    parser.add_argument(
        "--roots", type=int, default=32, help="number of searches of a kernel in a round (32)"
    )
    parser.add_argument(
        "--rounds", type=int, default=2, help="number of rounds, in each of which all programs take turns (2)"
    )
    parser.add_argument(
        "--large", type=int, default=22, help="scale of one more run of Ridgeline; 0 for none (22)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="run scale 14 with 4 roots in one round, and nothing larger"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the rows to this file")
    settings = parser.parse_args(arguments)
    if settings.quick:
        settings.scale, settings.roots, settings.rounds, settings.large = 14, 4, 1, 0
    os.environ.update({"OMP_NUM_THREADS": "1", "NUMBA_THREADING_LAYER": "workqueue"})
    rows = []
    with tempfile.TemporaryDirectory(prefix="ridgeline-graph500-") as folder:
        for row in rows_of(settings, Peers(settings, Path(folder))):
            rows.append(row)
            print(row.line(), file=sys.stderr, flush=True)
    machine = describe()
    show("Graph500", rows, machine)
    command = re.sub(
        r"(--gap|--reference) \S+", r"\1 DIR", "python benchmarks/graph500.py " + " ".join(sys.argv[1:])
    ).strip()
    print(markdown(rows, machine, command))
    if settings.json:
        write_json(Path(settings.json), rows, machine, command)


if __name__ == "__main__":
    main()
