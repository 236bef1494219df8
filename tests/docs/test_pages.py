"""What the site adds to the pages follows from them: cards of examples, tables of contents, the API reference."""

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ridgeline

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.parent.name for path in ROOT.glob("examples/*/README.md"))


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs" / "sphinx" / "pages.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where a dataclass looks for its annotations
    spec.loader.exec_module(module)
    return module


def tree_of(text: str) -> list[str]:
    """Return the pages of all tables of contents of a text."""
    trees = re.findall(r"```\{toctree\}\n:hidden:\n(?::caption: [^\n]+\n)?\n(.*?)```", text, re.DOTALL)
    return [line.split("<")[-1].strip("/>") for tree in trees for line in tree.splitlines()]


def test_every_example_has_a_card(pages) -> None:
    text = pages.prepared("examples/README", (ROOT / "examples" / "README.md").read_text())
    linked = re.findall(r"^:link: /examples/(\w+)/README$", text, re.MULTILINE)
    assert sorted(linked) == EXAMPLES, "examples/README.md links to every example once"
    assert text.index("{grid}") < text.index("| case |"), "pictures come first"


def test_a_card_has_title_first_sentence_picture_and_link(pages) -> None:
    (card,) = (one for one in pages.summaries() if one.page == "examples/gray_scott/README")
    assert card.title == "Gray-Scott: labyrinth of sheets and tubes"
    assert card.sentence.startswith("(F, k) = (0.025, 0.053) on 128^3 cells: a cube of V grows")
    assert card.picture == "examples/gray_scott/picture.png"
    for one in pages.summaries():
        assert one.sentence.endswith("."), one
        assert 3 < len(one.sentence.split()) < 45, one
        assert "](" not in one.sentence, one
        assert one.picture is None or ((ROOT / one.picture).is_file() and one.words), one


def test_the_start_shows_pictures_first(pages) -> None:
    text = pages.prepared("docs/index", (ROOT / "docs" / "index.md").read_text())
    assert text.index(":img-top:") < text.index("## Tutorials")
    assert text.count("````{grid-item-card}") == text.count(":img-top:") > 8


def test_every_page_is_in_one_table_of_contents(pages) -> None:
    found = {
        pages.name_of(path)
        for pattern in pages.PATTERNS
        for path in ROOT.glob(pattern)
        if path.suffix in (".md", ".ipynb")
    }
    trees = [
        entry
        for name in found
        if (path := ROOT / f"{name}.md").is_file()
        for entry in tree_of(pages.prepared(name, path.read_text()))
    ]
    assert sorted(trees) == sorted(found - {"docs/index"})


def test_links_to_folders_lead_to_their_page(pages) -> None:
    text = "[a](../examples/hpl) [b](example_models/heat/) [c](theory.md) ![d](figures) [e](https://host/x)"
    assert pages.with_pages_for_folders("docs/index", text) == (
        "[a](../examples/hpl/README.md) b [c](theory.md) ![d](figures) [e](https://host/x)"
    )


def test_commands_are_told_from_other_listings(pages) -> None:
    text = "```\nridgeline run a.toml\n```\n```\nu_t = f\n```\n```toml\nmake = 1\n```\n"
    assert pages.prepared("docs/theory", text) == text.replace("```\nridge", "```bash\nridge")


def test_the_interface_has_every_public_name(pages) -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    text = pages.prepared("docs/api", page)
    named = re.findall(r"^\.\. auto(\w+):: (ridgeline\.[\w.]+)$", text, re.MULTILINE)
    names = [name for name in ridgeline.__all__ if not name.startswith("_")]
    public = {f"ridgeline.{name}" for name in names if not inspect.ismodule(getattr(ridgeline, name))}
    assert public <= {name for _, name in named}
    assert {name: kind for kind, name in named}["ridgeline.RunInterrupted"] == "exception"
    assert ("function", "ridgeline.open") in named
    assert ("function", "ridgeline.elements.quadrature.gauss_lobatto") in named, (
        "a cached function is a function"
    )
    listed = re.findall(r"^- `(ridgeline[\w.]+)`:", page, re.MULTILINE)
    constants = set(listed) - {name for _, name in named}
    assert constants < {name for name in listed if name.split(".")[-1][0].isupper()}
    assert all(f"{{py:obj}}`{name}`" in text for name in listed)


def test_code_in_docstrings_is_marked(pages) -> None:
    text = "Use `run`, not ``walk``.\n\n    run()\n\nMore."
    assert pages.docstring_as_rst(text) == (
        "Use ``run``, not ``walk``.\n\n.. code-block:: python\n\n    run()\n\nMore."
    )
    sections = "Parameters\n----------\nx : int\n    The first.\n\n    Further.\n"
    assert pages.docstring_as_rst(f"Add.\n\n{sections}") == f"Add.\n\n{sections}", "they are in NumPy's form"


def test_formulas_are_repaired(pages) -> None:
    def formula(inside: str) -> str:
        return f'<math xmlns="{pages.MATHML}">{inside}</math>'

    accent = '<mo stretchy="false">ˆ</mo>'
    below = f"<munderover><mi>u</mi><mi>j</mi>{accent}</munderover>"
    beside = f'<msub><mover accent="true"><mi>u</mi>{accent}</mover><mi>j</mi></msub>'
    text = "<mtext>a&nbsp;&lt;</mtext>"
    assert pages.repaired_formula(formula(below + text)) == formula(
        beside + "<mtext>a\N{NO-BREAK SPACE}&lt;</mtext>"
    )
    limits = "<munderover><mo>∑</mo><mi>j</mi><mi>n</mi></munderover>"
    assert pages.repaired_formula(formula(limits)) == formula(limits)
    bars = '<mo class="mathopen">|</mo><mi>k</mi><msup><mo>|</mo><mn>2</mn></msup>'
    forms = (
        '<mo class="mathopen" form="prefix">|</mo><mi>k</mi><msup><mo form="postfix">|</mo><mn>2</mn></msup>'
    )
    assert pages.repaired_formula(formula(bars)) == formula(forms)
