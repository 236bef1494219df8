"""What doctor finds of the BLAS and of a launcher that left the ranks alone, and what it gives to programs."""

import json
import platform

import pytest
import typer

import ridgeline
from ridgeline.cli.machine_commands import doctor as command
from ridgeline.runtime.blas import blas_libraries
from ridgeline.validate import doctor


@pytest.fixture
def finding(monkeypatch):
    """Examine the BLAS alone."""
    monkeypatch.setattr(doctor, "check_limits", lambda: None)
    for name in ("_python", "_cores", "_mpi", "_mpiexec", "_store", "_adios2", "_fftw", "_numba", "_gpu"):
        monkeypatch.setattr(doctor, name, lambda name=name: doctor.Finding(name, "ok", ""))

    def examine():
        (found,) = (one for one in doctor.examine() if one.name == "BLAS")
        return found

    return examine


def test_the_blas_is_named_with_its_architecture_and_threads(finding, monkeypatch):
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    first, *others = blas_libraries()
    found = finding()
    assert found.status == "ok"
    assert found.advice == ""
    assert found.text.startswith(
        f"{first.name} {first.version} for {first.architecture}, {first.threads} thread"
    )
    assert all(str(other) in found.text for other in others)


def test_kernels_that_the_environment_chooses_are_pointed_at(finding, monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Nehalem")
    assert "OPENBLAS_CORETYPE=Nehalem selects the kernels" in finding().advice


def test_shared_kernels_are_counted_or_refused_with_the_reason(tmp_path, monkeypatch):
    (tmp_path / "some.kernel").touch()
    monkeypatch.setenv("RIDGELINE_SHARED_KERNELS", str(tmp_path))
    monkeypatch.setattr(doctor, "prepare_rank", lambda: "the cache")
    found = doctor._numba()
    assert (found.status, found.advice) == ("ok", "")
    assert found.text.endswith(f"; 1 shared kernel in {tmp_path}")
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    monkeypatch.setenv("RIDGELINE_SHARED_KERNELS", str(open_folder))
    found = doctor._numba()
    assert f"those in {open_folder} are not used: other users can write to {open_folder}" in found.text
    assert "nobody else write there" in found.advice


def test_ranks_that_srun_left_alone_are_told_the_cure_once(monkeypatch, capsys):
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    monkeypatch.setenv("SLURM_PROCID", "0")
    found = doctor._mpiexec()
    assert (found.status, "sees only this one" in found.text) == ("missing", True)
    assert "srun --mpi=pmi2" in found.advice
    monkeypatch.setattr(doctor, "examine", lambda: [found])
    printed = []
    for rank in "01":
        monkeypatch.setenv("SLURM_PROCID", rank)
        with pytest.raises(typer.Exit):
            command()
        printed.append(capsys.readouterr().out)
    assert "MISSING" in printed[0]
    assert printed[1] == ""


def test_programs_get_the_findings_with_the_versions():
    findings = [
        doctor.Finding("MPI", "missing", "mpi4py does not load.", "Load an MPI module."),
        doctor.Finding("GPU", "optional", "none found"),
    ]
    content = json.loads(json.dumps(doctor.findings_to_dict(findings)))
    assert content == {
        "schema": doctor.SCHEMA,
        "ridgeline": ridgeline.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "findings": [
            {
                "name": "MPI",
                "status": "missing",
                "text": "mpi4py does not load.",
                "advice": "Load an MPI module.",
            },
            {"name": "GPU", "status": "optional", "text": "none found", "advice": ""},
        ],
    }


@pytest.mark.parametrize(
    ("message", "problem", "advice"),
    [
        ("mpiexec is missing. Install MPICH.", "mpiexec is missing.", "Install MPICH."),
        ("no mpiexec; x is another MPI; install MPICH", "no mpiexec; x is another MPI", "Install MPICH"),
        ("mpiexec is missing", "mpiexec is missing", ""),
    ],
)
def test_the_advice_of_a_launcher_error_is_its_last_sentence(message, problem, advice):
    assert doctor._problem_and_advice(message) == (problem, advice)
