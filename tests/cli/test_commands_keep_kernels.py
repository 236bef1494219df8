"""Every command that computes keeps its kernels in the kernel cache, never beside the sources."""

from pathlib import Path

import pytest

import ridgeline as package
from ridgeline.jit.kernel_folders import kernel_folder

SOURCES = Path(package.__file__).parent
# Each with what the name of a kernel that it calls begins with.
COMMANDS = {
    ("run", "case.toml"): "sweep.make_sweep",
    ("compile", "case.toml"): "sweep.make_sweep",
    ("check", "case.toml"): "stream_kernels.",
    ("bench", "transpose", "--shape", 8, 8, 8, "--cycles", 1, "-q", 1): "",
    ("bench", "nekbone", "--nx1", 5, "--elements", 8, "--iterations", 2, "--no-stream"): "one_pass.",
    ("bench", "acceptance", "--nx1", 4, "--elements", 8): "acceptance.",
    ("bench", "hpcg", "--nx", 16, "--rt", 0, "--no-stream"): "sweeps.",
    ("bench", "stream", "--repeats", 1, "--bytes", 2**22): "stream_kernels.",
    ("validate", "--level", "node", "--quick", "--stage", "compute"): "compute_check.",
}


@pytest.mark.parametrize(
    ("command", "file"),
    [
        pytest.param(*case, id=" ".join(case[0][:2]), marks=[pytest.mark.full] if "check" in case[0] else [])
        for case in COMMANDS.items()
    ],
)
def test_kernels_are_kept_in_the_cache_and_not_beside_the_sources(command, file, ridgeline):
    ridgeline.write()
    done = ridgeline(*command)
    assert done.returncode == 0 or "validate" in command, done.stderr  # the machine may be slow, or busy
    assert not [*SOURCES.rglob("*.nb[ic]")], "files of Numba's own cache"
    assert [*kernel_folder().glob(f"{file}*.kernel")], done.stderr
