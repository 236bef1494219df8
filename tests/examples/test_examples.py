"""Everything under examples/ is valid, described and, as far as no cluster is needed, run."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import ridgeline
from ridgeline.cli.main import app
from ridgeline.config.load import load_case
from ridgeline.io.bp_attributes import BYTES_OF_VERTEX
from ridgeline.io.series import read_series
from ridgeline.models import case_class
from ridgeline.models.navier_stokes.problem_of_case import mesh_of
from ridgeline.study.plan import make_plan
from ridgeline.study.request import read_request

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STUDIES = sorted(EXAMPLES.glob("studies/*.toml"))
CASES = sorted({*EXAMPLES.glob("*/*.toml"), *EXAMPLES.glob("*/*.json")} - {*STUDIES})
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/README.md"))
REGIMES = {(0.025, 0.053), (0.03, 0.0545), (0.01, 0.05), (0.02, 0.048), (0.046, 0.065)}


def load(path: Path) -> Any:
    return load_case(path, case_class)


def header_of(path: Path, *parts: str) -> str:
    """Return the comments that a file begins with, in single spaces; each named part must begin a line of them."""
    header = path.read_text().split("\n\n")[0]
    for part in parts:
        assert re.search(rf"^# *{part}\b", header, re.MULTILINE), f"{path}: no {part}"
    return " ".join(re.sub("^#", "", header, flags=re.MULTILINE).split())


def test_the_promised_cases_are_there() -> None:
    names = {path.parent.name for path in CASES}
    assert {"gray_scott", "gray_scott_jl", "taylor_green", "turbulence_decay", "turbulence_forced"} <= names
    cases = [load(path).case for path in CASES if path.suffix == ".toml"]
    regimes = {(case.model.F, case.model.k) for case in cases if case.run.model == "gray_scott"}
    assert regimes == REGIMES
    elements = {case.initial.kind for case in cases if case.run.model == "navier_stokes"}
    assert elements == {"rest", "perturbed-duct", "perturbed-channel", "taylor_green", "walsh", "kovasznay"}
    flows = [
        (case.initial.kind, case.forcing.kind, case.particles.placement if case.particles.count else "")
        for case in cases
        if case.run.model == "turbulence"
    ]
    assert sorted(flows) == [
        ("spectrum", "eswaran-pope", ""),
        ("spectrum", "eswaran-pope", "pairs"),
        ("spectrum", "none", ""),
        ("taylor_green", "none", ""),
        ("taylor_green_2d", "eswaran-pope", ""),
    ]


@pytest.mark.full
def test_studies_can_be_planned_on_two_cores() -> None:
    readme = (EXAMPLES / "studies" / "README.md").read_text()
    for path in STUDIES:
        header = header_of(path, "Cost", "Run")
        plan = make_plan(read_request(str(path), {}))
        assert f"ridgeline study run examples/studies/{path.name}" in header, path
        assert f"{len(plan.points)} points" in header, path
        assert max(point.cores for point in plan.points) == plan.points[-1].ranks <= 2, path
        assert f"({path.name})" in readme, path


def test_cases_are_valid() -> None:
    for path in CASES:
        loaded = load(path)
        assert bool(loaded.warnings) == (path.suffix == ".json"), path
        case = loaded.case
        assert case.output.every > 0, path
        # The last step is written.
        assert case.run.steps % case.output.every == 0, path


def size_of(case: Any) -> tuple[list[str], int]:
    """Return patterns of what a header says of the size of a case, and how many numbers each variable has."""
    if case.run.model == "navier_stokes":
        elements = case.grid.elements or (mesh_of(case).n_elements,)
        points = math.prod(case.output.uniform or (*elements, *[case.grid.order + 1] * 3))
        return [rf"{' x '.join(map(str, elements))} elements of order {case.grid.order}\b"], points
    if case.run.model == "molecular_dynamics":
        return [rf"{case.grid.cells[0]}\^3 cells", f"{case.melt.atoms} atoms"], 3 * case.melt.atoms
    if case.run.model == "n_body":
        n = case.gravity.n_global
        return [rf"{case.grid.shape[0]}\^3 cells", f"{n} particles"], 3 * n
    if case.run.model in ("turbulence", "wind") and len(set(case.grid.shape)) > 1:
        return [rf"{' x '.join(map(str, case.grid.shape))} (cells|points)"], math.prod(case.grid.shape)
    dims = sum(n > 1 for n in case.grid.shape)
    return [rf"{case.grid.shape[-1]}\^{dims} (cells|points)"], math.prod(case.grid.shape)


def test_headers_give_physics_cost_command_and_what_to_expect() -> None:
    for path in (path for path in CASES if path.suffix == ".toml"):
        case, header = load(path).case, header_of(path, "Physics", "Cost", "Run", "Expect")
        assert f"ridgeline run examples/{path.parent.name}/{path.name}" in header, path
        patterns, points = size_of(case)
        for pattern in (*patterns, f"{case.run.steps} steps|{case.run.steps:,} steps".replace(",", " ")):
            assert re.search(pattern, header), f"{path}: no {pattern}"
        # The size of the data set that the header promises, within rounding.
        outputs = case.run.steps // case.output.every + case.output.initial
        word = 8 if case.run.precision == "float64" else 4
        promised = re.search(r"([\d.]+) MB of data set", header)
        assert promised is not None, path
        written = outputs * len(case.output.variables) * points * word
        if case.run.model in ("n_body", "molecular_dynamics"):
            written += outputs * points // 3 * BYTES_OF_VERTEX  # of particles, which have three numbers each
        assert float(promised[1]) == pytest.approx(written / 1e6, rel=0.03), path


def test_cases_do_not_write_over_each_other() -> None:
    cases = [load(path).case for path in CASES]
    written = [case.output.path for case in cases]
    for case in cases:
        both = case.run.model in ("turbulence", "n_body")
        written += [case.output.series, case.output.spectra] if both else []
        written += [case.output.series] if case.run.model == "navier_stokes" else []
    assert len(set(written)) == len(written)
    assert len({case.checkpoint.path for case in cases}) == len(cases)


def test_readmes_run_cases_that_exist() -> None:
    assert {path.parent for path in CASES} <= set(FOLDERS)
    for folder in [*FOLDERS, EXAMPLES]:
        for command in re.findall(r"ridgeline (?:run|check) (\S+)", (folder / "README.md").read_text()):
            assert (EXAMPLES.parent / command).exists(), f"{folder}/README.md runs {command}"


@pytest.mark.full
@pytest.mark.parametrize("name", ["taylor_green", "turbulence_decay", "turbulence_forced"])
def test_turbulence_runs_as_it_is_on_a_small_grid(name: str, tmp_path: Path) -> None:
    path = EXAMPLES / name / "settings.toml"
    overrides = ["grid.shape=[16,16,16]", "run.steps=6", "output.every=3", "output.series_every=2"]
    overrides += ["output.spectra_every=3", "checkpoint.every=3"]
    done = subprocess.run(
        [sys.executable, "-m", "ridgeline", "run", str(path), "-n", "2"]
        + [word for override in overrides for word in ("--set", override)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    case = load(path).case
    series = read_series(tmp_path / case.output.series)
    assert series["step"].tolist() == [0, 2, 4, 6]
    assert series["energy"][0] == pytest.approx({"taylor_green": 0.125}.get(name, case.initial.energy))
    if case.forcing.kind == "none":
        assert (np.diff(series["energy"]) < 0).all()
    assert all(np.isfinite(column).all() for column in series.values())
    with ridgeline.open(str(tmp_path / case.output.path)) as data:
        assert data.step.values.tolist() == [0, 3, 6]
        assert set(case.output.variables) <= set(data.data_vars)
        half_square = float((data.velocity_x.isel(step=-1) ** 2).mean()) / 2
        assert half_square == pytest.approx(series["energy_x"][-1], rel=1e-5)
    with ridgeline.open(str(tmp_path / case.output.spectra)) as spectra:
        assert float(spectra.energy_spectrum.isel(step=-1).sum()) == pytest.approx(
            series["energy"][-1], rel=1e-5
        )
    assert {path.name for path in (tmp_path / case.checkpoint.path).iterdir()} >= {"checkpoint_00000006"}


def stand_in(folder: Path, name: str, log: Path) -> None:
    """Put a program on the path that notes how it was called and then runs what it was to launch, once."""
    path = folder / name
    does = {
        "ridgeline": '[ "$1" != run ] || exit "$CODE"',
        "scontrol": 'echo "MpiDefault              = none"',
        **dict.fromkeys(
            ("srun", "mpiexec"),
            'while [ $# -gt 0 ] && [ "${1##*/}" != ridgeline ]; do shift; done; exec "$@"',
        ),
    }
    path.write_text(f'#!/bin/bash\necho "{name} $*" >> {log}\n{does.get(name, "")}\n')
    path.chmod(0o755)


def run_script(
    tmp_path: Path, script: str, *arguments: str, code: int = 0, **environment: str
) -> list[list[str]]:
    """Run a job script among stand-ins of the batch system; return what it called, in order.

    code: of `ridgeline run`, and so of the script. USER is not set, as in the environment of some batch systems.
    """
    log = tmp_path / "calls"
    for name in ("srun", "mpiexec", "ridgeline", "scontrol", "qsub", "sleep"):
        stand_in(tmp_path, name, log)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CODE": str(code),
        "HOME": str(tmp_path),
        "RIDGELINE": str(tmp_path / "ridgeline"),
        "BASH_FUNC_module%%": f'() {{ echo "module $*" >> {log}; }}',
        **environment,
    }
    done = subprocess.run(
        ["bash", str(EXAMPLES / "job_scripts" / script), *arguments],
        env=environment, cwd=tmp_path, check=False, timeout=60, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return [line.split() for line in log.read_text().splitlines()]


def parsed(call: list[str]) -> dict[str, Any]:
    """Parse a call of ridgeline with its real command line, and its settings with the real loader."""
    assert call[0] == "ridgeline"
    command = typer.main.get_command(app).commands[call[1]]  # type: ignore[attr-defined]
    with command.make_context(call[1], call[2:]) as context:
        options: dict[str, Any] = context.params
    load_case(options["case"], case_class, options["settings"] or [])
    return options


def option(call: list[str], name: str) -> str:
    """Return the value of `--name value` or `--name=value` among a launcher's arguments."""
    for word, following in zip(call, [*call[1:], ""]):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
    raise AssertionError(f"no {name} in {call}")


