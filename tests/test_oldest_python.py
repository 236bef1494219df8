"""Nothing newer than Python 3.11.0 is called, which Debian 12 nearly has (3.11.2), whatever Python runs the tests.

`make lint` lets vermin look for syntax, modules, functions and their arguments newer than 3.11. It knows the type of
few variables, so a method of an object can escape it, and mypy, which knows them, counts as 3.11 what came with a
later 3.11.x. Those are few, since bug-fix releases add nothing but for security, and are listed here by name.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Added after 3.11.0 (docs.python.org/3.11, "Changed in version 3.11.x"). Functions and methods: name -> keyword.
ARGUMENTS = {
    "extract": "filter",  # tarfile, 3.11.4
    "extractall": "filter",
    "unpack_archive": "filter",  # shutil, 3.11.4
    "getaddresses": "strict",  # email.utils, 3.11.10
    "parseaddr": "strict",
}
NAMES = {
    *("data_filter", "tar_filter", "fully_trusted_filter", "FilterError"),  # tarfile, 3.11.4
    *("AbsolutePathError", "OutsideDestinationError", "SpecialFileError"),
    *("AbsoluteLinkError", "LinkOutsideDestinationError"),
    *("LinkFallbackError", "ALLOW_MISSING"),  # tarfile and os.path, 3.11.13
    *("SetReparseDeferralEnabled", "GetReparseDeferralEnabled"),  # xml.parsers.expat, 3.11.9
}


def too_new(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            if ARGUMENTS.get(name) in {keyword.arg for keyword in node.keywords} - {None}:
                yield f"line {node.lineno}: {name}({ARGUMENTS[name]}=)"
        elif isinstance(node, ast.Attribute | ast.Name):
            name = getattr(node, "attr", getattr(node, "id", None))
            if name in NAMES:
                yield f"line {node.lineno}: {name}"
        elif isinstance(node, ast.ImportFrom):
            yield from (f"line {node.lineno}: {alias.name}" for alias in node.names if alias.name in NAMES)


def test_what_came_after_3_11_0_is_recognised() -> None:
    calls = (
        'with tarfile.open(path) as tar:\n    tar.extractall(folder, filter="data")',
        'shutil.unpack_archive(path, filter="data")',
        "from tarfile import data_filter",
        "tarfile.tar_filter(member, folder)",
        "email.utils.parseaddr(text, strict=True)",
    )
    assert [len(list(too_new(call))) for call in calls] == [1] * len(calls)
    assert not list(too_new("tar.extractall(folder)\nsorted(filter(None, names))"))


def test_nothing_that_came_after_3_11_0_is_called() -> None:
    folders = ("src", "tests", "tools", "benchmarks", "examples", "centre", "notebooks")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 100
    found = [f"{path.relative_to(ROOT)}, {what}" for path in files for what in too_new(path.read_text())]
    assert not found, "\n".join(found)
