"""What the documents point to exists: files, headings, commands and make targets. Their sentences are short."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.config.load import load_case
from ridgeline.models import available, case_class
from ridgeline.runtime import errors

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path
    for folder in (ROOT, *(ROOT / name for name in ("docs", "examples", "benchmarks", "notebooks", "site")))
    for path in (folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
# Pages that are generated, or a record to which lines are only added.
NOT_PROSE = ("benchmarks.md", "decisions.md", "settings.md", "CHANGELOG.md", "RESULTS.md")
RECORDS = ROOT / "benchmarks" / "history"  # sections of results, as they were measured
PROSE = [page for page in PAGES if page.name not in NOT_PROSE and page.parent != RECORDS]
MAX_WORDS = 25
ABBREVIATION = re.compile(r"\b(et al|Eqs?|Secs?|Figs?|Comput)\. ")
WORD = re.compile(r"[aAI]|\d[\d.,]*|[^\W\d_][\w'’/^-]+")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TAG = re.compile(
    r"(?<!\\)</?[A-Za-z][A-Za-z0-9-]*(?:\s+[A-Za-z_:][\w.:-]*)*\s*/?>"
)  # CommonMark's, without values
# Where an item of a list in a docstring begins: `name : what`, a ruled heading, `; name, other [shape]: what`.
NAME = r"[\w`]+(?:\s+\[[^]]*\])?"
ITEM = re.compile(rf"\n(?=[\w*, ]+ : )|\n-{{4,}}\n|;\s+(?={NAME}(?:,\s+{NAME})*:\s)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(page: Path) -> str:
    """Return the text of a page, of a notebook that of its cells of text."""
    if page.suffix != ".ipynb":
        return page.read_text()
    cells = json.loads(page.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def anchors(page: Path) -> set[str]:
    """Return the fragments that the headings of a page answer to, made as GitHub makes them."""
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"^#+\s+(.+?)\s*#*$", FENCE.sub("", text_of(page)), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        names.add(f"{slug}-{count}" if count else slug)
    return names


def test_there_are_pages() -> None:
    assert ROOT / "README.md" in PAGES
    assert ROOT / "docs" / "index.md" in PAGES


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    broken = []
    for groups in LINK.findall(FENCE.sub("", text_of(page))):
        link = groups[0] or groups[1]
        if re.match(r"[a-z]+:", link):
            continue
        file, _, fragment = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists():
            broken.append(f"{link}: no such file")
        elif fragment and target.suffix in (".md", ".ipynb") and fragment not in anchors(target):
            broken.append(f"{link}: no such heading in {name(target)}")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=name)
def test_no_average_is_taken_for_a_tag(page: Path) -> None:
    """`<u>` is shown in code; elsewhere a browser takes it for underlining, and \\<u> is what shows it."""
    found = TAG.findall(re.sub(r"`[^`]*`", "", FENCE.sub("", text_of(page))))
    assert not found


def test_every_page_of_docs_is_reached_from_the_index() -> None:
    links = set(re.findall(r"\]\(([^)#\s]+\.md)", (ROOT / "docs" / "index.md").read_text()))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= links, f"docs/index.md does not link to {sorted(pages - links)}"


def test_pages_named_in_the_code_exist() -> None:
    """Error messages send people to docs/; so do docstrings."""
    missing = [
        f"{name(path)}: {page}"
        for folder in ("src", "examples", "tools", "benchmarks", "site")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".toml", ".sh")
        for page in re.findall(r"docs/[\w-]+\.md", path.read_text())
        if not (ROOT / page).is_file()
    ]
    assert not missing, "\n".join(missing)


def test_commands_and_targets_in_the_pages_exist() -> None:
    commands = {path.stem for path in (ROOT / "src" / "ridgeline" / "cli").glob("*.py")}
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wrong = []
    for page in PAGES:
        code = "\n".join(re.findall(r"`[^`\n]+`", page.read_text()) + FENCE.findall(page.read_text()))
        wrong += [
            f"{name(page)}: ridgeline {command}"
            for command in re.findall(r"(?:^|[/`\s])ridgeline ([a-z]\w*)", code)
            if command not in commands
        ]
        wrong += [
            f"{name(page)}: make {target}"
            for target in re.findall(r"(?:^|[`\s])make ([a-z][\w-]*)", code)
            if target not in targets
        ]
    assert not wrong, "\n".join(wrong)


def sentences(text: str) -> list[str]:
    """Return the sentences of a page without its listings, tables, headings and pictures; `a b` becomes Code."""
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", FENCE.sub("\n\n", text))
    found = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|\n(?=[#|])", text):
        if paragraph.startswith(("|", "#", "    ", "<!--")):
            continue
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "Code", paragraph))
        plain = ABBREVIATION.sub(r"\1 ", " ".join(plain.split()))
        found += re.split(r"(?<=[.!?])[\"')*]*\s+|(?<=[:;])\s+(?=[A-Z\"'(*])", plain)
    return found


def count_words(sentence: str) -> int:
    """Return the number of words and numbers; formulas and single letters are none."""
    return sum(bool(WORD.fullmatch(word.strip("()[]\"'*_<>,.;:!?"))) for word in sentence.split())


def test_words_of_sentences_are_counted() -> None:
    text = "One, two `a b` [three](x.md), see Eq. 4 of [1]: k = 2.\nA second.\n\n| a | table |\n\n- An item: Of two."
    found = sentences(text)
    assert found == ["One, two Code three, see Eq 4 of [1]: k = 2.", "A second.", "- An item:", "Of two."]
    assert [count_words(sentence) for sentence in found] == [10, 2, 2, 2]


@pytest.mark.parametrize("page", PROSE, ids=name)
def test_sentences_are_short(page: Path) -> None:
    long = [f"{n} words: {s}" for s in sentences(page.read_text()) if (n := count_words(s)) > MAX_WORDS]
    assert not long, "\n".join(long)


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring of a file."""
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


