"""The house rules that a machine can hold: import arrows, circles, names, who imports what, light start-up.

What they look at is worked out by house_rules.py; test_house_rules.py shows that each rule can be broken.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import house_rules
from house_rules import module_name, sources

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "ridgeline"
MAX_LINES = 420

# Arrows point from a tier to those below it. Packages of one tier do not import each other.
TIERS = (
    {"cli"},
    {"simulation", "study", "validate"},
    {"bench"},
    {"analysis"},
    {"models"},
    {"io"},
    {"blocks", "elements", "fourier", "particles"},
    {"krylov", "sparse"},
    {"parallel"},
    {"jit"},
    {"config"},
    {"runtime"},
)

# Who may import a library at run time; imports under `if TYPE_CHECKING:` are free.
ALLOWED_IMPORTERS = {
    "mpi4py": (
        "runtime/signals.py",
        "parallel/",
        "blocks/",
        "elements/",
        "fourier/",
        "particles/",
        "krylov/",
        "sparse/",
        "io/",
        "bench/",
    ),
    "adios2": ("io/adios2_bindings.py",),
    "nccl": ("fourier/device/nccl_cuda.py",),
    "nvmath": ("bench/hpl/device/blas_cuda.py", "fourier/device/fft_cuda.py"),
    "pyfftw": ("fourier/fft.py",),
    "matplotlib": ("analysis/",),
    "PIL": ("analysis/", "io/picture.py"),
    "pyvista": ("analysis/views.py",),
    "imageio_ffmpeg": ("analysis/movie.py",),
    "xarray": ("analysis/", "io/"),
    "typer": ("cli/",),
}
# Class names that every model gives its own: the parts of its anatomy.
OF_EVERY_MODEL = {
    "RunSection", "GridSection", "ModelSection", "InitialSection", "ForcingSection", "ScalarSection", "OutputSection",
    "CpuEngine", "CudaEngine", "Diagnostics", "ReferenceSolver",
}  # fmt: skip
# The files of every model; further ones are named after the part they belong to (kernels_cuda, initial_from_file).
ANATOMY = (
    "config", "estimate", "model", "engine_cpu", "kernels", "reference", "initial", "diagnostics", "outputs",
)  # fmt: skip
# Rooms whose modules serve two other rooms or more, or their own.
SHARED_ROOMS = ("jit", "parallel")
# Modules beside one that is shared: the same for another backend.
TWINS = {"jit.random_llvm": "jit.random", "jit.cuda_random": "jit.random"}
# Reading and writing arrays on disk is the business of io/ alone.
FILE_CALLS = {
    "fromfile",
    "tofile",
    "memmap",
    "savez",
    "savez_compressed",
    "open_dataset",
    "to_netcdf",
    "to_zarr",
}
HEAVY = (
    "adios2", "llvmlite", "matplotlib", "mpi4py", "nccl", "numba", "nvmath",
    "pandas", "pydantic", "pyfftw", "scipy", "xarray",
)  # fmt: skip


def test_every_package_has_a_tier() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= set().union(*TIERS), "give the new package a tier in TIERS"


def test_imports_follow_the_arrows() -> None:
    wrong = house_rules.wrong_arrows(PACKAGE, TIERS)
    assert not wrong, "\n".join(wrong)


def test_no_file_imports_itself_through_others() -> None:
    """Late imports and those for types count: a circle says that something lies in the wrong file."""
    assert house_rules.circles(PACKAGE) == []


def test_class_names_are_unique() -> None:
    found = house_rules.repeated_classes(PACKAGE, OF_EVERY_MODEL)
    assert not found, f"give each its field's term: {found}"


def test_shared_rooms_hold_what_two_callers_use() -> None:
    alone = house_rules.modules_of_one_room(PACKAGE, SHARED_ROOMS, TWINS)
    assert not alone, f"a module lives with its only caller: {alone}"
    gone = [name for pair in TWINS.items() for name in pair if not module_file(name).exists()]
    assert not gone, f"TWINS names modules that are not there: {gone}"


def module_file(module: str) -> Path:
    return PACKAGE.joinpath(*module.split(".")).with_suffix(".py")


def test_models_have_the_same_anatomy() -> None:
    lacking = house_rules.missing_parts(PACKAGE / "models", ANATOMY)
    assert not lacking, f"every model has {', '.join(ANATOMY)}: {lacking}"


def test_the_root_imports_packages_only_on_demand() -> None:
    eager = [
        f"{found.where}: {found.module}"
        for found in house_rules.imports_of(PACKAGE, PACKAGE / "__init__.py")
        if house_rules.room_of(PACKAGE, found.module)
        and not found.typing_only
        and not found.module.endswith("dataset")
    ]
    assert not eager, "\n".join(eager)


def test_models_do_not_import_each_other() -> None:
    wrong = house_rules.imports_between_models(PACKAGE)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("library", ALLOWED_IMPORTERS)
def test_library_is_imported_only_by(library: str) -> None:
    allowed = ALLOWED_IMPORTERS[library]
    wrong = house_rules.importers_beyond(PACKAGE, library, allowed)
    assert not wrong, f"{library} may be imported only in {', '.join(allowed)}, is in {wrong}"


def test_only_io_reads_and_writes_arrays_on_disk() -> None:
    wrong = []
    for path in sources(PACKAGE):
        if path.relative_to(PACKAGE).parts[0] == "io":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute):
                continue
            text = ast.unparse(node)
            if node.attr in FILE_CALLS or text in ("np.load", "np.save", "MPI.File"):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text}")
    assert not wrong, "\n".join(wrong)


def test_no_function_rebinds_a_module_variable() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: global {', '.join(node.names)}"
        for path in sources(PACKAGE)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Global)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_file_is_too_long() -> None:
    folders = ("src", "tests", "benchmarks", "docs", "examples")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    long = house_rules.long_files(files, MAX_LINES)
    assert not long, f"more than {MAX_LINES} lines, split by subject: {long}"


def test_test_modules_have_unique_names() -> None:
    """Pytest imports test files by their bare names: two of one name hide each other.

    Those of tests/ranks run under MPI and meet only one another.
    """
    seen: dict[str, list[str]] = {}
    for path in {*(ROOT / "tests").rglob("test_*.py")} - {*(ROOT / "tests" / "ranks").glob("*.py")}:
        seen.setdefault(path.name, []).append(str(path.relative_to(ROOT)))
    packaged = {p.parent for p in (ROOT / "tests").rglob("__init__.py")}
    clashes = [
        paths
        for paths in seen.values()
        if len(paths) > 1 and not all((ROOT / p).parent in packaged for p in paths)
    ]
    assert not clashes, clashes


def imported_heavy_modules(statements: str) -> list[str]:
    """Run `statements` in a fresh interpreter and return which heavy libraries it then holds."""
    code = f"{statements}\nimport sys\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_importing_packages_is_light() -> None:
    packages = {module_name(PACKAGE, path) for path in sorted(PACKAGE.rglob("__init__.py"))}
    heavy = imported_heavy_modules("\n".join(f"import {name}" for name in packages))
    assert heavy == [], f"an __init__.py imports {heavy}"


def test_help_path_is_light() -> None:
    """Every command module is imported for --help, which must not wait for MPI, Numba or the schemas."""
    commands = [module_name(PACKAGE, path) for path in sorted((PACKAGE / "cli").rglob("*.py"))]
    heavy = imported_heavy_modules("\n".join(f"import {name}" for name in commands))
    assert heavy == [], f"importing {', '.join(commands)} imports {heavy}"
