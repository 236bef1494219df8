"""List everything that the code says to people, so that it can be read from top to bottom.

    python tools/list_messages.py                         # errors, warnings, notes, helps, other sentences
    python tools/list_messages.py --kind error io config  # the errors of two folders of src/ridgeline

A line is `file:line: kind: text`, with the Python expression of each inserted value in braces. A text counts as
something that is said if it has at least two words and is not a docstring.
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "ridgeline"
KINDS = ("error", "warning", "note", "help", "text")
# The name of a call or of a keyword argument, and the kind of the texts inside it.
_NAMES = {
    "warning": "warning",
    "warnings": "warning",
    "warn": "warning",
    "info": "note",
    "note": "note",
    "notes": "note",
    "echo": "note",
    "write": "note",
    "print": "note",
    "help": "help",
    "description": "help",
    "Option": "help",
    "Argument": "help",
    "Field": "help",
    "spec": "help",
}


def rendered(node: ast.expr) -> str | None:
    """Return the text of a string expression with its inserted values in braces, or None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = rendered(node.left), rendered(node.right)
        if left is None and right is None:
            return None
        return (left if left is not None else "{" + ast.unparse(node.left) + "}") + (
            right if right is not None else "{" + ast.unparse(node.right) + "}"
        )
    return None


def kind_inside(node: ast.AST, outer: str) -> str:
    """Return the kind of the texts below a node, which is that of the surrounding code unless the node says more."""
    if isinstance(node, ast.Raise):
        return "error"
    name = ""
    if isinstance(node, ast.Call):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    elif isinstance(node, ast.keyword):
        name = node.arg or ""
    if name.endswith("Error") or name.startswith(("refuse", "raise_")):
        return "error"
    return outer if outer == "error" else _NAMES.get(name, outer)


def said(node: ast.AST, kind: str = "text") -> Iterator[tuple[int, str, str]]:
    """Yield line, kind and text of everything that is said below a node."""
    docstring = None
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
        docstring = node.body[0]
    for child in ast.iter_child_nodes(node):
        if child is docstring:
            continue
        inner = kind_inside(child, kind)
        text = rendered(child) if isinstance(child, ast.expr) else None
        if text is None:
            yield from said(child, inner)
        elif len(text.split()) > 1:
            yield child.lineno, inner, " ".join(text.split())


def main() -> int:
    """Print the list."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", help="folders or files below src/ridgeline; all without it")
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS), help="kinds to list")
    arguments = parser.parse_args()
    places = [SOURCE / folder for folder in arguments.folders] or [SOURCE]
    for place in places:
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            for line, kind, text in said(ast.parse(file.read_text(encoding="utf-8"))):
                if kind in arguments.kind:
                    print(f"{file.relative_to(SOURCE)}:{line}: {kind}: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
