"""Build ADIOS2 with MPI and Python, and install it into this environment: `make adios2-mpi`.

The `adios2` wheel on PyPI is built without MPI. This builds the same version from its source distribution
against the MPI of this environment, packs the result as a wheel, keeps the wheel in the user's cache, and
installs it with pip, which replaces the plain wheel cleanly. `--restore` brings the plain wheel back.
A later run with the same Python, MPI and version installs from the cache in seconds.

    python tools/build_adios2_mpi.py [--restore] [--rebuild] [--optional] [--jobs N]

Environment: MPICC and MPICXX name other compiler wrappers (on a Cray: MPICC=cc MPICXX=CC);
RIDGELINE_CACHE_DIR or XDG_CACHE_HOME moves the cache; pip's own settings (PIP_*) hold for all that is fetched.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

from ridgeline.runtime.user_cache import private_folder

ROOT = Path(__file__).resolve().parents[1]
RECIPE = 1  # part of the key of the cache: raise it when what is built changes
# The last c-blosc2 that ADIOS2 2.12 compiles with; the wheel is taken apart for its headers and library.
BLOSC2 = "blosc2==3.10.2"
OFF = (
    "PIP", "Fortran", "SST", "BZip2", "Campaign", "CURL", "OpenSSL", "HDF5", "HDF5_VOL", "ZeroMQ", "DataMan", "MHS",
    "Sodium", "UCX", "ZFP", "PNG", "SZ", "SZ3", "MGARD", "LIBPRESSIO", "BigWhoop", "PRODM", "XRootD",
    "Catalyst", "DAOS", "DataSpaces", "IME", "Derived_Variable", "AWSSDK", "Kokkos", "CUDA",
)  # fmt: skip


class Impossible(Exception):
    """It cannot be done here; the message says why and what to do, in one sentence."""


def say(text: str) -> None:
    """Print a line at once, also into a file or a pipe."""
    print(f"adios2-mpi: {text}", flush=True)


def run(command: list[str], what: str, log: Path | None = None, **more: object) -> str:
    """Run a command and return its output; if it fails, raise Impossible with the end of its output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)  # type: ignore[call-overload]
    if log:
        log.write_text(done.stdout)
    if done.returncode:
        kept = f"; the whole log is {log}" if log else ""
        raise Impossible(f"{what} failed{kept}:\n" + "\n".join(done.stdout.splitlines()[-15:]))
    return str(done.stdout)


def pip(*arguments: str) -> None:
    """Run pip of this environment, quietly."""
    command = [sys.executable, "-m", "pip", arguments[0], "-q", "--disable-pip-version-check", *arguments[1:]]
    run(command, f"pip {' '.join(arguments[:3])} ...")


def python(code: str) -> str:
    """Run code in a fresh interpreter of this environment and return what it prints."""
    return run([sys.executable, "-c", code], "asking the environment").strip()


def facts() -> dict[str, str]:
    """Return what the build depends on: versions of ADIOS2, Python and MPI, and the compiler wrappers."""
    code = """
import importlib.metadata as m, json, numpy
from mpi4py import MPI
try: version = m.version("adios2")
except m.PackageNotFoundError: version = ""
print(json.dumps({"installed": version, "mpi": MPI.Get_library_version().strip(), "numpy": numpy.__version__}))
"""
    try:
        found: dict[str, str] = json.loads(python(code).splitlines()[-1])
    except Impossible as error:
        raise Impossible(
            f"numpy and mpi4py must be installed and find an MPI library first: {error}"
        ) from error
    found["version"] = found["installed"].partition("+")[0]
    found["soabi"] = sysconfig.get_config_var("SOABI")
    found["machine"] = "-".join([platform.machine(), *platform.libc_ver()])
    found["mpicc"], found["mpicxx"] = wrapper("MPICC", "mpicc"), wrapper("MPICXX", "mpicxx")
    return found


