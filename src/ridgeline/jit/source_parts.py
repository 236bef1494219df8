"""What one function of a source file depends on: the statements that it reaches, in its own file and in others.

A part is one statement at the top of a file: a function, a class, an assignment or an import. A function reaches the
parts whose names it uses, those that these use, and so on, through imports into other files. From each file that is
reached in this way it also reaches whatever acts when the file is imported, such as a call or a decorator that may
register something with Numba; this includes the files that it imports in turn. A part counts by its syntax tree, so
that comments, docstrings and the layout of lines do not matter.

Nothing here reads files: `reached` is given a function that does. This module imports nothing heavy.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.util import resolve_name
from typing import NamedTuple

# Decorators that do nothing but return what they decorate, in another form. Any other may register it somewhere.
_PURE = {
    *(
        "kernel",
        "subroutine",
        "njit",
        "intrinsic",
        "device_function",
        "compiled_pass",
        "part_of_pass",
        "inlined",
    ),
    *("cfunc", "dataclass", "cache", "lru_cache", "contextmanager"),
}
_BINDING = (ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DOCUMENTED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Names of what is reached of a file: everything, or only what acts when it is imported.
ALL, ACTS = "*", ""


class SourcePart(NamedTuple):
    """A statement at the top of a file.

    digest: of its syntax tree. binds: the names that it gives to the file; "*" where these are not known. reads: the
    names of the same file that it uses. imports: the dotted names of other files that it uses; those of a relative
    import begin with its dots. acts: whether it may do more than bind names when the file is imported.
    """

    digest: str
    binds: list[str]
    reads: list[str]
    imports: list[str]
    acts: bool


class SourceFile(NamedTuple):
    """What is remembered of a source file: the time of its last change and its size, and its parts."""

    stamp: list[int]
    parts: list[SourcePart]
    package: bool  # whether it is the __init__.py of a package


def parts_of(text: bytes) -> list[SourcePart]:
    """Return the parts of a source file. What Python cannot parse is one part, which counts by its text."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # for another version of Python, say
        return [SourcePart(_digest(text), [ALL], [], [], True)]
    statements = list(_statements(tree.body))
    imported: dict[str, list[str]] = {}
    for statement in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for name, target in _bindings_of(statement):
                imported.setdefault(name, []).append(target)
    others = [each for each in statements if not isinstance(each, ast.Import | ast.ImportFrom)]
    bound = [_bound_by(statement) for statement in others]
    own = set().union(*bound)
    parts, used = [], set()
    for statement, binds in zip(others, bound, strict=True):
        chains = set(map(_chain_of, _nodes(statement))) - {""}
        imports = {dotted for node in _nodes(statement) for _, dotted in _bindings_of(node)}
        reads = {chain.partition(".")[0] for chain in chains}
        for chain in chains:
            base, dot, rest = chain.partition(".")
            # `import a.b` binds a, and so do all other imports from there.
            imports |= {f"{target}{dot}{rest}" for target in imported.get(base, ())}
        used |= reads
        acts = _acts(statement)
        parts.append(
            SourcePart(_digest_of(statement), sorted(binds), sorted(reads & own), sorted(imports), acts)
        )
    for name, targets in imported.items():
        # An import that nothing uses is there for what it does.
        parts.append(SourcePart("", [name], [], sorted(targets), name not in used))
    return parts


