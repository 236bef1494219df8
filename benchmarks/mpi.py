"""What mpi4py and numba-mpi cost over C with the same MPI, in one process, in turn: latency and bandwidth of 2 ranks.

    python benchmarks/mpi.py [--quick] [--seconds S] [--sizes B ...] [--json FILE]

What each figure means and its target: benchmarks/README.md. Two ranks need a core each; nothing else should run.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np

from harness.machine import describe
from harness.ranks import JobFailed, run_job
from harness.table import Row, markdown, show, write_json

SIZE = 8  # bytes, of the latency
WINDOW = 64
BYTES = 2**25  # moved by a language in its turn, for bandwidths
PEERS = ("mpi4py", "numba-mpi")
BANDWIDTHS = (
    ("mpi4py", "C"),
    ("mpi4py, receives prepared", "C, receives prepared"),
    ("mpi4py, persistent", "C, persistent"),
    ("numba-mpi", "C"),
)
LATENCY_TARGETS = {"mpi4py": "<= 0.5 us", "numba-mpi": "<= 1.05"}
BANDWIDTH_TARGET = ">= 0.98"


def latency_rows(samples: dict[str, list[float]]) -> list[Row]:
    """Return C's latency, what mpi4py adds to it in us, and what numba-mpi is of it. samples: s, by language."""
    c = np.array(samples["C"])
    rows = [Row(f"latency of C, {SIZE} B", 1e6 * c.min(), median=1e6 * float(np.median(c)), unit="us")]
    for name in (name for name in PEERS if name in samples):
        peer = np.array(samples[name])
        more, ratio = peer - c, peer / c
        note = f"{1e6 * peer.min():.3f} us, {peer.min() / c.min():.3f} of C"
        if name == "mpi4py":
            figure, median = 1e6 * (peer.min() - c.min()), 1e6 * float(np.median(more))
            rows.append(
                Row(f"latency of {name} - C, {SIZE} B", figure, LATENCY_TARGETS[name], median, note, "us")
            )
        else:
            figure, median = peer.min() / c.min(), float(np.median(ratio))
            rows.append(Row(f"latency of {name} / C, {SIZE} B", figure, LATENCY_TARGETS[name], median, note))
    return rows


def bandwidth_rows(size: int, samples: dict[str, list[float]]) -> list[Row]:
    """Return each peer's bandwidth over C's. samples: s of a message of `size` bytes, by language."""
    rows = []
    for name, base in BANDWIDTHS:
        if name not in samples or base not in samples:
            continue
        peer, c = np.array(samples[name]), np.array(samples[base])
        note = f"{size / c.min() / 1e6:.0f} MB/s in C, {size / peer.min() / 1e6:.0f} MB/s"
        title = f"bandwidth of {name} / {base}, {size // 1024} KiB, window {WINDOW}"
        rows.append(Row(title, c.min() / peer.min(), BANDWIDTH_TARGET, float(np.median(c / peer)), note))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="duration for the latency and for each size (10)"
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", help="message sizes of the bandwidth in B (64 KiB to 4 MiB)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="only test that it runs, with few rounds and two sizes"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the rows to this file")
    settings = parser.parse_args()
    sizes = settings.sizes or ([65_536, 2**20] if settings.quick else [65_536 * 2**k for k in range(7)])
    os.environ.update({"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"})
    asked = {
        "size": SIZE,
        "batch": 1000,
        "seconds": 0.3 if settings.quick else settings.seconds,
        "sizes": sizes,
        "window": WINDOW,
        "bytes": BYTES,
    }
    try:
        job = run_job(str(Path(__file__).with_name("mpi_job.py")), 2, asked)
    except JobFailed as error:
        raise SystemExit(f"error: the job failed: {error}") from None
    rows = [Row(name, None, note=f"not run: {why}") for name, why in job["missing"].items()]
    if "C" in job["latency"]:
        rows += latency_rows(job["latency"])
        for size in sizes:
            rows += bandwidth_rows(size, job["bandwidth"][str(size)])
    machine = describe() | {
        "mpicc": job["how"].get("C", "none"),
        "numba-mpi": job["how"].get("numba-mpi", "none"),
    }
    show("C, mpi4py and numba-mpi, 2 ranks of one node", rows, machine)
    command = "python benchmarks/mpi.py " + " ".join(sys.argv[1:])
    print(markdown(rows, machine, command.strip()))
    if settings.json:
        write_json(Path(settings.json), rows, machine, command.strip())


if __name__ == "__main__":
    main()