def wrapper(variable: str, name: str) -> str:
    """Return the path of MPI's compiler wrapper: named by a variable, of this environment, or on PATH."""
    named = os.environ.get(variable)
    here = Path(sys.prefix) / "bin" / name
    found = shutil.which(named) if named else str(here) if here.exists() else shutil.which(name)
    if not found:
        raise Impossible(f"found no MPI compiler wrapper {named or name}; set {variable} to its path")
    return found


def key_of(found: dict[str, str]) -> str:
    """Return the local part of the wheel's version: it names everything that the result depends on."""
    parts = [str(RECIPE), found["version"], found["soabi"], found["machine"], found["mpi"]]
    if not inside_environment(found["mpicxx"]):
        parts.append(found["mpicxx"])  # its libraries are found by absolute path
    return "mpi." + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]


def inside_environment(wrapper_path: str) -> bool:
    """Say whether the MPI came with this environment, so that its place is known relative to adios2's."""
    return Path(wrapper_path).is_relative_to(sys.prefix)


def check_tools(found: dict[str, str]) -> None:
    """Raise Impossible if there is no C++ compiler behind the wrappers, or Python's headers are missing."""
    for name in ("mpicc", "mpicxx"):
        shown = (
            run([found[name], "-show"], f"{found[name]} -show").split()
            if inside_environment(found[name])
            else []
        )
        if shown and not shutil.which(shown[0]):
            raise Impossible(
                f"there is no compiler `{shown[0]}` here, so ADIOS2 cannot be built with MPI; install one "
                f"(Debian, Ubuntu: apt install build-essential python3-dev) or keep the plain wheel, which works"
            )
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise Impossible(
            f"Python's headers are not in {sysconfig.get_path('include')}, so ADIOS2's bindings cannot be built; "
            f"install them (Debian, Ubuntu: apt install python3-dev) or keep the plain wheel, which works"
        )


def install_build_tools() -> None:
    """Install the extra `adios2-mpi-build` of pyproject.toml: cmake, ninja, wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = ROOT / "requirements-ci.txt"
    pip(
        "install",
        *project["optional-dependencies"]["adios2-mpi-build"],
        *(["-c", str(lock)] if lock.exists() else []),
    )


def fetch_source(version: str, folder: Path) -> Path:
    """Download and unpack the source distribution of adios2 and return its folder."""
    wanted = f"adios2=={version}" if version else "adios2"
    pip("download", "--no-deps", "--no-binary", "adios2", "-d", str(folder), wanted)
    (archive,) = folder.glob("adios2-*.tar.gz")
    unpack(archive, folder)
    return folder / archive.name.removesuffix(".tar.gz")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive of plain files and folders; raise Impossible, with nothing written, if it holds more.

    The check is ours because Python before 3.11.4, which Debian 12 has, knows no filter for extraction.
    """
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            inside = (folder / member.name).resolve().is_relative_to(folder.resolve())
            if not inside or not (member.isfile() or member.isdir()):
                raise Impossible(
                    f"{archive.name} holds {member.name}, which is no plain file or folder below its own; "
                    f"it is not unpacked: download it again, and look at it if that does not help"
                )
        tar.extraction_filter = getattr(
            tarfile, "data_filter", None
        )  # Python 3.12 and 3.13 warn where none is set
        tar.extractall(folder)


def fetch_blosc2(folder: Path) -> Path | None:
    """Unpack the C library in blosc2's wheel; return the folder of its CMake package, None if there is none."""
    try:
        pip(
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--python-version",
            "3.12",
            "-d",
            str(folder),
            BLOSC2,
        )
    except Impossible:
        return None  # no wheel for this platform: built without the operator
    with zipfile.ZipFile(next(folder.glob("blosc2-*.whl"))) as archive:
        archive.extractall(folder)
    return next((config.parent for config in folder.rglob("Blosc2Config.cmake")), None)


