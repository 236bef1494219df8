"""The stand-in for MPI on one rank behaves as a library does, call by call, and is taken only where none loads."""

import os
import subprocess
import sys

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.runtime import mpi_import, serial_mpi
from ridgeline.runtime.errors import LauncherError


@pytest.fixture(params=[serial_mpi, MPI], ids=["stand-in", "library"])
def mpi(request):
    return request.param


def test_collective_calls_copy(mpi):
    comm = mpi.COMM_SELF.Dup()
    assert (comm.size, comm.rank) == (1, 0)
    given = np.arange(6.0)
    for call in (comm.Allreduce, comm.Reduce, comm.Allgather, comm.Alltoall, comm.Gather):
        taken = np.zeros(6)
        call(given, taken)
        assert taken.tolist() == given.tolist(), call
    taken = np.zeros(6)
    comm.Allreduce(mpi.IN_PLACE, given, mpi.MAX)
    comm.Alltoallv([given, [2], [1], mpi.DOUBLE], [taken, ([2], [3])])
    assert taken.tolist() == [0, 0, 0, 1, 2, 0]
    comm.Ialltoallv([given[:2], np.array([2])], [taken, np.array([2])]).Wait()
    assert taken.tolist() == [0, 1, 0, 1, 2, 0]
    comm.Allgatherv([given, 6], [taken, [6]])
    assert taken.tolist() == given.tolist()
    for neighbours in ([], [0], [0, 0]):
        graph, taken = comm.Create_dist_graph_adjacent(neighbours, neighbours), np.zeros(6)
        counts = [2] * len(neighbours)
        graph.Neighbor_alltoallv([given, counts], [taken, counts])
        assert taken.tolist() == [*given[: sum(counts)], *[0] * (6 - sum(counts))]
        graph.Free()
    comm.Ibarrier().Wait()
    comm.Free()


def test_collective_calls_of_objects_copy(mpi):
    comm, value = mpi.COMM_SELF, {"a": [1, 2]}
    assert comm.bcast(value) == comm.allreduce(value) == value
    assert comm.allgather(value) == comm.gather(value) == comm.alltoall([value]) == [value]
    assert comm.allgather(value)[0] is not value
    assert comm.allreduce(3, mpi.MIN) == 3
    assert comm.scatter([value]) == value


def test_messages_to_itself_arrive_in_their_order_and_by_their_tag(mpi):
    comm = mpi.COMM_SELF.Dup()
    first, second, third = (np.zeros(2, np.int32) for _ in range(3))
    waiting = [comm.Irecv(first, 0, 7), comm.Irecv(second, 0, 8)]
    assert not waiting[1].Test()
    sent = [comm.Isend(np.array([n, n], np.int32), 0, tag) for n, tag in ((1, 8), (2, 7), (3, 8))]
    mpi.Request.Waitall([*waiting, *sent[:2]])
    comm.Recv(third, 0, 8)
    sent[2].Wait()
    assert (first[0], second[0], third[0]) == (2, 1, 3)
    comm.Sendrecv(first, 0, 1, third, 0, 1)
    assert third.tolist() == [2, 2]
    source, target = np.zeros(3), np.zeros(3)
    requests = [comm.Recv_init(target, 0, 5), comm.Send_init(source, 0, 5)]
    for n in (4.0, 5.0):
        source[:] = n
        mpi.Prequest.Startall(requests)
        mpi.Request.Waitall(requests)
        assert target.tolist() == [n] * 3
    comm.Recv(target, mpi.PROC_NULL)
    assert target.tolist() == [5.0] * 3
    for request in requests:
        request.Free()
    comm.Free()


def test_communicators_are_made_of_the_only_rank(mpi):
    comm = mpi.COMM_SELF
    assert comm.Split(0, 0).size == comm.Split_type(mpi.COMM_TYPE_SHARED).size == 1
    assert comm.Split(mpi.UNDEFINED, 0) == mpi.COMM_NULL
    cartesian = comm.Create_cart([1, 1, 1], periods=[True, False, True], reorder=False)
    assert cartesian.Shift(0, 1) == (0, 0)
    assert cartesian.Shift(1, 1) == (mpi.PROC_NULL, mpi.PROC_NULL)
    assert list(cartesian.coords) == [0, 0, 0]
    assert isinstance(cartesian, mpi.Intracomm)


