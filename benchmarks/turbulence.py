"""Benchmarks of turbulence steps: ratios, each of times taken in turn in one run.

    python benchmarks/turbulence.py [--quick] [--only NAME ...] [--fluidsim install] [--json FILE]

What each figure means and its target: benchmarks/README.md. `--quick` shows that everything runs; its grids
fit into caches, so its figures say little. Whatever runs, RK2 steps on slabs and full transforms are in it.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from harness.machine import describe
from harness.peer import peer_python
from harness.table import Row, columns_markdown, markdown, show, write_json
from ridgeline.parallel.job import prepare_rank
from ridgeline.runtime.machine import cores_available

NAMES = {
    "fft": "RK2 step over its FFTs alone",
    "rk4": "RK4 step as well",
    "pencils": "pencils over slabs",
    "ranks": "speed of several ranks over one",
    "peers": "speed over FluidSim's and spectralDNS's",
    "bytes": "bytes through the last transpose over the paper's",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words = "; ".join(f"{name}: {what}" for name, what in NAMES.items())
    parser.add_argument("--quick", action="store_true", help="use a small grid and short times")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME", help=words)
    parser.add_argument(
        "--seconds", type=float, help="duration for each grid, precision and number of ranks (15)"
    )
    parser.add_argument("--sizes", type=int, nargs="+", help="points in each direction (128 256)")
    parser.add_argument("--dtypes", nargs="+", choices=("float64", "float32"), help="number types (both)")
    parser.add_argument("--ranks", type=int, nargs="+", help="numbers of ranks (1 2)")
    parser.add_argument(
        "--patient",
        action="store_true",
        help="plan full transforms with PATIENT at all sizes, which takes long",
    )
    parser.add_argument("--fluidsim", metavar="PYTHON", help="path of a Python that has it, or 'install'")
    parser.add_argument("--json", type=Path, metavar="FILE", default=Path("turbulence_benchmark.json"))
    arguments = parser.parse_args()

    prepare_rank()
    from turbulence_cases import Settings, breakdown, cases, rows, transposed_bytes

    quick = arguments.quick
    defaults = Settings(sizes=(32,), seconds=0.5, min_rounds=2) if quick else Settings()
    machine = describe()
    found: list[Row] = []
    table: list[dict[str, str]] = []
    with (
        tempfile.TemporaryDirectory(prefix="ridgeline-plans-") as folder,
        peer_python(arguments.fluidsim, ("fluidsim", "fluidfft", "pyfftw")) as fluidsim,
    ):
        # Kernels stay cached; plans and choices that another run measured, maybe on a busy machine, do not count.
        os.environ["RIDGELINE_CACHE_DIR"] = folder
        settings = Settings(
            sizes=tuple(arguments.sizes or defaults.sizes),
            dtypes=tuple(arguments.dtypes or defaults.dtypes),
            ranks=tuple(n for n in arguments.ranks or defaults.ranks if n <= cores_available()),
            only=tuple(arguments.only or NAMES),
            seconds=arguments.seconds or defaults.seconds,
            min_rounds=defaults.min_rounds,
            patient=arguments.patient or None,
            fluidsim=fluidsim,
            folder=folder,
        )
        if "bytes" in settings.only:
            found += transposed_bytes(settings)
        if settings.only != ("bytes",):
            for case in cases(settings):
                new = [case] if isinstance(case, Row) else list(rows(settings, case))
                for row in new:
                    print(row.line(), file=sys.stderr, flush=True)
                found += new
                if not isinstance(case, Row):
                    table += breakdown(case)
    command = " ".join(["python", "benchmarks/turbulence.py", *sys.argv[1:]])
    show("Turbulence", found, machine)
    print()
    print(markdown(found, machine, command))
    if table:
        print()
        print(columns_markdown(table))
    write_json(arguments.json, found, machine, command, breakdown=table)


if __name__ == "__main__":
    main()