def compile_adios2(found: dict[str, str], source: Path, build: Path, jobs: int, logs: Path) -> Path:
    """Configure and compile; return the package of the compiled bindings."""
    blosc2 = fetch_blosc2(build.with_name("blosc2"))
    # Libraries lie in adios2/lib, bindings in adios2/bindings, MPI perhaps in the environment's lib. A path
    # relative to the file works in any environment that the wheel is installed into; an absolute one would
    # make a second environment load the MPI library of the first.
    rpath = ["$ORIGIN", "$ORIGIN/../lib"]
    if inside_environment(found["mpicxx"]):
        rpath.append(
            "$ORIGIN/"
            + os.path.relpath(Path(sys.prefix, "lib"), Path(sysconfig.get_path("platlib"), "adios2", "lib"))
        )
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_CXX_FLAGS_RELEASE": "-O2 -DNDEBUG",
        "CMAKE_C_FLAGS_RELEASE": "-O2 -DNDEBUG",
        "CMAKE_BUILD_WITH_INSTALL_RPATH": "ON",
        "CMAKE_INSTALL_RPATH": ";".join(rpath),
        "CMAKE_SHARED_LINKER_FLAGS": "-s",
        "CMAKE_MODULE_LINKER_FLAGS": "-s",
        "Python_EXECUTABLE": sys.executable,
        "MPI_C_COMPILER": found["mpicc"],
        "MPI_CXX_COMPILER": found["mpicxx"],
        "ADIOS2_USE_MPI": "ON",
        "ADIOS2_USE_Python": "ON",
        "ADIOS2_USE_Blosc2": "ON" if blosc2 else "OFF",
        "ADIOS2_Blosc2_PREFER_SHARED": "OFF",
        "ADIOS2_INSTALL_GENERATE_CONFIG": "OFF",
        "ADIOS2_RUN_INSTALL_TEST": "OFF",
        "EVPATH_TRANSPORT_MODULES": "OFF",
        "BUILD_TESTING": "OFF",
    } | {f"ADIOS2_USE_{name}": "OFF" for name in OFF}
    if blosc2:
        options["Blosc2_DIR"] = str(blosc2)
    if inside_environment(found["mpicxx"]):
        # The wrapper would put its own absolute path into the libraries, ahead of ours.
        options |= {f"MPI_{language}_LINK_FLAGS": "-Wl,--enable-new-dtags" for language in ("C", "CXX")}
    tools = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }
    defines = [f"-D{name}={value}" for name, value in options.items()]
    run(["cmake", "-G", "Ninja", "-S", str(source), "-B", str(build), *defines],
        "configuring ADIOS2", logs / "configure.log", env=tools)  # fmt: skip
    command = ["cmake", "--build", str(build), "--target", "adios2_py", "--parallel", str(jobs)]
    run(command, "compiling ADIOS2", logs / "compile.log", env=tools)
    return next(build.rglob("adios2_bindings*.so")).parent


def pack(found: dict[str, str], source: Path, build: Path, compiled: Path, folder: Path) -> Path:
    """Lay out the package, libraries included, and pack it as a wheel; return the wheel."""
    tree = build.with_name("wheel")
    shutil.copytree(source / "python" / "adios2", tree / "adios2")
    shutil.copytree(compiled, tree / "adios2" / "bindings")
    libraries = tree / "adios2" / "lib"
    libraries.mkdir()
    for library in (build / "lib").glob("lib*.so.*"):
        if re.search(r"\.so\.\d+\.\d+$", library.name):  # the name that the loader asks for
            shutil.copy(library, libraries / library.name)
    version = f"{found['version']}+{key_of(found)}"
    info = tree / f"adios2-{version}.dist-info"
    (info / "licenses").mkdir(parents=True)
    for name in ("LICENSE", "Copyright.txt"):
        shutil.copy(source / name, info / "licenses" / name)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: adios2\nVersion: {version}\n"
        f"Summary: ADIOS2 with MPI, built against {' '.join(found['mpi'].splitlines()[0].split())}\n"
        f"License: Apache-2.0\nRequires-Dist: numpy>=1.22\nRequires-Dist: mpi4py\n"
    )
    abi = f"cp{sys.version_info.major}{sys.version_info.minor}"
    if "t-" in found["soabi"]:
        abi += "t"
    (info / "WHEEL").write_text(
        f"Wheel-Version: 1.0\nGenerator: ridgeline-adios2-mpi\nRoot-Is-Purelib: false\n"
        f"Tag: {abi.rstrip('t')}-{abi}-linux_{platform.machine()}\n"
    )
    run([sys.executable, "-m", "wheel", "pack", str(tree), "-d", str(folder)], "packing the wheel")
    return next(folder.glob("adios2-*.whl"))


