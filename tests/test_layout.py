"""The rules of the package's layout: which folder imports which, no circles, unique names, and a light start-up."""

import ast
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "ridgeline"
MAX_LINES = 600

# Arrows point from a tier to those below it. Packages of one tier do not import each other.
TIERS = (
    {"cli", "interface"},
    {"simulation", "study", "validate"},
    {"bench"},
    {"analysis"},
    {"models"},
    {"io"},
    {"blocks", "elements", "fourier", "particles"},
    {"krylov", "limits", "sparse"},
    {"parallel"},
    {"jit"},
    {"config"},
    {"runtime"},
)

# Arrows that the tiers allow and that are wrong all the same: a benchmark calls the product, never the other way.
FORBIDDEN = {"simulation": {"bench"}}

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
        "limits/",
        "sparse/",
        "io/",
        "bench/",
    ),
    "adios2": ("io/adios2_bindings.py",),
    "zarr": (
        "io/zarr_files.py",
        "io/export/arrays.py",
    ),
    # Extras are imported by `runtime.extras.import_extra`; by name only in files that are imported after that.
    "nccl": (),
    "nvmath": (),
    "numba_cuda": (),
    "pynvml": (),
    "pyvista": (),
    "h5netcdf": (),
    "h5py": (),
    "imageio_ffmpeg": (),
    "numba_mpi": ("bench/language/compiled_mpi.py",),
    "cuda": (
        "jit/cuda_device.py",
        "jit/cuda_launch.py",
    ),
    "pyfftw": ("fourier/fft.py",),
    "matplotlib": ("analysis/",),
    "PIL": ("analysis/", "io/picture.py"),
    "xarray": ("analysis/", "io/"),
    "jinja2": ("validate/report/",),
    "platformdirs": ("runtime/user_cache.py",),
    "typer": ("cli/",),
}
# Class names that every model gives its own: the parts of its anatomy.
OF_EVERY_MODEL = {
    "RunSection", "GridSection", "ModelSection", "InitialSection", "ForcingSection", "ScalarSection", "OutputSection",
    "BoundarySection", "SideSection",
    "CpuEngine", "CudaEngine", "Diagnostics", "ReferenceSolver",
}  # fmt: skip
# The files of every model; further ones are named after the part they belong to (kernels_cuda, initial_from_file).
ANATOMY = (
    "settings", "estimate", "model", "engine_cpu", "kernels", "reference", "initial", "diagnostics", "recorders",
)  # fmt: skip
# Rooms whose modules serve two other rooms or more, or their own.
SHARED_ROOMS = ("jit", "parallel")
# Modules beside one that is shared: the same for another backend.
TWINS = {"jit.cuda_random": "jit.random", "jit.formulas_cuda": "jit.formulas"}
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
    "adios2", "jinja2", "llvmlite", "matplotlib", "mpi4py", "nccl", "numba", "nvmath",
    "pandas", "pydantic", "pyfftw", "scipy", "xarray", "zarr",
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
        return f"{self.importer}:{self.line}"

    @property
    def importer(self) -> str:
        """Path inside the package, such as io/bp.py."""
        return self.path.relative_to(PACKAGE).as_posix()


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """Return `io` for ridgeline.io.bp, "" for a module that is in no folder of the package."""
    parts = module.split(".")
    inside = parts[0] == PACKAGE.name and len(parts) > 1 and (PACKAGE / parts[1]).is_dir()
    return parts[1] if inside else ""


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def names_in(node: ast.AST, path: Path) -> list[str]:
    """Return the dotted names of the modules that `node` imports, `a.b` for `from a import b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            folder = path.relative_to(PACKAGE.parent).parent.parts
            base = ".".join((*folder[: len(folder) - node.level + 1], *filter(None, [base])))
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
    """Return all imports of a file: at its top, late ones, those for types alone, those by import_module."""

    def visit(node: ast.AST, typing_only: bool) -> Iterator[Import]:
        for name in names_in(node, path):
            yield Import(path, node.lineno, name, typing_only)  # type: ignore[attr-defined]
        for child in ast.iter_child_nodes(node):
            inside = typing_only or (isinstance(child, ast.stmt) and is_type_checking(child))
            yield from visit(child, inside)

    return list(visit(ast.parse(path.read_text(), str(path)), False))


@cache
def all_imports() -> tuple[Import, ...]:
    return tuple(found for path in sources() for found in imports_of(path))


def imported_modules() -> dict[str, set[str]]:
    """Return the package's modules, and which of them each imports, however it does."""
    modules = {module_name(path) for path in sources()}
    found: dict[str, set[str]] = {module: set() for module in modules}
    for each in all_imports():
        target = each.module.strip(".")
        while target and target not in modules:
            target = target.rpartition(".")[0]
        importer = module_name(each.path)
        if target and target != importer:
            found[importer].add(target)
    return found


