"""The house rules that a machine can hold: import arrows, who imports what, file length, light start-up."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "ridgeline"
MAX_LINES = 420

# Arrows point from a tier to those below it. Packages of one tier do not import each other.
TIERS = (
    {"cli"},
    {"simulation", "validate"},
    {"bench"},
    {"analysis"},
    {"models"},
    {"io"},
    {"blocks", "elements", "fourier"},
    {"krylov", "sparse"},
    {"parallel"},
    {"jit"},
    {"config"},
    {"runtime"},
)
TIER_OF = {package: tier for tier, packages in enumerate(TIERS) for package in packages}

# Who may import a library at run time; imports under `if TYPE_CHECKING:` are free.
ALLOWED_IMPORTERS = {
    "mpi4py": (
        "runtime/signals.py",
        "parallel/",
        "blocks/",
        "elements/",
        "fourier/",
        "krylov/",
        "sparse/",
        "io/",
        "bench/",
    ),
    "adios2": ("io/bp.py",),
    "pyfftw": ("fourier/fft.py",),
    "matplotlib": ("analysis/",),
    "PIL": ("analysis/",),
    "xarray": ("analysis/", "io/"),
    "typer": ("cli/",),
}
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
    "adios2", "cupy", "llvmlite", "matplotlib", "mpi4py", "numba",
    "pandas", "pydantic", "pyfftw", "scipy", "xarray",
)  # fmt: skip


@dataclass(frozen=True)
class Import:
    """One imported module: where, what, and how."""

    path: Path
    line: int
    module: str
    typing_only: bool

    @property
    def where(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"

    @property
    def importer(self) -> str:
        """Path inside the package, such as io/bp.py."""
        return self.path.relative_to(PACKAGE).as_posix()


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def names_in(node: ast.AST, path: Path) -> list[str]:
    """Return the dotted names of the modules that `node` imports, `a.b` for `from a import b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = ("ridgeline", *path.relative_to(PACKAGE).parent.parts)
            base = ".".join((*package[: len(package) - node.level + 1], *filter(None, [base])))
        return [f"{base}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
        return [value for value in map(leading_text, node.args[:1]) if value]
    return []


def leading_text(node: ast.expr) -> str:
    """Return the constant text that a string or an f-string begins with."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return str(node.value) if isinstance(node, ast.Constant) else ""


def imports_of(path: Path) -> list[Import]:
    def visit(node: ast.AST, typing_only: bool) -> Iterator[Import]:
        for name in names_in(node, path):
            yield Import(path, node.lineno, name, typing_only)  # type: ignore[attr-defined]
        for child in ast.iter_child_nodes(node):
            inside = typing_only or (isinstance(child, ast.stmt) and is_type_checking(child))
            yield from visit(child, inside)

    return list(visit(ast.parse(path.read_text(), str(path)), False))


def all_imports() -> list[Import]:
    return [found for path in sources() for found in imports_of(path)]


def inner_package(module: str) -> str | None:
    """Return `io` for ridgeline.io.bp, None for a module that is not in one of our packages."""
    parts = module.split(".")
    return parts[1] if parts[0] == "ridgeline" and len(parts) > 1 and (PACKAGE / parts[1]).is_dir() else None


def test_every_package_has_a_tier() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= set(TIER_OF), "give the new package a tier in TIERS"


def test_imports_follow_the_arrows() -> None:
    wrong = []
    for found in all_imports():
        source, target = found.importer.split("/")[0], inner_package(found.module)
        if source not in TIER_OF or target is None or target == source:
            continue
        if TIER_OF[target] <= TIER_OF[source]:
            wrong.append(f"{found.where}: {source}/ must not import {found.module}")
    assert not wrong, "\n".join(wrong)


def test_the_root_imports_packages_only_on_demand() -> None:
    eager = [
        f"{found.where}: {found.module}"
        for found in imports_of(PACKAGE / "__init__.py")
        if inner_package(found.module) and not found.typing_only and not found.module.endswith("dataset")
    ]
    assert not eager, "\n".join(eager)


def test_models_do_not_import_each_other() -> None:
    models = {path.parent.name for path in PACKAGE.glob("models/*/__init__.py")}
    wrong = []
    for found in all_imports():
        place, parts = found.importer.split("/"), found.module.split(".")
        if place[0] != "models" or len(place) < 3 or parts[:2] != ["ridgeline", "models"] or len(parts) < 3:
            continue
        if parts[2] in models - {place[1]}:
            wrong.append(f"{found.where}: model {place[1]} must not import model {parts[2]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("library", ALLOWED_IMPORTERS)
def test_library_is_imported_only_by(library: str) -> None:
    allowed = ALLOWED_IMPORTERS[library]
    found = [i for i in all_imports() if i.module.split(".")[0] == library and not i.typing_only]
    wrong = [i.where for i in found if not i.importer.startswith(allowed)]
    assert not wrong, f"{library} may be imported only in {', '.join(allowed)}, is in {wrong}"


def test_only_io_reads_and_writes_arrays_on_disk() -> None:
    wrong = []
    for path in sources():
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
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Global)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_file_is_too_long() -> None:
    folders = ("src", "tests", "benchmarks", "docs", "examples")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    long = {str(p.relative_to(ROOT)): n for p in files if (n := len(p.read_text().splitlines())) > MAX_LINES}
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


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_importing_packages_is_light() -> None:
    packages = {module_name(path) for path in sorted(PACKAGE.rglob("__init__.py"))}
    heavy = imported_heavy_modules("\n".join(f"import {name}" for name in packages))
    assert heavy == [], f"an __init__.py imports {heavy}"


def test_help_path_is_light() -> None:
    """Every command module is imported for --help, which must not wait for MPI, Numba or the schemas."""
    commands = [module_name(path) for path in sorted((PACKAGE / "cli").rglob("*.py"))]
    heavy = imported_heavy_modules("\n".join(f"import {name}" for name in commands))
    assert heavy == [], f"importing {', '.join(commands)} imports {heavy}"
