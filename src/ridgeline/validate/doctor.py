"""What this installation has: `ridgeline doctor`."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from rich.table import Table

from ridgeline.parallel.job import prepare_rank
from ridgeline.runtime.console import plain_console
from ridgeline.runtime.environment import check_limits
from ridgeline.runtime.errors import LauncherError, RidgelineError
from ridgeline.runtime.extras import how_to_install_ridgeline_extra
from ridgeline.runtime.launcher import detect_launch
from ridgeline.runtime.machine import cache_sizes, describe_machine
from ridgeline.runtime.mpiexec import find_mpiexec, mpiexec_environment


@dataclass(frozen=True)
class Finding:
    """One line of the examination. `optional` things may be absent; `missing` ones stop a run."""

    name: str
    status: Literal["ok", "optional", "missing"]
    found: str
    fix: str = ""


def examine() -> list[Finding]:
    """Look at everything that a run may use. Starts a two-rank MPI job to see whether the launcher fits.

    Raises RidgelineError where limits of this process keep MPI from starting at all.
    """
    check_limits()
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("Python", _python),
        ("cores", _cores),
        ("MPI", _mpi),
        ("mpiexec", _mpiexec),
        ("ADIOS2", _adios2),
        ("FFTW", _fftw),
        ("BLAS", _blas),
        ("Numba", _numba),
        ("GPU", _gpu),
    ]
    findings = []
    for name, check in checks:
        try:
            findings.append(check())
        except Exception as error:
            findings.append(
                Finding(name, "missing", f"{type(error).__name__}: {error}", "reinstall ridgeline")
            )
    return findings


def _python() -> Finding:
    return Finding("Python", "ok", f"{platform.python_version()} in {sys.prefix}")


def _cores() -> Finding:
    machine = describe_machine()
    caches = ", ".join(f"L{level} {size // 1024} KiB" for level, size in sorted(cache_sizes().items()))
    return Finding(
        "cores",
        "ok",
        f"{machine.cores} of {machine.cpu}; {caches}; {machine.memory / 2**30:.1f} GiB of memory",
    )


def _mpi() -> Finding:
    try:
        from ridgeline.parallel.communicator import mpi_versions
    except (ImportError, RuntimeError) as error:
        return Finding(
            "MPI",
            "missing",
            f"mpi4py does not load: {error}",
            "load your site's MPI module, or install an MPI library: pip install mpich",
        )
    versions = mpi_versions()
    return Finding("MPI", "ok", f"{versions['mpi_library']} through mpi4py {versions['mpi4py']}")


def _mpiexec() -> Finding:
    launch = detect_launch()
    try:
        if launch is not None:
            from ridgeline.parallel.communicator import check_world

            check_world()
            return Finding("mpiexec", "ok", f"inside a job of {launch.size} ranks by {launch.launcher}")
        command = find_mpiexec()
    except LauncherError as error:
        wrong, _, fix = str(error).rpartition("; ")
        return Finding("mpiexec", "missing", wrong, fix)
    program = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
    done = subprocess.run(
        [*command, "-n", "2", sys.executable, "-c", program],
        env=mpiexec_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    name, said = shlex.join(command), " ".join((done.stderr + done.stdout).split())
    # Two ranks write at once: their digits may meet before their line ends.
    if done.returncode == 0 and "".join(done.stdout.split()) == "22":
        return Finding("mpiexec", "ok", f"{name}; two ranks see each other")
    if "allow-run-as-root" in said:
        return Finding(
            "mpiexec",
            "missing",
            f"{name} refuses to start ranks for root",
            f"start as another user, or export RIDGELINE_MPIEXEC='{name} --allow-run-as-root'",
        )
    if done.returncode == 0:
        return Finding(
            "mpiexec",
            "missing",
            f"{name} does not fit the MPI library: two ranks do not see each other, but print {said[:200]}",
            "set RIDGELINE_MPIEXEC to the launcher of the library that mpi4py uses",
        )
    return Finding(
        "mpiexec",
        "missing",
        f"{name} could not start two ranks (exit code {done.returncode}): {said[:500]}",
        "follow what it says, or set RIDGELINE_MPIEXEC to another launcher of the library that mpi4py uses",
    )


def _adios2() -> Finding:
    from ridgeline.io.adios2_bindings import adios2_facts

    facts = adios2_facts()
    kind = "all ranks write together" if facts.with_mpi else "built without MPI: rank 0 writes for all"
    return Finding(
        "ADIOS2",
        "ok",
        f"{facts.version}, {kind}; compression: {', '.join(facts.compressions)}",
        "" if facts.with_mpi else "make adios2-mpi builds it with MPI, for faster output on many nodes",
    )


def _fftw() -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Finding("FFTW", "ok", f"pyfftw {version('pyfftw')}")
    except PackageNotFoundError:
        return Finding(
            "FFTW", "optional", "pyfftw is not installed: scipy.fft transforms, slower", "pip install pyfftw"
        )


def _blas() -> Finding:
    """Name SciPy's BLAS, which HPL calls, and the others of this process: each has threads of its own."""
    from ridgeline.runtime.blas import blas_libraries

    first, *others = map(str, blas_libraries())
    beside = f"; beside it, of NumPy or others: {', '.join(others)}" if others else ""
    chosen = os.environ.get("OPENBLAS_CORETYPE")
    advice = (
        f"OPENBLAS_CORETYPE={chosen} chooses the kernels; OpenBLAS takes the processor's if it is not set"
    )
    return Finding("BLAS", "ok", f"{first}{beside}", advice if chosen else "")


def _numba() -> Finding:
    path = prepare_rank()
    import numba

    from ridgeline.jit.llvm import host_vector_bytes

    return Finding(
        "Numba",
        "ok",
        f"{numba.__version__}, vectors of {8 * host_vector_bytes()} bits, kernels kept in {path}",
    )


def _gpu() -> Finding:
    from ridgeline.runtime.devices import describe_devices

    try:
        devices = describe_devices()
    except RidgelineError as error:
        if find_spec("numba_cuda") is None:
            wrong = "numba-cuda, which --device cuda needs, is not installed"
            return Finding("GPU", "optional", wrong, how_to_install_ridgeline_extra("cuda"))
        return Finding("GPU", "optional", "none usable", str(error))
    if not devices:
        return Finding("GPU", "optional", "none found", "only needed for --device cuda (see docs/gpu.md)")
    from ridgeline.parallel.devices import mpi_takes_device_buffers

    found = "; ".join(str(device) for device in devices)
    if mpi_takes_device_buffers():
        return Finding("GPU", "ok", f"{found}; MPI takes messages from GPU memory")
    return Finding(
        "GPU",
        "ok",
        f"{found}; MPI does not take messages from GPU memory, so that they go through pinned host memory",
        "on several GPUs use a GPU-aware MPI of your site (see docs/gpu.md)",
    )


def print_findings(findings: list[Finding]) -> None:
    """Print the findings for people."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    words = {"ok": "ok", "optional": "absent", "missing": "MISSING"}
    for finding in findings:
        table.add_row(finding.name, words[finding.status], finding.found)
        if finding.fix:
            table.add_row("", "", f"-> {finding.fix}")
    plain_console().print(table)
