"""Tests of GPU code on machines without a GPU: compile to PTX and machine code, run in the simulator."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from ridgeline.runtime.devices import describe_devices
from ridgeline.runtime.errors import DeviceError
from simulator import ENVIRONMENT

CAPABILITY = (9, 0)  # Hopper
SIMULATOR_SECONDS = 1200


@contextmanager
def device_to_compile_for() -> Iterator[None]:
    """Let numba-cuda compile device functions although there is no device to ask for its capability."""
    nobody = SimpleNamespace(compute_capability=CAPABILITY)
    with mock.patch("numba.cuda.dispatcher.get_current_device", return_value=nobody):
        yield


def compile_without_spills(kernel, signature, sines=False) -> str:
    """Compile a kernel to machine code, within the launch bounds of its decorator, and return its PTX.

    The bounds limit the registers of a thread. What does not fit into them goes to local memory, which is slow: this
    fails the test, as arrays in local memory do. So does more shared memory than a thread block may have.

    sines: the kernel takes sines, which have an array in local memory for arguments that are seldom met.
    """
    from cuda.core import Linker, LinkerOptions, ObjectCode
    from numba import cuda

    bounds = kernel.targetoptions["launch_bounds"]
    with device_to_compile_for():
        ptx, _ = cuda.compile(
            kernel.py_func, signature, cc=CAPABILITY, device=False, abi="numba", launch_bounds=bounds
        )
    options = LinkerOptions(arch="sm_{}{}".format(*CAPABILITY), ptxas_options=["-v"])
    linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
    linker.link("cubin")
    log = linker.get_info_log()
    spilled = re.search(r"(\d+) bytes spill stores", log)
    assert spilled is not None, log
    assert int(spilled[1]) == 0, log
    assert sines or not re.search(r"\b(ld|st)\.local", ptx), "an array in local memory"
    return ptx


def uses_atomics(ptx: str) -> bool:
    """Whether a kernel updates memory atomically: sums would then depend on the order in which threads arrive."""
    return re.search(r"^\s*(atom|red)\.", ptx, re.MULTILINE) is not None


def run_simulated(*names: Path | str) -> None:
    """Run files of tests in one process whose kernels run in the simulator (see simulator.py); they must pass."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, names)],
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=SIMULATOR_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout, "every test was skipped"


def skip_without_device() -> None:
    """Skip the calling test, saying why, unless there is a real GPU."""
    try:
        describe_devices()
    except DeviceError as error:
        pytest.skip(f"no GPU: {error}")
