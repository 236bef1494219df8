"""What a case compiles is what its run calls: nothing is left to compile, and nothing is compiled in vain."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rank_jobs import mpiexec

SCRIPT = Path(__file__).with_name("kernel_calls.py")
EXAMPLES = Path(__file__).parents[2] / "examples"

GRAY_SCOTT = [
    "run.steps=3",
    "grid.shape=[12,10,16]",
    "initial.half_width=2",
    "output.every=2",
    "checkpoint.every=2",
]
TURBULENCE = [
    "run.steps=3", "grid.shape=[12,12,16]", "output.every=2", "output.spectra_every=2", "checkpoint.every=2",
    "model.fft.effort=estimate",
]  # fmt: skip
FLOW = [
    "run.steps=4", "grid.elements=[2,2,2]", "grid.order=3", "output.every=2", "checkpoint.every=2",
    "output.statistics_every=1", "output.statistics_start=0", "output.series_every=1",
]  # fmt: skip
# What a short run need not reach: packing, if an earlier run has stored that datatypes are faster, Gram-Schmidt
# repeated after cancellation, steps that change their length, rows between nodes, coarse problems of several levels,
# and what a run that resumes reads its state with.
RARE = (
    "blocks.box_copies.copy_boxes",
    "jit.contiguous_runs.gather_runs",
    "krylov.basis_kernels.basis_subtract ",
    "krylov.basis_kernels.basis_products",
    "krylov.basis_kernels.basis_transform",
    "fourier.packing.planes_to_rows",
    "fourier.packing.rows_to_planes",
    "sparse.rows.",
)


def calls(folder: Path, arguments, ranks: int) -> list[dict[str, list[str]]]:
    """Return what each rank of a command wanted and called."""
    folder.mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    launcher = [mpiexec(), "-n", str(ranks)] if ranks > 1 else []
    command = [*launcher, sys.executable, str(SCRIPT), str(folder), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    found = [json.loads(path.read_text()) for path in folder.glob("*.json") if path.stem.isdigit()]
    assert len(found) == ranks
    return found


@pytest.mark.parametrize(
    ("case", "settings", "ranks"),
    [
        ("gray_scott", GRAY_SCOTT, (1, 2)),
        pytest.param(
            "gray_scott",
            [*GRAY_SCOTT, "run.precision=float32", "model.noise=0", "grid.boundary=fixed"],
            (1, 2),
            marks=pytest.mark.full,
        ),
        pytest.param("turbulence_forced", TURBULENCE, (1, 2), marks=pytest.mark.slow),
        pytest.param(
            "turbulence_forced", [*TURBULENCE, "run.precision=float64"], (1, 2), marks=pytest.mark.slow
        ),
        pytest.param("square_duct", FLOW, (1, 2), marks=pytest.mark.slow),
        pytest.param(
            "square_duct",
            [
                *FLOW,
                "model.pressure.solver=cg",
                "model.pressure.coarse=amg",
                "model.pressure.precision=float64",
            ],
            (1, 2),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "square_duct",
            [*FLOW, "model.products=plain", "model.overlap=false"],
            (1, 2),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_run_calls_what_was_compiled_and_nothing_else(tmp_path, case, settings, ranks):
    wanted, called = set(), set()
    for n in ranks:
        pencils = ["grid.decomposition=pencils", f"grid.process_grid=[{n},1]"] if "turbulence" in case else []
        options = [word for setting in [*settings, *pencils] for word in ("--set", setting)]
        for rank in calls(tmp_path / str(n), ["run", str(EXAMPLES / case / "settings.toml"), *options], n):
            missing = set(rank["called"]) - set(rank["wanted"])
            assert not missing, f"compiled by the run on {n} ranks"
            wanted |= set(rank["wanted"])
            called |= set(rank["called"])
    assert wanted
    in_vain = {each for each in wanted - called if not any(name in each for name in RARE)}
    assert not in_vain, "compiled in vain"


@pytest.mark.full
@pytest.mark.parametrize(("threads", "runs"), [(1, [(1, 16), (2, 16)]), (2, [(1, 16), (2, 16), (1, 64)])])
def test_hpcg_calls_what_was_compiled_and_nothing_else(tmp_path, threads, runs):
    wanted, called = set(), set()
    for n, edge in runs:  # threads share the larger box alone
        box = ["--nx", str(edge), "--ny", str(edge), "--nz", str(edge), "--rt", "0", "--no-stream"]
        options = ["bench", "hpcg", *box, "--threads", str(threads)]
        for rank in calls(tmp_path / f"{n}_{edge}", options, n):
            missing = set(rank["called"]) - set(rank["wanted"])
            assert not missing, f"compiled by the benchmark on {n} ranks, {edge}^3"
            wanted |= set(rank["wanted"])
            called |= set(rank["called"])
    assert wanted == called, "compiled in vain"
