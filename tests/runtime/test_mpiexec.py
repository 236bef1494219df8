"""The launcher of the library's own kind is taken, wherever it is and whatever its name, and the advice fits it."""

import os
import sys
from pathlib import Path

import pytest

from ridgeline.runtime import mpiexec
from ridgeline.runtime.errors import LauncherError
from ridgeline.validate import doctor

OPEN_MPI, MPICH = "Open MPI v4.1.4, package: Debian OpenMPI", "MPICH Version: 4.0.2"
VERSIONS = {
    "openmpi": "mpiexec (OpenRTE) 4.1.4",
    "wheel": "prterun (PRRTE) 3.0.11",
    "hydra": "HYDRA build details:",
    "pals": "mpiexec version 1.2.12 of PALS",
    "site": "",
}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Put launchers beside the interpreter ("venv/bin") or in folders of the PATH, and choose the library."""

    def make(library: str, launchers: dict[str, str]) -> Path:
        for name, kind in launchers.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{VERSIONS[kind]}" && exit\n{END}')
            path.chmod(0o755)
        monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
        monkeypatch.setenv("PATH", f"{tmp_path}/first:{tmp_path}/second:{os.defpath}")
        monkeypatch.delenv("RIDGELINE_MPIEXEC", raising=False)
        monkeypatch.setattr(mpiexec, "_library_here", lambda: library)
        return tmp_path

    return make


END = 'echo "It is not recommended to run as root. Use the option --allow-run-as-root." >&2; exit 1\n'


@pytest.mark.parametrize(
    ("library", "launchers", "taken"),
    [
        (MPICH, {"venv/bin/mpiexec": "hydra", "first/mpiexec": "hydra"}, "venv/bin/mpiexec"),
        (MPICH, {"first/mpiexec": "openmpi", "first/mpiexec.mpich": "hydra"}, "first/mpiexec.mpich"),
        (MPICH, {"first/mpiexec": "openmpi", "second/mpiexec": "pals"}, "second/mpiexec"),
        (MPICH, {"first/mpiexec": "site"}, "first/mpiexec"),
        (OPEN_MPI, {"venv/bin/mpiexec": "hydra", "first/mpiexec": "openmpi"}, "first/mpiexec"),
        (OPEN_MPI, {"first/mpiexec": "hydra", "first/mpiexec.openmpi": "openmpi"}, "first/mpiexec.openmpi"),
        (OPEN_MPI, {"first/mpirun": "openmpi"}, "first/mpirun"),
        (OPEN_MPI, {"venv/bin/prterun": "wheel"}, "venv/bin/prterun"),
        ("", {"first/mpiexec": "openmpi"}, "first/mpiexec"),
    ],
)
def test_the_launcher_is_of_the_library_s_kind(machine, library, launchers, taken):
    folder = machine(library, launchers)
    assert mpiexec.find_mpiexec() == [str(folder / taken)]


@pytest.mark.parametrize(
    ("library", "launchers", "words", "advice"),
    [
        (OPEN_MPI, {}, "for Open MPI, the MPI library of this Python", "has the mpirun of this Open MPI"),
        (OPEN_MPI, {"venv/bin/mpiexec": "hydra"}, "venv/bin/mpiexec belongs to another MPI", "openmpi-bin"),
        (MPICH, {"first/mpiexec": "openmpi"}, "first/mpiexec belongs to another MPI", "pip install mpich"),
        ("", {}, "no mpiexec was found beside", "pip install mpich"),
    ],
)
def test_advice_fits_the_library(machine, monkeypatch, library, launchers, words, advice):
    machine(library, launchers)
    monkeypatch.setenv("PATH", os.environ["PATH"].removesuffix(f":{os.defpath}"))
    with pytest.raises(LauncherError) as error:
        mpiexec.find_mpiexec()
    found = doctor._mpiexec()
    assert str(error.value) == f"{found.text} {found.advice}"
    assert words in found.text
    assert advice in found.advice
    assert ("pip install" in found.advice) == (library != OPEN_MPI)


def test_the_environment_names_a_launcher_with_options_or_with_a_space_in_its_path(monkeypatch, tmp_path):
    monkeypatch.setenv("RIDGELINE_MPIEXEC", "/site/mpirun --allow-run-as-root -x 'A B'")
    assert mpiexec.find_mpiexec() == ["/site/mpirun", "--allow-run-as-root", "-x", "A B"]
    path = tmp_path / "my mpiexec"
    path.touch()
    monkeypatch.setenv("RIDGELINE_MPIEXEC", str(path))
    assert mpiexec.find_mpiexec() == [str(path)]


def test_open_mpi_refuses_root_and_doctor_says_just_that(machine):
    folder = machine(OPEN_MPI, {"first/mpirun": "openmpi"})
    found = doctor._mpiexec()
    assert (found.status, found.text) == (
        "missing",
        f"{folder}/first/mpirun refuses to start ranks for root.",
    )
    assert f"RIDGELINE_MPIEXEC='{folder}/first/mpirun --allow-run-as-root'" in found.advice


def test_open_mpi_starts_ranks_as_mpich_does_unless_a_person_says_otherwise():
    given = mpiexec.mpiexec_environment({"OMPI_MCA_hwloc_base_binding_policy": "core"})
    assert given["OMPI_MCA_hwloc_base_binding_policy"] == "core"
    assert given["OMPI_MCA_rmaps_base_oversubscribe"] == "1"
