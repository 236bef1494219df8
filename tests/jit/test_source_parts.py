"""A name reaches the statements that it depends on, in all files, and what importing these files does."""

import pytest

from ridgeline.jit.source_parts import ALL, SourceFile, parts_of, reached

FILES = {
    "own": "",
    "own.rates": (
        "from own.numbers import TWO\n"
        "import own.unused_but_loaded\n"
        "HALF = 0.5\n"
        "def rate(u):\n    return TWO * u\n"
        "def other(u):\n    return HALF * u\n"
    ),
    "own.numbers": "TWO = 2\nTHREE = 3\nif TWO:\n    FOUR = 4\n",
    "own.unused_but_loaded": "def quiet():\n    return 1\nregister(quiet)\n",
    "own.library": "from numpy import float64\nclass Emitter:\n    size = float64(1)\n",
    "own.stars": "from own.rates import *\ndef through_star(u):\n    return rate(u)\n",
    "own.sweep": (
        "from typing import TYPE_CHECKING\n"
        "from . import library, rates\n"
        "from own import numbers as n\n"
        "if TYPE_CHECKING:\n    from own.numbers import THREE\n"
        "emitter = library.Emitter\n"
        "def sweep(u):\n    from own.late import once\n    return once(rates.rate(u))\n"
        "def named(u):\n    return n.THREE * u\n"
        "def by_name(u, name):\n    return getattr(n, name)\n"
        "def emitted(u):\n    return emitter().size\n"
    ),
    "own.late": "def once(u):\n    return u\n",
}


def found_from(module: str, name: str, **edits: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    texts = FILES | {f"own.{file}": text for file, text in edits.items()}
    files = {file: SourceFile([0], parts_of(text.encode()), file == "own") for file, text in texts.items()}
    return reached(module, name, lambda wanted: "2.0" if wanted == "numpy" else files.get(wanted))


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "counts"),
    [
        ("sweep", "numbers", "TWO = 2", "TWO = 5", True),
        ("sweep", "rates", "return TWO * u", "return TWO + u", True),
        ("sweep", "late", "return u", "return -u", True),
        ("sweep", "rates", "HALF = 0.5", "HALF = 0.25", False),
        ("sweep", "rates", "return HALF", "return 2 * HALF", False),
        ("sweep", "numbers", "THREE = 3", "THREE = 4", False),
        ("sweep", "rates", "def rate", "# A comment.\n\ndef rate", False),
        ("sweep", "rates", "def rate(u):\n", 'def rate(u):\n    """Return a rate."""\n', False),
        ("sweep", "sweep", "def named(u)", "def named(v, u)", False),
        ("sweep", "numbers", "FOUR = 4", "FOUR = 5", True),
        ("sweep", "unused_but_loaded", "register(quiet)", "register(quiet, 1)", True),
        ("sweep", "unused_but_loaded", "return 1", "return 2", True),
        ("sweep", "library", "size", "@decorated\n    def more(self): ...\n    size", False),
        ("sweep", "library", "class", "@unknown\nclass", True),
        ("emitted", "library", "float64(1)", "float64(2)", True),
        ("named", "numbers", "THREE = 3", "THREE = 4", True),
        ("named", "rates", "return TWO * u", "return TWO + u", False),
        ("by_name", "numbers", "THREE = 3", "THREE = 4", True),
        ("by_name", "numbers", "THREE = 3", "THREE = 3\nFIVE = 5", True),
        ("no such name", "sweep", "n.THREE * u", "n.THREE + u", True),
    ],
)
def test_an_edit_counts_where_a_name_reaches_it(name, file, old, new, counts) -> None:
    text = FILES[f"own.{file}"]
    assert old in text
    before, after = (
        found_from("own.sweep", name),
        found_from("own.sweep", name, **{file: text.replace(old, new)}),
    )
    assert (before != after) == counts


def test_stars_libraries_and_other_versions_of_python_are_followed() -> None:
    parts, libraries = found_from("own.stars", "through_star")
    assert {"own", "own.stars", "own.rates", "own.numbers", "own.unused_but_loaded"} == set(parts)
    assert not libraries
    assert found_from("own.sweep", "emitted")[1] == {"numpy": "2.0"}
    assert found_from("own.numbers", "TWO")[1] == {}
    assert found_from("own.rates", ALL, rates="print 2") != found_from("own.rates", ALL, rates="print 3")
    assert found_from("own.missing", ALL) == ({}, {})
    (part,) = parts_of(b"print 'of Python 2'\nimport other\n")
    assert part.acts
    assert part.imports == []
