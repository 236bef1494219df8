"""Which GPU each rank gets and what fits on it, with GPUs that exist only in the test; all ranks raise together."""

from types import SimpleNamespace

import pytest

from ridgeline.parallel import devices
from ridgeline.parallel.devices import device_memory_per_rank, require_device_memory, select_device
from ridgeline.runtime.devices import DeviceInfo
from ridgeline.runtime.errors import DeviceError


def gpu(number):
    return DeviceInfo(number, "GPU of the test", (9, 0), 10**10, 132, uuid=f"{number:032x}")


def free_is(monkeypatch, n_bytes):
    here = SimpleNamespace(
        memory_manager=SimpleNamespace(deallocations=[]),
        get_memory_info=lambda: SimpleNamespace(free=n_bytes),
        select_device=lambda index: None,
    )
    here.current_context = lambda: here
    monkeypatch.setattr(devices, "import_module", lambda name: here)


def test_ranks_that_share_a_gpu_are_counted_together(comm, monkeypatch):
    free_is(monkeypatch, 10**9 * comm.size - comm.rank)
    needed = {"fields": 0.9e9, "halo buffers": 0.1e9}
    least = 10**9 * comm.size - (comm.size - 1)
    with pytest.raises(DeviceError) if least < 10**9 * comm.size else _Nothing() as caught:
        require_device_memory(comm, gpu(0), needed, "use more GPUs (-n)")
    if comm.size > 1:
        assert f"the {comm.size} ranks that share it need {comm.size} GB" in str(caught.value)
    require_device_memory(comm, gpu(comm.rank), needed, "use more GPUs (-n)")


def test_ranks_that_share_a_gpu_have_a_share_of_it_each(comm, monkeypatch):
    free_is(monkeypatch, 10**9 * (1 + comm.rank))
    assert device_memory_per_rank(comm, gpu(comm.rank)) == 10**9
    assert device_memory_per_rank(comm, gpu(0)) == 10**9 / comm.size


def test_one_rank_that_needs_too_much_is_named_on_all(comm, monkeypatch):
    free_is(monkeypatch, 5 * 10**9)
    last = comm.size - 1
    with pytest.raises(DeviceError, match=rf"rank {last} on .*needs 6 GB on its GPU .fields 6 GB.*less"):
        require_device_memory(comm, gpu(comm.rank), {"fields": 6e9 if comm.rank == last else 1.0}, "use less")


def test_a_rank_without_a_gpu_is_named_on_all(comm, monkeypatch):
    free_is(monkeypatch, 0)
    last = comm.size - 1

    def describe():
        if comm.rank == last:
            raise DeviceError("the NVIDIA driver shows no GPU")
        return [gpu(0)]

    monkeypatch.setattr(devices, "describe_devices", describe)
    named = rf"rank {last} on .* has no GPU: " if comm.size > 1 else ""
    with pytest.raises(DeviceError, match=rf"^{named}the NVIDIA driver shows no GPU"):
        select_device(comm)


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *problem):
        return None
