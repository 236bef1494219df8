"""Launchers and libraries that do not match are seen and refused."""

import pytest

from ridgeline.runtime.errors import LauncherError
from ridgeline.runtime.launcher import check_launch, detect_launch, find_mpiexec, launch_ranks


@pytest.mark.parametrize(
    ("environ", "size", "rank"),
    [
        ({"PMI_SIZE": "4", "PMI_RANK": "3"}, 4, 3),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, 2, 1),
        ({"SLURM_STEP_NUM_TASKS": "64", "SLURM_PROCID": "17"}, 64, 17),
        ({"PMI_SIZE": "1", "PMI_RANK": "0", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "5"}, 8, 5),
    ],
)
def test_launch_is_read_from_the_environment(environ, size, rank):
    launch = detect_launch(environ)
    assert launch is not None
    assert (launch.size, launch.rank) == (size, rank)


@pytest.mark.parametrize("environ", [{}, {"SLURM_NTASKS": "64", "SLURM_PROCID": "0"}, {"PMI_SIZE": "many"}])
def test_no_launcher_is_no_launcher(environ):
    assert detect_launch(environ) is None


def test_ranks_that_think_they_are_alone_are_refused_with_the_fix():
    environ = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2"}
    with pytest.raises(LauncherError, match=r"Open MPI started 4 ranks.*MPICH 5.*ridgeline run CASE -n 4"):
        check_launch(1, "MPICH 5.0", environ)


@pytest.mark.parametrize(("world", "environ"), [(4, {"PMI_SIZE": "4"}), (1, {}), (1, {"PMI_SIZE": "1"})])
def test_matching_launchers_pass(world, environ):
    check_launch(world, "MPICH", environ)


def test_mpiexec_of_the_environment_can_be_overruled(monkeypatch):
    monkeypatch.setenv("RIDGELINE_MPIEXEC", "/site/bin/mpiexec")
    assert find_mpiexec() == "/site/bin/mpiexec"


def test_launcher_that_cannot_start_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("RIDGELINE_MPIEXEC", str(tmp_path / "nowhere"))
    with pytest.raises(LauncherError, match=r"cannot start .*nowhere.*RIDGELINE_MPIEXEC"):
        launch_ranks(2, [])