def test_every_package_has_a_tier() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= set().union(*TIERS), "give the new package a tier in TIERS"


def test_imports_follow_the_arrows() -> None:
    tier_of = {name: tier for tier, folders in enumerate(TIERS) for name in folders}
    wrong = []
    for found in all_imports():
        source, target = found.importer.split("/")[0], room_of(found.module)
        if not {source, target} <= tier_of.keys() or target == source:
            continue
        if tier_of[target] <= tier_of[source] or target in FORBIDDEN.get(source, ()):
            wrong.append(f"{found.where}: {source}/ must not import {found.module}")
    assert not wrong, "\n".join(wrong)


def reached_from(start: str, graph: Mapping[str, Collection[str]]) -> set[str]:
    """Return the modules that a module imports, directly or through others."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for module in graph[ahead.pop()]:
            if module not in found:
                found.add(module)
                ahead.append(module)
    return found


def test_no_file_imports_itself_through_others() -> None:
    """Late imports and those for types count: a circle says that something lies in the wrong file."""
    graph = imported_modules()
    reached = {module: reached_from(module, graph) for module in graph}
    groups = {frozenset(m for m in reached[module] if module in reached[m]) for module in graph}
    circles = [sorted(group) for group in groups if group]
    assert circles == []


def once_per_model(places: Iterable[str]) -> bool:
    """Say whether a class is in models, and the folder `config`, alone, and in each of them once."""
    owners = [place.split("/")[1] if place.startswith("models/") else place.split("/")[0] for place in places]
    shared = [place for place in places if not place.startswith(("models/", "config/"))]
    return not shared and len(set(owners)) == len(owners)


def test_class_names_are_unique() -> None:
    places = defaultdict(list)
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(PACKAGE).as_posix())
    repeated = {
        name: found
        for name, found in places.items()
        if len(found) > 1 and not (name in OF_EVERY_MODEL and once_per_model(found))
    }
    assert not repeated, f"give each its field's term: {repeated}"


def test_shared_rooms_hold_what_two_callers_use() -> None:
    graph = imported_modules()
    users: dict[str, set[str]] = defaultdict(set)
    for importer, imported in graph.items():
        for module in imported:
            users[module].add(room_of(importer))
    alone = {}
    for module in graph:
        short = module.partition(".")[2]
        if room_of(module) not in SHARED_ROOMS or "." not in short or short in TWINS:
            continue
        if len(users[module]) < 2 and room_of(module) not in users[module]:
            alone[short] = users[module]
    assert not alone, f"a module lives with its only caller: {alone}"
    gone = [name for pair in TWINS.items() for name in pair if not module_file(name).exists()]
    assert not gone, f"TWINS names modules that are not there: {gone}"


def module_file(module: str) -> Path:
    return PACKAGE.joinpath(*module.split(".")).with_suffix(".py")


def test_models_have_the_same_anatomy() -> None:
    lacking = [
        f"{path.parent.name}/{part}.py"
        for path in PACKAGE.glob("models/*/settings.py")
        for part in ANATOMY
        if not (path.parent / f"{part}.py").exists()
    ]
    assert not lacking, f"every model has {', '.join(ANATOMY)}: {lacking}"


def test_the_root_imports_packages_only_on_demand() -> None:
    eager = [
        f"{found.where}: {found.module}"
        for found in imports_of(PACKAGE / "__init__.py")
        if room_of(found.module)
        and not found.typing_only
        and not found.module.endswith(("dataset", "mpi_import"))
    ]
    assert not eager, "\n".join(eager)


def test_models_do_not_import_each_other() -> None:
    models = {path.parent.name for path in PACKAGE.glob("models/*/__init__.py")}
    wrong = []
    for found in all_imports():
        place, parts = found.importer.split("/"), found.module.split(".")
        if place[0] != "models" or len(place) < 3 or parts[:2] != [PACKAGE.name, "models"] or len(parts) < 3:
            continue
        if parts[2] in models - {place[1]}:
            wrong.append(f"{found.where}: model {place[1]} must not import model {parts[2]}")
    assert not wrong, "\n".join(wrong)


def test_nothing_above_the_models_names_one() -> None:
    """Neither in code nor in texts for people; docstrings may, as examples."""
    models = {path.parent.name for path in (PACKAGE / "models").glob("*/model.py")}
    assert len(models) >= 5
    rooms = set.union(*TIERS[: next(n for n, tier in enumerate(TIERS) if "models" in tier)])
    found = []
    for path in (path for room in rooms for path in (PACKAGE / room).rglob("*.py")):
        tree = ast.parse(path.read_text())
        texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            words = node.module if isinstance(node, ast.ImportFrom) else getattr(node, "id", None)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
                words = node.value
            named = [model for model in models if words and model in re.split(r"[^\w]+", words)]
            found += [f"{path.relative_to(PACKAGE)}:{node.lineno} names {model}" for model in named]
    assert not found, "let the model's folder say it: " + "; ".join(found)


def test_libraries_are_imported_only_by_those_that_may() -> None:
    """Imports for types are free."""
    for library, allowed in ALLOWED_IMPORTERS.items():
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


def test_every_child_process_gets_an_environment_that_is_stated() -> None:
    """Open MPI puts variables into the C environment, and a child that starts ranks must not inherit them."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node.func)} without env="
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("subprocess.run", "subprocess.Popen", "subprocess.check_output")
        and "env" not in {keyword.arg for keyword in node.keywords}
    ]
    assert not wrong, "\n".join(wrong)


