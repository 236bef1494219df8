"""What this installation has: `ridgeline doctor`.

`examine` looks, `print_findings` shows the findings to people, and `findings_to_dict` gives them to programs.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from ridgeline import models
from ridgeline.bench.benchmark import declarations, families
from ridgeline.config.store_format import preferred_format
from ridgeline.parallel.job import prepare_rank
from ridgeline.runtime.console import plain_console
from ridgeline.runtime.environment import check_limits
from ridgeline.runtime.errors import LauncherError, RidgelineError
from ridgeline.runtime.extras import how_to_install_ridgeline_extra
from ridgeline.runtime.launcher import detect_launch
from ridgeline.runtime.machine import cache_sizes, describe_machine
from ridgeline.runtime.mpi_import import why_no_library
from ridgeline.runtime.mpiexec import find_mpiexec, mpiexec_environment
from ridgeline.runtime.plugins import BENCHMARKS, MODELS, RECORDERS, entries, load_entry, owner_of, plugins
from ridgeline.runtime.units import counted
from ridgeline.version import VERSION

SCHEMA = 1  # of `findings_to_dict`; raised when a key changes its meaning or goes


@dataclass(frozen=True)
class Finding:
    """What was found of one thing that a run may use.

    Parameters
    ----------
    name : the thing, such as "MPI"
    status : "ok"; "optional" for a thing that is absent and may be; "missing" for one without which runs fail
    text : what was found, or what is wrong
    advice : what to do about it, "" if there is nothing to do
    """

    name: str
    status: Literal["ok", "optional", "missing"]
    text: str
    advice: str = ""


def examine() -> list[Finding]:
    """Examine everything that a run may use, and start an MPI job of two ranks to test the launcher.

    Returns
    -------
    one finding for each of Python, cores, MPI, mpiexec, store, ADIOS2, FFTW, BLAS, Numba, GPU and the packages that
    add models, benchmarks and recorders, in this order

    Raises
    ------
    RidgelineError
        If limits of this process prevent MPI from starting at all.
    """
    check_limits()
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("Python", _python),
        ("cores", _cores),
        ("MPI", _mpi),
        ("mpiexec", _mpiexec),
        ("store", _store),
        ("ADIOS2", _adios2),
        ("FFTW", _fftw),
        ("BLAS", _blas),
        ("Numba", _numba),
        ("GPU", _gpu),
        ("packages", _packages),
    ]
    findings = []
    for name, check in checks:
        try:
            findings.append(check())
        except Exception as error:
            findings.append(
                Finding(name, "missing", f"{type(error).__name__}: {error}", "Reinstall Ridgeline.")
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
    from ridgeline.parallel.communicator import mpi_versions

    versions = mpi_versions()
    if reason := why_no_library():
        return Finding(
            "MPI",
            "optional",
            f"mpi4py {versions['mpi4py']} finds no MPI library ({reason}), so runs have one rank",
            "Load your site's MPI module, or install an MPI library with: pip install mpich",
        )
    library = f"{versions['mpi_library']} through mpi4py {versions['mpi4py']}"
    return Finding("MPI", "ok", f"{library}{_where_mpi_is()}")


def _where_mpi_is() -> str:
    """Return which file the MPI library of this process is, and why mpi4py took it; "" if nothing tells."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return ""
    files = [
        line.split(maxsplit=5)[-1] for line in maps.splitlines() if re.search(r"/lib\w*mpi\w*\.so", line)
    ]
    if not files:
        return ""
    if os.environ.get("MPI4PY_LIBMPI"):
        why = "named by MPI4PY_LIBMPI"
    elif Path(files[0]).is_relative_to(sys.prefix):
        why = "a wheel in this environment"
    else:
        why = "found by the system's loader"
    return f", {files[0]} ({why})"


