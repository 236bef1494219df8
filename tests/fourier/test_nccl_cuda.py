"""NCCL: the calls that it gets, and what is said where it is not there; tests/ranks has what stands in for it."""

from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.device import exchange_cuda
from ridgeline.fourier.device.exchange_cuda import RealPieces, make_nccl
from ridgeline.runtime import extras
from ridgeline.runtime.errors import DeviceError

IDENTITY = b"i" * 128


class NCCLError(Exception):
    """As nccl4py has it."""


class UniqueId:
    """A name that ranks share."""

    def __init__(self, raw):
        self.raw = raw

    from_buffer = classmethod(lambda cls, raw: cls(raw))

    def __bytes__(self):
        return self.raw


def bindings(calls, **more):
    """nccl.bindings.nccl as far as it is called."""

    def noted(name, answer=None):
        def call(*arguments):
            calls.append((name, *arguments))
            return answer

        return call

    names = ("group_start", "group_end", "send", "recv", "comm_destroy")
    found = {name: noted(name) for name in names} | {
        "NCCLError": NCCLError,
        "UniqueId": UniqueId,
        "DataType": SimpleNamespace(Float64=8, Float32=7),
        "get_version": lambda: 23203,
        "get_unique_id": lambda: UniqueId(IDENTITY),
        "comm_init_rank": lambda n, identity, rank: ("comm", n, bytes(identity), rank),
    }
    return SimpleNamespace(**(found | more))


@pytest.fixture
def load(monkeypatch):
    monkeypatch.setattr(exchange_cuda, "simulated", lambda: False)

    def use(library):
        def find(name):
            assert name == "nccl.bindings.nccl"
            return library()

        monkeypatch.setattr(extras, "import_module", find)

    return use


def device_array(address):
    return SimpleNamespace(__cuda_array_interface__={"data": (address, False)})


@pytest.mark.parametrize(("dtype", "itemsize", "kind"), [(np.float64, 8, 8), (np.float32, 4, 7)])
def test_an_exchange_is_a_group_of_sends_and_receives(load, dtype, itemsize, kind) -> None:
    calls = []
    load(lambda: bindings(calls))
    nccl = make_nccl(MPI.COMM_SELF, dtype)
    nccl._size = 3  # as of three ranks
    sent = RealPieces(device_array(1000), [4, 0, 6], [0, 4, 4])
    received = RealPieces(device_array(5000), [2, 8, 0], [0, 2, 10])
    nccl.alltoall(sent, received, 77)
    nccl.free()
    comm = ("comm", 1, IDENTITY, 0)
    assert calls == [
        ("group_start",),
        ("send", 1000, 4, kind, 0, comm, 77),
        ("recv", 5000, 2, kind, 0, comm, 77),
        ("recv", 5000 + 2 * itemsize, 8, kind, 1, comm, 77),
        ("send", 1000 + 4 * itemsize, 6, kind, 2, comm, 77),
        ("group_end",),
        ("comm_destroy", comm),
    ]


def failing(error):
    def call(*_):
        raise error

    return call


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (
            failing(ImportError("no nccl")),
            r"NCCL needs .*nccl4py, .*\(no nccl\)\. .*pip install nccl4py nvidia-nccl-cu13, or set",
        ),
        (
            lambda: bindings([], get_version=failing(RuntimeError("libnccl.so.2: absent"))),
            r"does not load \(libnccl.so.2: absent\)",
        ),
        (
            lambda: bindings([], get_unique_id=failing(NCCLError("no network"))),
            r"cannot be initialised \(no network\)\. Set model.transpose.between_gpus",
        ),
        (
            lambda: bindings([], comm_init_rank=failing(NCCLError("duplicate GPU"))),
            r"cannot connect 1 ranks, each of which must have a separate GPU \(duplicate GPU\)",
        ),
    ],
)
def test_says_what_is_missing(load, library, words) -> None:
    load(library)
    with pytest.raises(DeviceError, match=words):
        make_nccl(MPI.COMM_SELF, np.float64)


def test_says_what_failed_in_an_exchange(load) -> None:
    load(lambda: bindings([], group_end=failing(NCCLError("remote rank gone"))))
    nothing = RealPieces(device_array(0), [0], [0])
    with pytest.raises(DeviceError, match=r"failed to exchange data .remote rank gone"):
        make_nccl(MPI.COMM_SELF, np.float64).alltoall(nothing, nothing, 1)
