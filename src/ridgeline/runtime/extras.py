"""Optional packages: importing them, and the error where one of them is missing."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ridgeline.runtime.errors import ConfigError, full_stop

# The package of each module, and the arguments of pip that install it. `pyproject.toml` has the same extras.
_PACKAGES = {
    "numba_cuda": ("numba-cuda", '"numba-cuda[cu13]" "numpy<2.5"'),
    "cuda.bindings.driver": ("cuda-bindings", '"numba-cuda[cu13]" "numpy<2.5"'),
    "nvmath.bindings.cufft": ("nvmath-python", 'nvmath-python "cuda-toolkit[cufft]==13.*"'),
    "nvmath.bindings.cublas": ("nvmath-python", 'nvmath-python "cuda-toolkit[cublas]==13.*"'),
    "nccl.bindings.nccl": ("nccl4py", "nccl4py nvidia-nccl-cu13"),
    "pynvml": ("nvidia-ml-py", "nvidia-ml-py"),
    "adios2": ("adios2", "adios2"),
    "adios2.bindings": ("adios2", "adios2"),
    "pyfftw": ("pyfftw", "pyfftw"),
    "dask": ("dask", "dask"),
    "matplotlib": ("matplotlib", "matplotlib"),
    "PIL": ("pillow", "pillow"),
    "PIL.Image": ("pillow", "pillow"),
    "pyvista": ("pyvista", "pyvista"),
    "imageio_ffmpeg": ("imageio-ffmpeg", "imageio-ffmpeg"),
    "numba_mpi": ("numba-mpi", "numba-mpi"),
    "h5py": ("h5py", "h5py"),
    "h5netcdf": ("h5netcdf", "h5netcdf h5py"),
}


def how_to_install(module: str) -> str:
    """Return the command that installs the package of a module and its dependencies."""
    return f"pip install {_PACKAGES[module][1]}"


def how_to_install_ridgeline_extra(extra: str) -> str:
    """Return a sentence that says how to install an extra of Ridgeline, from where Ridgeline itself was installed.

    Ridgeline is on no package index, so the command names the checkout or the wheel. Where the installation does not
    record them (PEP 610), the sentence says in words what to install from.
    """
    source = _direct_url()
    url = str(source.get("url", ""))
    if url.startswith("file:") and url.endswith(".whl"):
        return f'Install the extra "{extra}" with: pip install "ridgeline[{extra}] @ {url}"'
    directory = source.get("dir_info")
    if url.startswith("file:") and isinstance(directory, dict):
        editable = "-e " if directory.get("editable") else ""
        folder = url2pathname(urlsplit(url).path)
        return f'Install the extra "{extra}" with: pip install {editable}"{folder}[{extra}]"'
    return f'Install the extra "{extra}" from the checkout or the wheel from which Ridgeline was installed.'


def _direct_url() -> dict[str, Any]:
    """Return what pip recorded of the source of this installation, {} if nothing."""
    try:
        record = json.loads(distribution("ridgeline").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def require_extra(module: str, user: str, instead: str = "", error: type[Exception] = ConfigError) -> None:
    """Raise an error unless the package of an optional module is installed. Imports nothing.

    user: what needs it, such as "--device cuda". instead: what to do without it. error: the class of the error.
    """
    if find_spec(module) is None:
        raise error(_absence(module, user, "is not installed", instead))


def import_extra(
    module: str, user: str, instead: str = "", error: type[Exception] = ConfigError, probe: str = ""
) -> Any:
    """Import an optional module; raise an error that says what needs it if it is missing or does not load.

    probe: a function of the module to call, to find out whether the library beneath it loads. The other arguments are
    those of `require_extra`.
    """
    try:
        imported = import_module(module)
        if probe:
            getattr(imported, probe)()
    except Exception as problem:  # an extension module may raise anything where a library is missing
        name = problem.name if isinstance(problem, ModuleNotFoundError) else None
        missing = name is not None and f"{module}.".startswith(f"{name}.")
        how = "is not installed" if missing else f"does not load ({problem})"
        raise error(_absence(module, user, how, instead)) from problem
    return imported


def _absence(module: str, user: str, how: str, instead: str) -> str:
    package, others = _PACKAGES[module][0], f", or {full_stop(instead)}" if instead else ""
    return (
        f"{user} needs the package {package}, which {how}. Install it with: {how_to_install(module)}{others}"
    )


def of_missing_module(error: ModuleNotFoundError) -> ConfigError | None:
    """Return the error for a module that was imported without asking, if its package is an optional one."""
    package = (error.name or "").partition(".")[0]
    return (
        ConfigError(_absence(package, "this command", "is not installed", ""))
        if package in _PACKAGES
        else None
    )