def test_one_file_makes_consoles() -> None:
    """Rich's own takes brackets and colons in texts for markup."""
    texts = {
        str(path.relative_to(ROOT)): path.read_text()
        for path in [*sources(), *ROOT.glob("benchmarks/**/*.py")]
    }
    assert [name for name, text in texts.items() if "Console(" in text] == [
        "src/ridgeline/runtime/console.py"
    ]


def test_no_function_rebinds_a_module_variable() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: global {', '.join(node.names)}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Global)
    ]
    assert not wrong, "\n".join(wrong)


# A dotted name in backquotes that begins with a folder of the package: `fourier.transform.FourierTransform`.
DOTTED = re.compile(r"`([a-z_]+(?:\.\w+)+)[^`\n]*`")
# Such names that are not modules: a setting, and files.
NOT_MODULES = {"particles.every", "particles.py", "validate.c"}


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and the comments of a file, with their first lines."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(iter(source.splitlines(keepends=True)).__next__):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def names_of(path: Path) -> set[str]:
    """The names that the body of a module binds."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def exists(dotted: str) -> bool:
    """Whether the package has a module of this name, or one that binds what follows its name."""
    parts = dotted.split(".")
    for n in range(len(parts), 1, -1):
        path = PACKAGE.joinpath(*parts[:n])
        if (path / "__init__.py").exists():
            return n == len(parts)
        if path.with_suffix(".py").exists():
            return n == len(parts) or parts[n] in names_of(path.with_suffix(".py"))
    return False


def test_prose_names_modules_that_exist() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    dangling = [
        f"{path.relative_to(PACKAGE)}:{line + text[: match.start()].count(chr(10))}: {match[1]}"
        for path in sources()
        for line, text in prose(path)
        for match in DOTTED.finditer(text)
        if match[1].split(".")[0] in rooms and match[1] not in NOT_MODULES and not exists(match[1])
    ]
    assert not dangling, dangling


def test_no_file_is_too_long() -> None:
    folders = ("src", "tests", "benchmarks", "docs", "examples")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    long = {str(p): n for p in files if (n := len(p.read_text().splitlines())) > MAX_LINES}
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
    packages = {module_name(path) for path in sorted(PACKAGE.rglob("__init__.py"))}
    heavy = imported_heavy_modules("\n".join(f"import {name}" for name in packages))
    assert heavy == [], f"an __init__.py imports {heavy}"


def test_help_path_is_light() -> None:
    """Every command module is imported for --help, which must not wait for MPI, Numba or the schemas."""
    commands = [module_name(path) for path in sorted((PACKAGE / "cli").rglob("*.py"))]
    heavy = imported_heavy_modules("\n".join(f"import {name}" for name in commands))
    assert heavy == [], f"importing {', '.join(commands)} imports {heavy}"