def test_files_are_written_where_they_are_told(mpi, tmp_path):
    path = tmp_path / "data"
    file = mpi.File.Open(mpi.COMM_SELF, str(path), mpi.MODE_CREATE | mpi.MODE_WRONLY)
    file.Write_at_all(3, np.frombuffer(b"defg", np.uint8))
    file.Write_at(0, b"abc")
    file.Sync()
    file.Close()
    assert path.read_bytes() == b"abcdefg"


def test_what_one_rank_cannot_do_says_so(tmp_path):
    file = serial_mpi.File.Open(
        serial_mpi.COMM_SELF, str(tmp_path / "data"), serial_mpi.MODE_CREATE | serial_mpi.MODE_WRONLY
    )
    for name, call in {
        "Datatype.Create_contiguous": lambda: serial_mpi.DOUBLE.Create_contiguous(3),
        "Datatype.Create_struct": lambda: serial_mpi.Datatype.Create_struct([1], [0], [serial_mpi.DOUBLE]),
        "File.Set_view": lambda: file.Set_view(0, serial_mpi.BYTE, serial_mpi.BYTE),
        "Win.Allocate_shared": lambda: serial_mpi.Win.Allocate_shared(8, 1, comm=serial_mpi.COMM_SELF),
        "Win.Create": lambda: serial_mpi.Win.Create(
            np.zeros(3), 1, serial_mpi.INFO_NULL, serial_mpi.COMM_SELF
        ),
    }.items():
        with pytest.raises(LauncherError) as raised:
            call()
        assert str(raised.value) == (
            f"{name} needs an MPI library, but none loads. Load your site's MPI module, or install one with: pip "
            "install mpich"
        )
    file.Close()
    with pytest.raises(AttributeError, match="'Win' has no attribute 'other'"):
        _ = serial_mpi.Win.other
    with pytest.raises(serial_mpi.Exception, match="waits for a message that it has not sent"):
        serial_mpi.COMM_SELF.Dup().Recv(np.zeros(1))
    with pytest.raises(serial_mpi.Exception, match="truncated"):
        serial_mpi.COMM_SELF.Allgather(np.zeros(3), np.zeros(2))


@pytest.mark.parametrize("library", ["", "missing.so"])
def test_the_stand_in_is_taken_only_where_no_library_loads(library, tmp_path):
    code = (
        "import ridgeline\nfrom mpi4py import MPI\nimport mpi4py\nfrom ridgeline.runtime import mpi_import\n"
        "print(MPI is mpi4py.MPI, MPI.COMM_WORLD.size, bool(mpi_import.why_no_library()), MPI.Get_library_version())"
    )
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("PMI", "OMPI", "SLURM"))
    }
    if library:
        environ["MPI4PY_LIBMPI"] = str(tmp_path / library)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith(f"True 1 {bool(library)} ")
    assert (serial_mpi.LIBRARY in done.stdout) == bool(library)
    assert mpi_import.why_no_library() == ""


@pytest.mark.parametrize(
    ("before", "environment", "level"),
    [
        ("", {}, "serialized"),
        ("import mpi4py; mpi4py.rc.thread_level = 'funneled'", {}, "funneled"),
        ("", {"MPI4PY_RC_THREAD_LEVEL": "multiple"}, "multiple"),
    ],
)
def test_mpi_starts_with_the_thread_level_that_is_needed(before, environment, level):
    """What a program has chosen, and the environment variable of mpi4py, come first."""
    show = "from ridgeline.parallel.communicator import thread_level; print(thread_level())"
    unset = {name: value for name, value in os.environ.items() if name != "MPI4PY_RC_THREAD_LEVEL"}
    program = f"{before}\nimport ridgeline\n{show}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=unset | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == (level, "")