def docstring_sentences(text: str) -> list[str]:
    """Return the sentences of a docstring without its indented paragraphs, such as formulas and tables.

    An item of a list of names, such as `x: shape, unit; y: shape, unit`, ends at the semicolon before the next name
    and its colon. No other semicolon ends a sentence, but before a capital as in the pages.
    """
    prose = [paragraph for paragraph in re.split(r"\n\s*\n", text) if not paragraph.startswith("    ")]
    return sentences(ITEM.sub("\n\n", "\n\n".join(prose)))


def test_items_of_a_docstring_are_counted_each() -> None:
    source = '''
def f():
    """Do it.

    sizes: int64 [n]; low, high [n, 2]: bounds; no item here: one.

        table; a: b

    Parameters
    ----------
    x, y : of points,
        in m
    z : of cells
    """
'''
    ((line, text),) = docstrings(source)
    assert line == 3
    assert docstring_sentences(text) == [
        "Do it.",
        "sizes: int64 [n]",
        "low, high [n, 2]: bounds; no item here: one.",
        "Parameters",
        "x, y : of points, in m",
        "z : of cells",
    ]


def test_sentences_of_docstrings_are_short() -> None:
    """The limit is that of the pages, for each sentence and each item of a list of names."""
    long = [
        f"{name(path)}:{line}: {n} words: {sentence}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for line, text in docstrings(path.read_text())
        for sentence in docstring_sentences(text)
        if (n := count_words(sentence)) > MAX_WORDS
    ]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("page", PROSE, ids=name)
def test_lines_of_prose_are_short(page: Path) -> None:
    lines = FENCE.sub("", page.read_text()).splitlines()
    long = [line for line in lines if len(line) >= 120 and not line.startswith(("|", "!", "    "))]
    assert not long, "\n".join(long)


def test_python_files_named_in_the_pages_exist() -> None:
    """A page names a file by the end of its path, such as `models/gray_scott/kernels.py`."""
    folders = ("src", "tests", "tools", "docs", "examples", "benchmarks", "site")
    files = [f"/{name(path)}" for folder in folders for path in (ROOT / folder).rglob("*.py")]
    named = [
        (page, file)
        for page in PAGES
        if page.name not in ("CHANGELOG.md", "decisions.md")
        for file in re.findall(r"`([\w./-]+\.py)`", page.read_text())
    ]
    wrong = [
        f"{name(page)}: {file}" for page, file in named if not any(f.endswith(f"/{file}") for f in files)
    ]
    assert len(named) > 20
    assert not wrong, "\n".join(wrong)


def test_papers_are_called_by_their_titles() -> None:
    """Where a page or a docstring names a first author and a title, it is the one of CITATION.cff."""
    text = (ROOT / "CITATION.cff").read_text().split("references:")[1]
    papers = re.findall(r"title: \"?(.+?)\"?\n +authors:\n +- family-names: (\S+)", text)
    assert ("A Look at Communication-Intensive Performance in Julia", "Rizvi") in papers
    sources = [*PAGES, *(path for path in (ROOT / "src").rglob("*.py"))]
    named, wrong = 0, []
    for path in sources:
        words = " ".join(path.read_text().replace("#", " ").split())
        for title, author in papers:
            for said in re.findall(
                rf"\b{author}\b(?:(?!\d\. )[^\"*|]){{1,60}}[\"*]([A-Z][^\"*]{{25,}})[\"*]", words
            ):
                named += 1
                if said.lower() != title.lower():
                    wrong.append(f'{name(path)}: {author}, "{said}" is "{title}"')
    assert named > 4
    assert not wrong, "\n".join(wrong)


def test_exit_codes_are_those_of_the_error_classes() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    written = {
        name: int(code) for code, name in re.findall(r"^\| (\d+) \| (\w+Error) \|", page, re.MULTILINE)
    }
    classes = [
        v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, errors.RidgelineError)
    ]
    assert written == {c.__name__: c.exit_code for c in classes}


def test_cases_in_the_pages_are_valid(tmp_path: Path) -> None:
    cases = [
        (page, text)
        for page in PAGES
        for text in re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        if (found := re.search(r'model = "(\w+)"', text)) and found.group(1) in available()
    ]
    assert cases
    for page, text in cases:
        path = tmp_path / f"{page.stem}.toml"
        path.write_text(text)
        assert not load_case(str(path), case_class, []).warnings, name(page)
