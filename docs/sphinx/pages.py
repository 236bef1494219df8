"""What the site has beside the pages as they are: cards of the examples, tables of contents, the API reference.

All of it follows from the pages themselves, so that nothing is said twice. Nothing here needs Sphinx.
"""

import html
import inspect
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
# The pages of the site, as Sphinx's include_patterns.
PATTERNS = (
    "*.md", "docs/*.md", "examples/*.md", "examples/*/README.md", "notebooks/*.md", "notebooks/*.ipynb",
    "benchmarks/*.md", "benchmarks/history/*.md", "benchmarks/papers/README.md", "centre/README.md",
)  # fmt: skip
INDEX = "docs/index"
GALLERY = "examples/README"
TUTORIALS = "notebooks/README"
RECORDS = "benchmarks/history/README"
API = "docs/api"

START = f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Ridgeline</title><meta http-equiv="refresh" content="0; url={INDEX}.html"></head>
<body><a href="{INDEX}.html">Ridgeline</a></body>
</html>
"""

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)\)")
ITEM = re.compile(r"^- \[([^\]]*)\]\(([^)\s#]+)\)", re.MULTILINE)
COMMANDS = re.compile(
    r"^```\n(?=(?:ridgeline|make|python3?|pip|mpiexec|srun|sbatch|[A-Z_]+=\S+) )", re.MULTILINE
)
NAME = re.compile(r"^- `(ridgeline[\w.]+)`:", re.MULTILINE)  # an item of the API reference
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
PROSE = re.compile(r"(?m)^(?![|!#<]|```|    |\s*$)(?:.+\n)+")
SENTENCE = re.compile(r".+?(?:[.!?](?=\s+[A-Z`])|[.!?:](?=\s*$))", re.DOTALL)


@dataclass(frozen=True)
class Summary:
    """What a card shows of an example; picture: path from the root, and its words."""

    page: str
    title: str
    sentence: str
    picture: str | None
    words: str


def prepared(page: str, text: str) -> str:
    """Return the source of a page of the site: as it is stored, with what the site adds."""
    text = COMMANDS.sub("```bash\n", with_pages_for_folders(page, text))
    if page == INDEX:
        text = "\n".join(_with_tree(section) for section in re.split(r"(?m)^(?=## )", text))
        return text.replace("\n## Examples\n", f"\n## Examples\n\n{cards(with_picture=True)}\n", 1)
    if page == GALLERY:
        first, rest = text.split("\n\n", 1)
        text = f"{first}\n\n{cards()}\n\n{rest}"
    if page == TUTORIALS:
        text += '\n<p><a href="notebooks.zip" download>All notebooks in one file</a></p>\n'
    if page == API:
        text = "\n".join(_with_docstrings(section) for section in re.split(r"(?m)^(?=## )", text))
    if page in (GALLERY, TUTORIALS, RECORDS):
        text += _tree("", [f"/{below}" for below in linked_below(page)])
    return text


def with_pages_for_folders(page: str, text: str) -> str:
    """Return a text whose links to folders lead to their README; of folders without one the words stay."""
    here = (ROOT / page).parent

    def replaced(found: re.Match[str]) -> str:
        words, target = found.groups()
        if re.match(r"[a-z]+:", target) or not (here / target).is_dir():
            return found[0]
        readme = here / target / "README.md"
        return f"[{words}]({target.rstrip('/')}/README.md)" if readme.is_file() else words

    return LINK.sub(replaced, text)


def name_of(path: Path) -> str:
    """Return the name of a page for Sphinx: its path from the root without the suffix."""
    return path.resolve().relative_to(ROOT).with_suffix("").as_posix()


def linked_below(page: str) -> list[str]:
    """Return the pages below the folder of a page that it links to, in its order, each once."""
    here = (ROOT / page).parent
    text = with_pages_for_folders(page, (ROOT / f"{page}.md").read_text())
    paths = ((here / target).resolve() for _, target in LINK.findall(text) if ":" not in target)
    found = [
        name_of(path)
        for path in paths
        if path.suffix in (".md", ".ipynb") and path.is_relative_to(here) and path.is_file()
    ]
    return [name for name in dict.fromkeys(found) if name != page]


def summaries() -> Iterator[Summary]:
    """Yield what is shown of each example, in the order in which examples/README.md links to them."""
    for page in linked_below(GALLERY):
        path = ROOT / f"{page}.md"
        title, text = path.read_text().removeprefix("# ").split("\n", 1)
        picture = PICTURE.search(text)
        prose = PROSE.search(text)
        sentence = SENTENCE.match(LINK.sub(r"\1", prose[0])) if prose else None
        assert sentence is not None, f"{page}: no sentence after the title"
        place = (path.parent / picture[2]).resolve().relative_to(ROOT).as_posix() if picture else None
        yield Summary(
            page, title, f"{' '.join(sentence[0].split())[:-1]}.", place, picture[1] if picture else ""
        )


def cards(with_picture: bool = False) -> str:
    """Return a grid of cards of the examples; with_picture leaves out those that have none."""
    shown = [one for one in summaries() if one.picture or not with_picture]
    strip = [":class-container: strip"] if with_picture else []  # on narrow screens (site.css)
    return "\n".join(["`````{grid} 1 2 2 3", ":gutter: 3", *strip, "", *map(_card, shown), "`````"])


def _card(one: Summary) -> str:
    picture = [f":img-top: /{one.picture}", f":img-alt: {one.words}"] if one.picture else []
    options = [*picture, f":link: /{one.page}", ":link-type: doc", ":class-card: example"]
    return "\n".join([f"````{{grid-item-card}} {one.title}", *options, "", one.sentence, "````", ""])


def _with_tree(section: str) -> str:
    """Return a section of the index with a table of contents: the pages that its items begin with, by their words."""
    here = (ROOT / INDEX).parent
    entries = [f"{words} </{name_of(here / target)}>" for words, target in ITEM.findall(section)]
    return section + _tree(section.split("\n", 1)[0].removeprefix("## "), entries)


def _tree(caption: str, entries: list[str]) -> str:
    if not entries:
        return ""
    head = ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), ""]
    return "\n" + "\n".join([*head, *entries, "```"]) + "\n"


def _with_docstrings(section: str) -> str:
    """Return a section of the API reference whose items lead to their docstrings, which follow the items."""
    names = NAME.findall(section)
    if not names:
        return section
    linked = NAME.sub(r"- {py:obj}`\1`:", section)
    return "\n".join(
        [linked, "```{eval-rst}", *(line for name in names for line in _directive(name)), "```", ""]
    )


def _directive(name: str) -> list[str]:
    """Return the directive that documents a function or a class by its dotted name; none for a constant."""
    module, _, last = name.rpartition(".")
    thing = getattr(import_module(module), last)
    if inspect.isroutine(thing):
        return [f".. autofunction:: {name}", ""]
    if not isinstance(thing, type):
        return []
    kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
    inherited = ["   :inherited-members: ABC"] if inspect.isabstract(thing) else []
    return [f".. {kind}:: {name}", "   :members:", *inherited, ""]


def docstring_as_rst(text: str) -> str:
    """Return a docstring with its code marked as Sphinx wants it: `name`, and indented paragraphs before sections."""
    text = re.sub(r"(?<!`)`([^`\n]+)`(?!`)", r"``\1``", text)
    before, *sections = re.split(r"(?m)^(?=[A-Z]\w+\n-{3,}$)", text)
    before = "\n\n".join(
        f".. code-block:: python\n\n{paragraph}" if paragraph.startswith("    ") else paragraph
        for paragraph in re.split(r"\n\s*\n", before)
    )
    return before + "".join(sections)


MATHML = "http://www.w3.org/1998/Math/MathML"


def repaired_formula(mathml: str) -> str:
    """Return a formula of docutils with subscripts beside accented letters, not below them, and with closing bars."""
    ElementTree.register_namespace("", MATHML)
    entities = re.compile(r"&(?!lt;|gt;|amp;)\w+;")  # those of HTML, such as &nbsp;
    root = ElementTree.fromstring(entities.sub(lambda found: html.unescape(found[0]), mathml))
    for element in root.iter(f"{{{MATHML}}}munderover"):
        letter, subscript, over = element
        if over.tag == f"{{{MATHML}}}mo" and len(over.text or "") == 1:
            accented = ElementTree.Element(f"{{{MATHML}}}mover", accent="true")
            accented.extend([letter, over])
            element[:] = [accented, subscript]
            element.tag = f"{{{MATHML}}}msub"
    opened = 0
    for bar in (each for each in root.iter(f"{{{MATHML}}}mo") if each.text in ("|", "‖")):
        if bar.get("class") == "mathopen":
            opened += 1
            bar.set("form", "prefix")
        elif opened:  # the one that \\rvert writes has no class
            opened -= 1
            bar.set("form", "postfix")
    return ElementTree.tostring(root, encoding="unicode")


def write_files(folder: Path) -> None:
    """Write what is no page: the notebooks as one file, and the start of the site."""
    (folder / "notebooks").mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "notebooks" / "notebooks.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
            archive.write(path, path.name)
    (folder / "index.html").write_text(START)
