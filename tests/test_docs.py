"""What the pages point to exists: files, headings, commands, make targets and exit codes. Their cases are valid."""

import json
import re
from importlib.metadata import version
from pathlib import Path

from ridgeline.cli.main import app
from ridgeline.config.load import load_case
from ridgeline.models import available, case_class
from ridgeline.runtime import errors
from ridgeline.version import VERSION

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path
    for folder in (ROOT, *(ROOT / name for name in ("docs", "examples", "benchmarks", "notebooks", "centre")))
    for path in (folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


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


def test_relative_links_lead_somewhere() -> None:
    broken = []
    for page in (*PAGES, *NOTEBOOKS):
        for groups in LINK.findall(FENCE.sub("", text_of(page))):
            link = groups[0] or groups[1]
            if re.match(r"[a-z]+:", link):
                continue
            file, _, fragment = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            if not target.exists():
                broken.append(f"{name(page)}: {link}: no such file")
            elif fragment and target.suffix in (".md", ".ipynb") and fragment not in anchors(target):
                broken.append(f"{name(page)}: {link}: no such heading in {name(target)}")
    assert not broken, "\n".join(broken)


def test_every_page_of_docs_is_reached_from_the_index() -> None:
    links = set(re.findall(r"\]\(([^)#\s]+\.md)", (ROOT / "docs" / "index.md").read_text()))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= links, f"docs/index.md does not link to {sorted(pages - links)}"


def test_pages_named_in_the_code_exist() -> None:
    """Error messages send people to docs/; so do docstrings."""
    missing = [
        f"{name(path)}: {page}"
        for folder in ("src", "examples", "tools", "benchmarks", "centre")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".toml", ".sh")
        for page in re.findall(r"docs/[\w-]+\.md", path.read_text())
        if not (ROOT / page).is_file()
    ]
    assert not missing, "\n".join(missing)


def test_commands_and_targets_in_the_pages_exist() -> None:
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    commands |= {group.name for group in app.registered_groups}
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wrong = []
    for page in PAGES:
        code = "\n".join(re.findall(r"`[^`\n]+`", page.read_text()) + FENCE.findall(page.read_text()))
        wrong += [
            f"{name(page)}: ridgeline {command}"
            for command in re.findall(r"(?:^|[/`\s])ridgeline ([a-z][\w-]*)", code)
            if command not in commands
        ]
        wrong += [
            f"{name(page)}: make {target}"
            for target in re.findall(r"(?:^|[`\s])make ([a-z][\w-]*)", code)
            if target not in targets
        ]
    assert not wrong, "\n".join(wrong)


def test_python_files_named_in_the_pages_exist() -> None:
    """A page names a file by the end of its path, such as `models/gray_scott/kernels.py`."""
    folders = ("src", "tests", "tools", "docs", "examples", "benchmarks", "centre")
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


def test_the_citation_and_the_changelog_name_this_version() -> None:
    """The version itself stands in `ridgeline/version.py` alone; the installed package takes it from there."""
    assert version("ridgeline") == VERSION
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1] == VERSION
    released = re.search(
        r"^## (\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert released.groups() == (VERSION, re.search(r"^date-released: (\S+)$", citation, re.MULTILINE)[1])