def build_wheel(found: dict[str, str], kept: Path, jobs: int) -> Path:
    """Build ADIOS2 with MPI and put its wheel into the cache."""
    check_tools(found)
    begin = time.monotonic()
    say(f"building ADIOS2 {found['version'] or '(newest)'} with {jobs} jobs: some minutes, once")
    install_build_tools()
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="adios2-mpi-") as scratch:
        work = Path(scratch)
        for name in ("source", "blosc2", "build", "out"):
            (work / name).mkdir()
        source = fetch_source(found["version"], work / "source")
        found["version"] = found["version"] or source.name.removeprefix("adios2-")
        compiled = compile_adios2(found, source, work / "build", jobs, kept)
        wheel = pack(found, source, work / "build", compiled, work / "out")
        arriving = kept / (wheel.name + ".part")
        shutil.copy(wheel, arriving)
        final = arriving.rename(kept / wheel.name)
    say(f"built in {time.monotonic() - begin:.0f} s; kept as {final}")
    return final


def works() -> str:
    """Return what the installed adios2 says of itself after a collective start, in a fresh process."""
    return python(
        "from mpi4py import MPI; import adios2\n"
        "assert adios2.is_built_with_mpi\n"
        "adios = adios2.Adios(comm=MPI.COMM_SELF)\n"
        "try: adios.define_operator('blosc', 'blosc'); blosc = 'with'\n"
        "except ValueError: blosc = 'without'\n"
        "print(adios2.__version__, 'with', *MPI.Get_library_version().split(chr(10))[0].split(), blosc, 'Blosc2')"
    ).splitlines()[-1]


def install(rebuild: bool, jobs: int) -> None:
    """Install ADIOS2 with MPI, from the cache if it is there."""
    found = facts()
    kept = private_folder("adios2-mpi") / f"{found['version'] or 'newest'}-{found['soabi']}-{key_of(found)}"
    if found["installed"].endswith("+" + key_of(found)) and not rebuild:
        say(f"already installed: {works()}")
        return
    wheels = list(kept.glob("adios2-*.whl"))
    wheel = wheels[0] if wheels and not rebuild else build_wheel(found, kept, jobs)
    pip("install", "--no-index", "--no-deps", "--force-reinstall", str(wheel))
    try:
        say(f"installed: {works()}")
    except Impossible as error:
        wheel.unlink()
        restore()
        raise Impossible(
            f"the ADIOS2 that was built does not work here, the plain wheel is back: {error}"
        ) from error


def restore() -> None:
    """Install the plain wheel of the same version."""
    version = python("import importlib.metadata as m; print(m.version('adios2'))").partition("+")[0]
    pip("install", "--no-deps", "--force-reinstall", "--only-binary", "adios2", f"adios2=={version}")
    say(f"the plain wheel {version}, without MPI, is installed")


def main() -> int:
    """Parse the command line and do it; 0 if it is done (or need not be), 1 if it cannot be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--restore", action="store_true", help="install the plain wheel again")
    parser.add_argument("--rebuild", action="store_true", help="build even if it is in the cache")
    parser.add_argument("--optional", action="store_true", help="exit with 0 also where it cannot be built")
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compile jobs (default: cores)"
    )
    arguments = parser.parse_args()
    try:
        if arguments.restore:
            restore()
        else:
            install(arguments.rebuild, arguments.jobs)
    except Impossible as error:
        print(f"adios2-mpi: {error}", file=sys.stderr)
        return 0 if arguments.optional else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
