"""What the house rules look at: imports, circles, class names and callers in a package of Python files.

Functions take the folder of a package, so that each rule can be tried on a tiny one that breaks it.
"""

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One imported module: where, what, and how."""

    package: Path
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
        return self.path.relative_to(self.package).as_posix()


def sources(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def module_name(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(package: Path, module: str) -> str:
    """Return `io` for ridgeline.io.bp, "" for a module that is in no folder of the package."""
    parts = module.split(".")
    inside = parts[0] == package.name and len(parts) > 1 and (package / parts[1]).is_dir()
    return parts[1] if inside else ""


# ---------------------------------------------------------------------------------------------------- imports


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def names_in(node: ast.AST, package: Path, path: Path) -> list[str]:
    """Return the dotted names of the modules that `node` imports, `a.b` for `from a import b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            folder = path.relative_to(package.parent).parent.parts
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


def imports_of(package: Path, path: Path) -> list[Import]:
    """Return all imports of a file: at its top, late ones, those for types alone, those by import_module."""

    def visit(node: ast.AST, typing_only: bool) -> Iterator[Import]:
        for name in names_in(node, package, path):
            yield Import(package, path, node.lineno, name, typing_only)  # type: ignore[attr-defined]
        for child in ast.iter_child_nodes(node):
            inside = typing_only or (isinstance(child, ast.stmt) and is_type_checking(child))
            yield from visit(child, inside)

    return list(visit(ast.parse(path.read_text(), str(path)), False))


@cache
def all_imports(package: Path) -> tuple[Import, ...]:
    return tuple(found for path in sources(package) for found in imports_of(package, path))


def imported_modules(package: Path) -> dict[str, set[str]]:
    """Return the package's modules, and which of them each imports, however it does."""
    modules = {module_name(package, path) for path in sources(package)}
    found: dict[str, set[str]] = {module: set() for module in modules}
    for each in all_imports(package):
        target = each.module.strip(".")
        while target and target not in modules:
            target = target.rpartition(".")[0]
        importer = module_name(package, each.path)
        if target and target != importer:
            found[importer].add(target)
    return found


# ------------------------------------------------------------------------------------------------------ rules


def wrong_arrows(package: Path, tiers: Iterable[Collection[str]]) -> list[str]:
    """Return the imports of rooms that are not in a tier below. Rooms of one tier do not import each other."""
    tier_of = {name: tier for tier, rooms in enumerate(tiers) for name in rooms}
    wrong = []
    for found in all_imports(package):
        source, target = found.importer.split("/")[0], room_of(package, found.module)
        if {source, target} <= tier_of.keys() and target != source and tier_of[target] <= tier_of[source]:
            wrong.append(f"{found.where}: {source}/ must not import {found.module}")
    return wrong


def imports_between_models(package: Path) -> list[str]:
    models = {path.parent.name for path in package.glob("models/*/__init__.py")}
    wrong = []
    for found in all_imports(package):
        place, parts = found.importer.split("/"), found.module.split(".")
        if place[0] != "models" or len(place) < 3 or parts[:2] != [package.name, "models"] or len(parts) < 3:
            continue
        if parts[2] in models - {place[1]}:
            wrong.append(f"{found.where}: model {place[1]} must not import model {parts[2]}")
    return wrong


def importers_beyond(package: Path, library: str, allowed: tuple[str, ...]) -> list[str]:
    """Return where a library is imported outside the files and folders that may; imports for types are free."""
    found = [i for i in all_imports(package) if i.module.split(".")[0] == library and not i.typing_only]
    return [i.where for i in found if not i.importer.startswith(allowed)]


def circles(package: Path) -> list[set[str]]:
    """Return the groups of modules that import each other, directly or through others of the group."""
    graph = imported_modules(package)
    reached = {module: _reached(graph, module) for module in graph}
    groups = {
        frozenset({module, *(other for other in reached[module] if module in reached[other])})
        for module in graph
    }
    return sorted((set(group) for group in groups if len(group) > 1), key=sorted)


def _reached(graph: Mapping[str, Collection[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for module in graph[ahead.pop()]:
            if module not in found:
                found.add(module)
                ahead.append(module)
    return found


def repeated_classes(package: Path, of_every_model: Collection[str] = ()) -> dict[str, list[str]]:
    """Return the class names that occur more than once, and where.

    of_every_model: names that each model, and the room `config`, may have once.
    """
    places = defaultdict(list)
    for path in sources(package):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(package).as_posix())
    repeated = {name: found for name, found in places.items() if len(found) > 1}
    return {
        name: found
        for name, found in repeated.items()
        if name not in of_every_model or not _once_per_model(found)
    }


def _once_per_model(places: Iterable[str]) -> bool:
    owners = [place.split("/")[1] if place.startswith("models/") else place.split("/")[0] for place in places]
    shared = [place for place in places if not place.startswith(("models/", "config/"))]
    return not shared and len(set(owners)) == len(owners)


def modules_of_one_room(
    package: Path, shared_rooms: Collection[str], twins: Mapping[str, str]
) -> dict[str, set[str]]:
    """Return the modules of shared rooms that one other room alone uses, or none, and which.

    twins: modules that are another implementation of one that is shared, and of which: "jit.random_llvm".
    """
    users: dict[str, set[str]] = defaultdict(set)
    graph = imported_modules(package)
    for importer, imported in graph.items():
        for module in imported:
            users[module].add(room_of(package, importer))
    found = {}
    for module in graph:
        short = module.partition(".")[2]
        if room_of(package, module) not in shared_rooms or "." not in short or short in twins:
            continue
        if len(users[module]) < 2 and room_of(package, module) not in users[module]:
            found[short] = users[module]
    return found


def long_files(files: Iterable[Path], most: int) -> dict[str, int]:
    return {str(p): n for p in files if (n := len(p.read_text().splitlines())) > most}


def missing_parts(models: Path, parts: Collection[str]) -> dict[str, list[str]]:
    """Return the files of the anatomy that a folder of models lacks, by model."""
    folders = {path.parent for path in models.glob("*/config.py")}
    lacking = {
        folder.name: [part for part in parts if not (folder / f"{part}.py").exists()] for folder in folders
    }
    return {name: found for name, found in lacking.items() if found}
