"""Tests of GPU code on machines without a GPU: compile to PTX and machine code, run in the simulator."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from ridgeline.runtime.devices import describe_devices
from ridgeline.runtime.errors import DeviceError

CAPABILITY = (9, 0)  # Hopper
SIMULATOR_SECONDS = 480


@dataclass(frozen=True)
class Assembly:
    """A kernel compiled for CAPABILITY."""

    ptx: str
    registers: int  # per thread
    spilled: int  # bytes per thread

    def count(self, instruction: str) -> int:
        """Count the lines of PTX with an instruction, named up to and including its last qualifier."""
        return len(re.findall(rf"^\s*(?:@%\w+ )?{re.escape(instruction)}\b", self.ptx, re.MULTILINE))


@contextmanager
def device_to_compile_for() -> Iterator[None]:
    """Let numba-cuda compile device functions although there is no device to ask for its capability."""
    nobody = SimpleNamespace(compute_capability=CAPABILITY)
    with mock.patch("numba.cuda.dispatcher.get_current_device", return_value=nobody):
        yield


def assemble(kernel, signature) -> Assembly:
    """Compile a kernel for a signature of Numba types, with the launch bounds of its decorator."""
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
    registers = re.search(r"Used (\d+) registers", log)
    spilled = re.search(r"(\d+) bytes spill stores", log)
    assert registers is not None, log
    assert spilled is not None, log
    return Assembly(ptx, int(registers[1]), int(spilled[1]))


def run_simulated(path: Path) -> str:
    """Run a file of tests in a process of its own, whose kernels run in the simulator; return its output."""
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SIMULATOR_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def skip_without_device() -> None:
    """Skip the calling test, saying why, unless there is a real GPU."""
    try:
        describe_devices()
    except DeviceError as error:
        pytest.skip(f"no GPU: {error}")
