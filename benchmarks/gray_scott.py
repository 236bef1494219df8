"""Benchmarks of the Gray-Scott workflow: ratios, each of times taken in turn in one run.

    python benchmarks/gray_scott.py [--quick] [--only NAME ...] [--json FILE]

What each figure means and its target: benchmarks/README.md. `--quick` shows that everything runs; its grids
fit into caches, so its figures say little.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.machine import describe
from harness.table import Row, markdown, show, write_json
from ridgeline.parallel.job import prepare_rank
from ridgeline.runtime.machine import cores_available

NAMES = ("stream", "fraction", "noise", "size", "c", "packing", "ranks", "gpu")


def benchmarks() -> dict[str, Callable[..., Iterator[Row]]]:
    """Import and return the benchmarks by name; call after the threads are configured."""
    from gray_scott_gpu import gpu
    from gray_scott_packing import packing
    from gray_scott_ranks import ranks_against_threads
    from gray_scott_stream import stream
    from gray_scott_sweep import c_peers, fraction, noise, size

    found = {
        "stream": stream,
        "fraction": fraction,
        "noise": noise,
        "size": size,
        "c": c_peers,
        "packing": packing,
        "ranks": ranks_against_threads,
        "gpu": gpu,
    }
    assert tuple(found) == NAMES
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="use small grids and short times")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=NAMES,
        metavar="NAME",
        help=f"run only these comparisons: {', '.join(NAMES)}",
    )
    parser.add_argument("--seconds", type=float, help="duration of each comparison (5)")
    parser.add_argument(
        "--sizes", type=int, nargs="+", help="numbers of cells in each direction (128 256 512)"
    )
    parser.add_argument("--dtypes", nargs="+", choices=("float64", "float32"), help="number types (both)")
    parser.add_argument("--threads", type=int, nargs="+", help="numbers of threads (1 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    arguments = parser.parse_args()

    # The threads of C's OpenMP sleep between loops instead of spinning on the cores that we measure next.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    prepare_rank(cores_available())
    chosen = {name: benchmarks()[name] for name in arguments.only or NAMES}

    from gray_scott_sweep import Settings

    defaults = Settings(sizes=(64,), seconds=0.2) if arguments.quick else Settings()
    settings = Settings(
        tuple(arguments.sizes or defaults.sizes),
        tuple(arguments.dtypes or defaults.dtypes),
        tuple(n for n in arguments.threads or defaults.threads if n <= cores_available()),
        arguments.seconds or defaults.seconds,
    )
    machine = describe()
    rows = []
    for name, benchmark in chosen.items():
        for row in benchmark(settings):
            rows.append(row)
            print(f"[{name}] {row.line()}", file=sys.stderr, flush=True)
    command = " ".join(["python", "benchmarks/gray_scott.py", *sys.argv[1:]])
    show("Gray-Scott", rows, machine)
    print()
    print(markdown(rows, machine, command))
    if arguments.json:
        write_json(arguments.json, rows, machine, command)


if __name__ == "__main__":
    main()
