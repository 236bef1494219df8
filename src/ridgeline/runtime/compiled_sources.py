"""Which sources reach the compiler: the files that declare compiled functions, and what these import.

Read from the text, without importing anything: it is asked at the start of every command that computes, before Numba
may be imported. What is not sure to stay with the interpreter counts as compiled.
"""

import re
from collections.abc import Iterator
from pathlib import Path

# Decorators that leave a function or a class to the interpreter. Any other one may compile.
_INTERPRETED = (
    "abstractmethod", "app", "bench", "cache", "cached_property", "classmethod", "contextmanager", "contextlib",
    "dataclass", "explained", "field_validator", "functools", "lru_cache", "model_validator", "property",
    "staticmethod", "study", "with_options",
)  # fmt: skip
_DECORATOR = re.compile(rf"@(?!(?:{'|'.join(_INTERPRETED)})\b)\w+[.(\n]".encode())
_COMPILER = re.compile(
    rb"cuda\.jit\b|from numba import (?!cuda\n)"
    rb"|(?:from|import) (?:numba\.|numba_mpi|llvmlite)"
    # Not who only lets kernels of other files be compiled.
    rb"|from ridgeline\.jit\.kernel import (?:\([^)]*|[^\n]*)\b(?:kernel|subroutine)\b"
)
# The block of an `if TYPE_CHECKING:`, which no compiler sees.
_TYPES_ONLY = re.compile(rb"\n([ \t]*)if TYPE_CHECKING:(?:\n\1[ \t]+[^\n]*|\n[ \t]*(?=\n))*")
_IMPORT = re.compile(rb"\b(?:from|import) ridgeline\.([\w.]+)(?: import (\([^)]*\)|[^\n]*))?")


def compiled_sources(package: Path) -> dict[Path, bytes]:
    """Return the files below `package` that reach the compiler, in order, with what they hold. Some 20 ms.

    A compiled function calls functions that are compiled as well, and takes constants. Both come from its own file
    and from those that it imports, at the top of the file or later. So these imports are followed, but those of types
    only.
    """
    texts = {path: path.read_bytes() for path in package.rglob("*.py")}
    found: set[Path] = set()
    ahead = [path for path, text in texts.items() if _DECORATOR.search(text) or _COMPILER.search(text)]
    while ahead:
        path = ahead.pop()
        if path not in found:
            found.add(path)
            ahead += [other for other in _imported(package, texts[path]) if other in texts]
    return {path: texts[path] for path in sorted(found)}


def _imported(package: Path, text: bytes) -> Iterator[Path]:
    """Yield the files that a text may import: of `from a.b import c` both a/b.py and a/b/c.py."""
    for module, names in _IMPORT.findall(_TYPES_ONLY.sub(b"", text)):
        place = package.joinpath(*module.decode().split("."))
        yield place.with_suffix(".py")
        for name in re.findall(r"\w+", names.decode()):
            yield place / f"{name}.py"
