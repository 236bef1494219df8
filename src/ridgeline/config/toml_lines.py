"""The line of each key in a TOML text, which tomllib does not report."""

import re

# No character can match in two ways, so the time is linear in the length of a line.
_HEADER = re.compile(r"\s*(\[\[?)([^\]]+)\]")
_ASSIGNMENT = re.compile(r"""((?:[A-Za-z0-9_.\s-]|"[^"]*"|'[^']*')+)=(.*)""", re.DOTALL)
_TOKEN = re.compile(r'''"""|\'\'\'|"(?:\\.|[^"\\])*"|'[^']*'|#.*|[\[\]{}]''')


def _dotted(text: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in text.split("."))


def _scan(text: str, depth: int, quote: str) -> tuple[int, str]:
    """Read the rest of a value's line; return the brackets still open and the multi-line quote still open."""
    position = 0
    while position < len(text):
        if quote:
            end = text.find(quote, position)
            if end < 0:
                return depth, quote
            position, quote = end + 3, ""
            continue
        token = _TOKEN.search(text, position)
        if token is None:
            break
        position = token.end()
        if token.group() in ('"""', "'''"):
            quote = token.group()
        elif token.group() in "[{":
            depth += 1
        elif token.group() in "]}":
            depth -= 1
    return depth, quote


def _numbered(name: str, counts: dict[str, int]) -> str:
    """Return a table's name with the number of the last table at each repeated one that it is or lies in."""
    numbered = ""
    for part in name.split("."):
        numbered = f"{numbered}.{part}" if numbered else part
        if numbered in counts:
            numbered = f"{numbered}.{counts[numbered]}"
    return numbered


def key_lines(text: str) -> dict[str, int]:
    """Return the line, from 1, of every table "a" and key "a.b" of a valid TOML text.

    Tables of an array [[a]] are "a.0", "a.1" and so on, and "a" has the line of the first. Keys inside inline tables
    are not distinguished; `line_of` returns the line of their table.
    """
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    table, depth, quote = "", 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if depth or quote:
            depth, quote = _scan(line, depth, quote)
        elif header := _HEADER.match(line):
            parent, dot, last = _dotted(header[2]).rpartition(".")
            table = f"{_numbered(parent, counts)}{dot}{last}"
            if header[1] == "[[":
                lines.setdefault(table, number)
                counts[table] = counts.get(table, -1) + 1
                table = f"{table}.{counts[table]}"
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(line):
            key = _dotted(assignment[1])
            lines[f"{table}.{key}" if table else key] = number
            depth, quote = _scan(assignment[2], 0, "")
    return lines


def line_of(lines: dict[str, int], key: str) -> int | None:
    """Return the line of a key, or of the innermost table around it that has one, or None."""
    while key and key not in lines:
        key = key.rpartition(".")[0]
    return lines.get(key)
