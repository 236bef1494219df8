"""The functions and classes that people import: which they are, what their docstrings lack, and their examples.

People import what the pages, the examples and the notebooks import, and what `import ridgeline` offers.
"""

import ast
import doctest
import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ridgeline

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("docs", "examples", "benchmarks", "notebooks", "centre")
PROGRAMS = ("docs/example_", "examples/", "centre/")  # those that measure the package see its inside
FENCE = re.compile(r"^```(?:python|py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^from (ridgeline[\w.]*) import ([\w, ]+)$", re.MULTILINE)
HEADING = re.compile(r"^([A-Z]\w+)\n-{3,}$", re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
TWO_RANKS = "mpiexec -n 2"


def texts() -> Iterator[tuple[Path, str]]:
    """Yield what people read as code: listings of pages, programs and scripts, and cells of notebooks."""
    for path in sorted({*ROOT.glob("*.md"), *(p for name in FOLDERS for p in (ROOT / name).rglob("*.*"))}):
        if path.suffix == ".md":
            yield from ((path, listing) for listing in FENCE.findall(path.read_text()))
        elif path.suffix == ".ipynb":
            cells = json.loads(path.read_text())["cells"]
            yield from ((path, "".join(c["source"])) for c in cells if c["cell_type"] == "code")
        elif path.suffix in (".py", ".sh") and path.relative_to(ROOT).as_posix().startswith(PROGRAMS):
            yield path, path.read_text()


def names_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of what a text imports from Ridgeline."""
    try:
        nodes = list(ast.walk(ast.parse(re.sub(r"(?m)^%.*$", "", text))))
    except SyntaxError:  # a shell script
        for module, names in IMPORT.findall(text):
            yield from ((module, name.strip()) for name in names.split(","))
        return
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ridgeline":
            yield from ((node.module, alias.name) for alias in node.names)


def imported() -> dict[str, str]:
    """Return what people import by its dotted name, with the first place that imports it.

    Names of the pages' own examples, whose modules the package does not have, are left out.
    """
    found = {
        f"ridgeline.{name}": "ridgeline/__init__.py" for name in ridgeline.__all__ if not name.startswith("_")
    }
    found |= {f"ridgeline.plot.{name}": "ridgeline/plot.py" for name in ridgeline.plot.__all__}
    found |= {
        f"ridgeline.analysis.{name}": "ridgeline/analysis/__init__.py" for name in ridgeline.analysis.__all__
    }
    for path, text in texts():
        for module, name in names_in(text):
            if exists(module):
                found.setdefault(f"{module}.{name}", str(path.relative_to(ROOT)))
    return found


def exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def thing_of(name: str) -> Any:
    """Return the function, class, constant or module of a dotted name."""
    module, _, last = name.rpartition(".")
    member = getattr(import_module(module), last, None)
    return import_module(name) if member is None else member


def is_documented(thing: Any) -> bool:
    """Whether a thing is a function or a class, and thus has a docstring; constants and modules have none."""
    return isinstance(thing, type) or inspect.isroutine(thing)


def documented() -> dict[str, Any]:
    """Return the functions and classes that people import, by their dotted names."""
    things = {name: thing_of(name) for name in sorted(imported())}
    return {name: thing for name, thing in things.items() if is_documented(thing)}


def sections(text: str) -> dict[str, str]:
    """Return the parts of a docstring in NumPy's form by their headings; what precedes them is ""."""
    first, *rest = HEADING.split(text)
    return {"": first, **dict(zip(rest[::2], rest[1::2]))}


def named_in(section: str) -> set[str]:
    """Return the names that a section such as Parameters describes: `a, b : float`."""
    lines = (line for line in section.splitlines() if line[:1].strip())
    return {name.strip().lstrip("*") for line in lines for name in line.split(" : ")[0].split(",")}


def parameters_of(thing: Any) -> set[str]:
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return set()
    return {name for name in signature.parameters if name not in ("self", "cls")}


def lacks(thing: Any) -> list[str]:
    """Return what the docstring of a function or a class lacks of NumPy's form."""
    text = inspect.cleandoc(thing.__doc__ or "")
    parts, is_class = sections(text), isinstance(thing, type)
    faults = []
    if not re.fullmatch(r"[A-Z].*\.", text.split("\n\n")[0]):
        faults.append("a summary of one line that ends with a full stop")
    described = named_in(parts.get("Parameters", "")) | named_in(parts.get("Attributes", ""))
    if not (is_class and issubclass(thing, BaseException)):
        missing = sorted(parameters_of(thing) - described)
        faults += [f"Parameters: {', '.join(missing)}"] if missing else []
    returned = None if is_class else inspect.signature(thing).return_annotation
    if returned not in (None, "None", inspect.Signature.empty) and "Returns" not in parts:
        faults.append("Returns")
    if ">>> " not in parts.get("Examples", ""):
        faults.append("Examples")
    if "Collective" in parts.get("Notes", "") and TWO_RANKS not in parts.get("Examples", ""):
        faults.append("an example with two ranks")
    return faults


def needs_two_ranks(thing: Any) -> bool:
    return TWO_RANKS in (thing.__doc__ or "")


def run_example(name: str, thing: Any) -> str:
    """Run the examples of a docstring; return what differs from what it shows."""
    example = doctest.DocTestParser().get_doctest(
        inspect.cleandoc(thing.__doc__ or ""), {"__name__": "__main__"}, name, None, 0
    )
    said: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(example, out=said.append)
    return "".join(said)