def _mpiexec() -> Finding:
    launch = detect_launch()
    try:
        if launch is not None:
            from ridgeline.parallel.communicator import check_world

            check_world()
            return Finding(
                "mpiexec", "ok", f"this is a job of {launch.size} ranks started by {launch.launcher}"
            )
        command = find_mpiexec()
    except LauncherError as error:
        status: Literal["optional", "missing"] = "optional" if why_no_library() else "missing"
        return Finding("mpiexec", status, *_problem_and_advice(str(error)))
    if why_no_library():
        return Finding("mpiexec", "optional", "without an MPI library no ranks can be started")
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
        return Finding("mpiexec", "ok", f"{name} starts two ranks that see each other")
    if "allow-run-as-root" in said:
        return Finding(
            "mpiexec",
            "missing",
            f"{name} refuses to start ranks for root.",
            f"Run as another user, or export RIDGELINE_MPIEXEC='{name} --allow-run-as-root'.",
        )
    if done.returncode == 0:
        return Finding(
            "mpiexec",
            "missing",
            f"{name} does not match the MPI library: two ranks do not see each other. They printed: {said[:200]}",
            "Set RIDGELINE_MPIEXEC to the launcher of the MPI library that mpi4py uses.",
        )
    return Finding(
        "mpiexec",
        "missing",
        f"{name} could not start two ranks (exit code {done.returncode}): {said[:500]}",
        "Follow its message, or set RIDGELINE_MPIEXEC to another launcher of the MPI library that mpi4py uses.",
    )


def _problem_and_advice(message: str) -> tuple[str, str]:
    """Return what is wrong and what to do, from the sentences of an error, of which the last is the advice."""
    *problem, advice = re.split(r"(?<=[.;]) +(?=\S)", message)
    if not problem:
        return message, ""
    return " ".join(problem).rstrip(";"), advice[0].upper() + advice[1:]


def _store() -> Finding:
    """Name the store of data sets whose path does not choose one."""
    zarr = f"Zarr {version('zarr')}"
    if preferred_format() == "bp5":
        text = f"BP5, because adios2 is installed; paths that end in .zarr take {zarr}"
        return Finding("store", "ok", f"data sets are stored as {text}")
    return Finding("store", "ok", f"data sets are stored as {zarr}, because adios2 is not installed")


def _adios2() -> Finding:
    from ridgeline.io.adios2_bindings import adios2_facts

    if find_spec("adios2") is None:
        wrong = "adios2, which data sets in BP5 need, is not installed"
        return Finding("ADIOS2", "optional", wrong, how_to_install_ridgeline_extra("bp5"))
    facts = adios2_facts()
    kind = (
        "all ranks write in parallel"
        if facts.with_mpi
        else "built without MPI, so rank 0 writes for all ranks"
    )
    return Finding(
        "ADIOS2",
        "ok",
        f"{facts.version}, {kind}; compression: {', '.join(facts.compressions)}",
        "" if facts.with_mpi else "Install an ADIOS2 that is built with MPI for faster output on many nodes.",
    )


def _fftw() -> Finding:
    try:
        return Finding("FFTW", "ok", f"pyfftw {version('pyfftw')}")
    except PackageNotFoundError:
        return Finding(
            "FFTW",
            "optional",
            "pyfftw is not installed, so scipy.fft computes the transforms, more slowly",
            how_to_install_ridgeline_extra("fftw"),
        )


def _blas() -> Finding:
    """Name SciPy's BLAS, which HPL calls, and the others of this process: each has separate threads."""
    from ridgeline.runtime.blas import blas_libraries

    first, *others = map(str, blas_libraries())
    beside = f"; other packages, such as NumPy, use {', '.join(others)}" if others else ""
    chosen = os.environ.get("OPENBLAS_CORETYPE")
    advice = (
        f"OPENBLAS_CORETYPE={chosen} selects the kernels. Unset it to let OpenBLAS choose for this processor."
    )
    return Finding("BLAS", "ok", f"{first}{beside}", advice if chosen else "")


def _numba() -> Finding:
    path = prepare_rank()
    import numba

    from ridgeline.jit.kernel_folders import SHARED_VARIABLE, SUFFIX, shared_folder
    from ridgeline.jit.llvm import host_vector_bytes

    text = f"{numba.__version__}, vectors of {8 * host_vector_bytes()} bits, compiled kernels are cached in {path}"
    advice = ""
    shared, why = shared_folder()
    if not why:
        text += f"; {counted(sum(1 for _ in shared.glob(f'*{SUFFIX}')), 'shared kernel')} in {shared}"
    elif shared.exists() or os.environ.get(SHARED_VARIABLE):
        text += f"; those in {shared} are not used: {why}"
        advice = "Let root own the folder and all above it, and let nobody else write there."
    return Finding("Numba", "ok", text, advice)


