"""`ridgeline bench hpcg`: table, JSON, official report, hpcg.dat, refusals, and the exit code of a wrong result."""

import json
import os
import subprocess
import sys

DAT = "HPCG benchmark input file\nnothing of note\n16 24 16\n0\n"


def official(path):
    (report,) = path.glob("HPCG-Benchmark_3.1_*.txt")
    return dict(line.rsplit("=", 1) for line in report.read_text().splitlines() if "=" in line)


def test_two_ranks(ridgeline):
    options = ("--nx", 16, "--rt", 0, "--no-stream", "--output", "reports", "--json", "x.json")
    done = ridgeline("bench", "hpcg", "-n", 2, *options)
    assert done.returncode == 0, done.stderr
    assert "VALID with a rating of" in done.stdout
    assert "report: reports/HPCG-Benchmark_3.1_" in done.stdout
    said = [line.removeprefix("hpcg: ") for line in done.stderr.splitlines() if line.startswith("hpcg: ")]
    assert said == [  # of one rank, and not of the small runs that compile
        "compiling",
        "set-up",
        "kernels of the reference",
        "50 iterations of the reference",
        "optimisation",
        "tests",
        "first optimised set",
        "timed sets",
    ]
    assert "timed sets" not in done.stdout
    facts = json.loads((ridgeline.path / "x.json").read_text())
    report = official(ridgeline.path / "reports")
    rating = float(report["Final Summary::HPCG result is VALID with a GFLOP/s rating of"])
    assert abs(facts["extra"]["rating"] / 1e9 - rating) < 1e-5 * rating
    assert facts["extra"]["valid"]
    assert facts["settings"]["process_grid"] == [2, 1, 1]
    assert report["Machine Summary::Distributed Processes"] == "2"
    assert report["Global Problem Dimensions::Global nx"] == "32"
    assert report["Spectral Convergence Tests::Preconditioned::Maximum iteration count"] == "2"


def test_threads_and_hpcg_dat(ridgeline):
    (ridgeline.path / "hpcg.dat").write_text(DAT)
    done = ridgeline("bench", "hpcg", "--threads", 2, "--no-stream", "--json", "-")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["settings"] == {"box": [16, 24, 16], "process_grid": [1, 1, 1], "seconds": 0.0, "threads": 2}
    assert "Box and seconds are those of hpcg.dat." in facts["notes"]
    assert official(ridgeline.path)["Machine Summary::Threads per processes"] == "2"


def test_refusals(ridgeline):
    for options, words in (
        (("--nx", 12, "--ny", 16, "--nz", 16), "12"),
        (("--nx", 20), "20"),
        (("--dat", "none.dat"), "cannot read none.dat"),
        (("--nx", 16, "--rt", -1), "must be 0 or more"),
        (("--output", "/proc/here"), "cannot write the report into /proc/here"),
        (("--json", "nowhere/x.json"), "cannot write nowhere/x.json"),
    ):
        done = ridgeline("bench", "hpcg", *options)
        assert done.returncode in (2, 6), done.stderr
        assert done.stderr.count("error:") == 1
        assert words in done.stderr
        assert "Traceback" not in done.stderr


WRONG = """
from ridgeline.bench.hpcg import optimised_matrix
correct = optimised_matrix.number_wavefronts
def one_wrong(*matrix):
    fronts = correct(*matrix)
    fronts[fronts.size // 2] = 0
    return fronts
optimised_matrix.number_wavefronts = one_wrong
from ridgeline.bench.benchmark import find_benchmark
from ridgeline.bench.run import run_benchmark
hpcg = find_benchmark("hpcg")
run_benchmark(hpcg, hpcg.make_options(nx=16, seconds=0.0, stream=False, output="reports"))
"""


def test_a_wrong_result_has_a_report_and_an_exit_code(ridgeline):
    done = subprocess.run(
        [sys.executable, "-c", WRONG],
        cwd=ridgeline.path,
        env={**os.environ, **ridgeline.environ()},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 9, done.stderr
    assert "HPCG result is INVALID. Failed tests: agreement with the reference" in done.stdout
    assert done.stderr.count("error:") == 1
    assert "Traceback" not in done.stderr
    assert official(ridgeline.path / "reports")["Final Summary::HPCG result is"] == "INVALID."