CASE = str(EXAMPLES / "gray_scott" / "settings.toml")


def test_slurm_script_binds_and_calls_what_exists(tmp_path: Path) -> None:
    calls = run_script(tmp_path, "frontier.slurm", CASE, SLURM_NNODES="8", SLURM_JOB_ID="77")
    assert [call[0] for call in calls] == ["module", "scontrol", "srun", "ridgeline", "srun", "ridgeline"]
    _, _, launch_compile, compiling, launch_run, running = calls
    assert parsed(compiling)["threads"] == 7
    options = parsed(running)
    assert (options["threads"], options["resume"], options["json"]) == (7, "auto", "ridgeline-77.json")
    assert option(launch_compile, "--ntasks-per-node") == "1"
    assert (option(launch_run, "--nodes"), option(launch_run, "--cpu-bind")) == ("8", "cores")
    cores = int(option(launch_run, "--ntasks-per-node")) * int(option(launch_run, "--cpus-per-task"))
    assert cores == 56  # 64 without the first core of each of 8 L3 caches


def test_pbs_script_binds_and_calls_what_exists(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("a\nb\na\nc\n")
    calls = run_script(
        tmp_path, "aurora.pbs", CASE=CASE, PBS_NODEFILE=str(tmp_path / "nodes"), PBS_O_WORKDIR=str(tmp_path),
        PBS_JOBID="42.server",
    )  # fmt: skip
    assert [call[0] for call in calls] == ["mpiexec", "ridgeline", "mpiexec", "ridgeline"]
    launch_compile, compiling, launch_run, running = calls
    assert parsed(compiling)["settings"] == ["grid.process_grid=auto"]
    options = parsed(running)
    assert (options["threads"], options["resume"], options["json"]) == (8, "auto", "ridgeline-42.json")
    assert options["settings"] == ["run.walltime=01:55:00"]
    assert (option(launch_compile, "-n"), option(launch_compile, "--ppn")) == ("3", "1")
    assert (option(launch_run, "-n"), option(launch_run, "--ppn")) == ("36", "12")
    ranges = option(launch_run, "--cpu-bind").removeprefix("list:").split(":")
    sets = [set(range(int(first), int(last) + 1)) for first, last in (part.split("-") for part in ranges)]
    assert [len(cores) for cores in sets] == [8] * 12  # one list per rank, one core per thread
    union = set().union(*sets)
    assert len(union) == 96
    assert not union & {0, 52}
    assert max(union) < 104
    assert not any(min(cores) < 52 <= max(cores) for cores in sets)  # no rank spans the sockets


@pytest.mark.parametrize(
    ("code", "environment", "again"),
    [
        (75, {}, False),
        (75, {"RESTARTS": "2"}, True),
        (75, {"RESTARTS": "2", "SLURM_RESTART_COUNT": "2"}, False),
    ]
    + [(code, {"RESTARTS": "2"}, False) for code in (0, 5)],
)
def test_slurm_queues_a_job_again_that_ended_early(
    tmp_path: Path, code: int, environment: Any, again: bool
) -> None:
    calls = run_script(
        tmp_path, "frontier.slurm", CASE, code=code, SLURM_NNODES="1", SLURM_JOB_ID="77", **environment
    )
    assert (["scontrol", "requeue", "77"] in calls) == again


@pytest.mark.parametrize(("code", "restarts", "left"), [(75, "2", "1"), (75, "0", None), (0, "2", None)])
def test_pbs_submits_a_successor_of_a_job_that_ended_early(
    tmp_path: Path, code: int, restarts: str, left: str | None
) -> None:
    (tmp_path / "nodes").write_text("a\n")
    calls = run_script(
        tmp_path, "aurora.pbs", code=code, CASE=CASE, PBS_NODEFILE=str(tmp_path / "nodes"),
        PBS_O_WORKDIR=str(tmp_path), PBS_JOBID="42.server", RESTARTS=restarts, SCRIPT="my.pbs",
    )  # fmt: skip
    given = f"CASE={CASE},RIDGELINE={tmp_path}/ridgeline,RESTARTS={left},SCRIPT=my.pbs"
    assert [call for call in calls if call[0] == "qsub"] == (
        [["qsub", "-v", given, "my.pbs"]] if left else []
    )


def test_job_scripts_say_what_they_need() -> None:
    for script in ("frontier.slurm", "aurora.pbs"):
        done = subprocess.run(
            ["bash", str(EXAMPLES / "job_scripts" / script)],
            env={"PATH": os.environ["PATH"], "PBS_O_WORKDIR": "/"}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode != 0, script
        assert "usage: " in done.stderr, script