def _gpu() -> Finding:
    from ridgeline.runtime.devices import describe_devices

    try:
        devices = describe_devices()
    except RidgelineError as error:
        if find_spec("numba_cuda") is None:
            wrong = "numba-cuda, which --device cuda needs, is not installed"
            return Finding("GPU", "optional", wrong, how_to_install_ridgeline_extra("cuda"))
        return Finding("GPU", "optional", *_problem_and_advice(str(error)))
    if not devices:
        return Finding("GPU", "optional", "none found", "A GPU is needed only for --device cuda.")
    from ridgeline.parallel.devices import mpi_takes_device_buffers

    found = "; ".join(str(device) for device in devices)
    if mpi_takes_device_buffers():
        return Finding("GPU", "ok", f"{found}; the MPI library sends messages directly from GPU memory")
    return Finding(
        "GPU",
        "ok",
        f"{found}; the MPI library cannot send from GPU memory, so messages go through pinned host memory",
        "To run on several GPUs, use a GPU-aware MPI library of your site.",
    )


def _packages() -> Finding:
    """Name the packages that add models, benchmarks and recorders, and import each of these."""
    parts: dict[str, list[str]] = {}
    broken: list[str] = []
    for package, what, load in _parts_of_packages():
        try:
            load()
        except RidgelineError as error:
            broken.append(str(error))
            what += " (fails)"
        parts.setdefault(package, []).append(what)
    if not parts:
        return Finding("packages", "optional", "none is installed that adds models, benchmarks or recorders")
    text = "; ".join(f"{package}: {', '.join(each)}" for package, each in parts.items())
    return Finding("packages", "optional" if broken else "ok", text, " ".join(broken))


def _parts_of_packages() -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Yield the package, the kind and name, and the import of all that installed packages add."""
    for folder in plugins(MODELS):
        for name in sorted(path.parent.name for path in folder.folder.glob("*/settings.py")):
            yield folder.package, f"model {name}", partial(models.create, name)
    for folder in plugins(BENCHMARKS):
        for name in families():
            if (folder.folder / name).is_dir():
                yield folder.package, f"benchmarks {name}", partial(declarations, name)
    for name, entry in sorted(entries(RECORDERS).items()):
        yield owner_of(entry), f"recorder {name}", partial(load_entry, entry, f"the recorder {name}")


def findings_to_dict(findings: list[Finding]) -> dict[str, Any]:
    """Return the findings for JSON, as `ridgeline doctor --json` prints them and as a report of a problem needs them.

    Parameters
    ----------
    findings : of `examine`

    Returns
    -------
    a dictionary of JSON's types with these keys; later versions may add keys, and `schema` grows if one changes

        schema     1
        ridgeline  version of Ridgeline, such as "1.2.0"
        python     version of Python, such as "3.11.7"
        platform   operating system, kernel and processor family, such as "Linux-6.1.0-x86_64-with-glibc2.36"
        findings   a list with a dictionary for each finding, in the order of `examine`:
            name     the thing: "Python", "cores", "MPI", "mpiexec", "store", "ADIOS2", "FFTW", "BLAS",
                     "Numba", "GPU" or "packages"
            status   "ok"; "optional" if it is absent and may be; "missing" if runs fail without it
            text     what was found, or what is wrong
            advice   what to do about it, "" if there is nothing to do
    """
    return {
        "schema": SCHEMA,
        "ridgeline": VERSION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "findings": [asdict(finding) for finding in findings],
    }


def print_findings(findings: list[Finding]) -> None:
    """Print the findings for people."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    words = {"ok": "ok", "optional": "optional", "missing": "MISSING"}
    for finding in findings:
        table.add_row(finding.name, words[finding.status], finding.text)
        if finding.advice:
            table.add_row("", "", f"-> {finding.advice}")
    plain_console().print(table)