def reached(
    module: str, name: str, look_up: Callable[[str], SourceFile | str | None]
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return all that one name of a module depends on.

    Parameters
    ----------
    module
        The module.
    name
        A name at the top of its file, `ALL` for everything in it. A name that the file does not bind counts as `ALL`.
    look_up
        Returns the source file of a module, the version of a library, or None for anything else.

    Returns
    -------
    tuple of dict
        The sorted digests of the parts of each module that are reached, and the version of each library.
    """
    parts: dict[str, set[int]] = {}
    digests: dict[str, list[str]] = {}
    libraries: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    ahead = [(module, name)]
    while ahead:
        step = ahead.pop()
        if step in seen:
            continue
        seen.add(step)
        module, name = step
        source = look_up(module)
        if isinstance(source, str):
            libraries[module.partition(".")[0]] = source
        if not isinstance(source, SourceFile):
            continue
        package = module if source.package else module.rpartition(".")[0]
        if module == "__main__":
            package = getattr(sys.modules[module], "__package__", None) or ""
        taken = parts.setdefault(module, set())
        wanted = {index for index, part in enumerate(source.parts) if part.acts}
        if name != ACTS:
            binding = {n for n, part in enumerate(source.parts) if name in part.binds or ALL in part.binds}
            is_file = name != ALL and look_up(f"{module}.{name}") is not None
            wanted |= binding or (set() if is_file else set(range(len(source.parts))))
        for index in wanted - taken:
            part = source.parts[index]
            ahead += [(module, read) for read in part.reads]
            for dotted in part.imports:
                ahead += _steps(dotted, package, look_up)
        for part in source.parts:
            if not part.digest:
                # An import at the top of the file acts whether its name is used or not.
                ahead += [(m, ACTS) for dotted in part.imports for m, _ in _steps(dotted, package, look_up)]
        taken |= wanted
        digests[module] = sorted(source.parts[index].digest for index in taken)
    return digests, libraries


def _steps(
    dotted: str, package: str, look_up: Callable[[str], SourceFile | str | None]
) -> Iterator[tuple[str, str]]:
    """Yield the modules that a dotted name goes through at its end, each with the name that is taken from it."""
    with suppress(ImportError):  # a relative import beyond the top
        words = resolve_name(dotted, package).split(".")
        found = 0
        for count in range(1, len(words) + 1):
            source = look_up(".".join(words[:count]))
            if source is not None:
                found = count
            if isinstance(source, str) or (source is None and found):
                break  # a library counts as a whole
        if found:
            yield ".".join(words[:found]), words[found] if found < len(words) else ALL
        if found == len(words) > 1:
            yield ".".join(words[:-1]), words[-1]


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a file, without those that are only for type checkers and without its docstring."""
    for statement in body:
        if isinstance(statement, ast.If) and _for_type_checkers(statement):
            yield from _statements(statement.orelse)
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            yield statement


def _for_type_checkers(statement: ast.If) -> bool:
    return ast.unparse(statement.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _bindings_of(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, each with the dotted name of what it stands for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                yield alias.asname, alias.name
            else:
                # The chain that follows may go into another module of the same package.
                yield alias.name.partition(".")[0], alias.name.partition(".")[0]
                if "." in alias.name:
                    yield ALL, alias.name
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        joined = module if module.endswith(".") else f"{module}."
        for alias in node.names:
            yield alias.asname or alias.name, f"{joined}{alias.name}"


def _nodes(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes of a statement that do not serve type checkers only, and of a chain a.b.c the outermost."""
    ahead = [statement]
    while ahead:
        node = ahead.pop()
        yield node
        if isinstance(node, ast.If) and _for_type_checkers(node):
            ahead += node.orelse
        elif not _chain_of(node):
            ahead += ast.iter_child_nodes(node)


def _chain_of(node: ast.AST) -> str:
    """Return a name with the attributes that follow it, such as "module.function"; "" for any other node."""
    words: list[str] = []
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(words)]) if isinstance(node, ast.Name) else ""


def _bound_by(statement: ast.stmt) -> set[str]:
    """Return the names that a statement may bind at the top of a file."""
    if isinstance(statement, _DOCUMENTED):
        return {statement.name}
    names = set()
    for node in _nodes(statement):
        if isinstance(node, _DOCUMENTED):
            names.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        else:
            names |= {name for name, _ in _bindings_of(node)}
    return names


def _acts(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return any(
            isinstance(n, ast.Attribute | ast.Subscript) for t in statement.targets for n in ast.walk(t)
        )
    decorators = getattr(statement, "decorator_list", [])
    names = {ast.unparse(each.func if isinstance(each, ast.Call) else each) for each in decorators}
    return not isinstance(statement, _BINDING) or not {name.rpartition(".")[2] for name in names} <= _PURE


def _digest_of(statement: ast.stmt) -> str:
    for node in ast.walk(statement):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return _digest(ast.dump(statement).encode())
