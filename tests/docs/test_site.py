"""`make site` without executing notebooks: no warning, whole pages, no broken link, nothing from other hosts."""

import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx", reason="the extra `docs` is not installed")

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.full


class Page(HTMLParser):
    """What a page of HTML refers to, what it can be entered by, and what a browser loads for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.names |= {found[name] for name in ("id", "name") if name in found}
        if "src" in found:
            self.loaded.append(found["src"])
        if "href" in found:
            (self.loaded if tag == "link" and found.get("rel") == "stylesheet" else self.links).append(
                found["href"]
            )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = ["-W", "--keep-going", "-q", "-c", "docs/sphinx", "-D", "nb_execution_mode=off"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, "-d", str(folder / "doctrees"), ".", str(folder / "html")],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "html"


@pytest.fixture(scope="module")
def parsed(site: Path) -> dict[Path, Page]:
    paths = (path for path in site.rglob("*.html") if "_static" not in path.parts)  # the theme's own
    return {path: Page(path.read_text()) for path in paths}


def test_links_and_pictures_lead_somewhere(site: Path, parsed: dict[Path, Page]) -> None:
    assert len(parsed) > 60
    wrong = []
    for path, page in parsed.items():
        for link in {*page.links, *page.loaded}:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("#"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                wrong.append(f"{path.relative_to(site)}: {link}: no such file")
            elif parts.fragment and target in parsed and unquote(parts.fragment) not in parsed[target].names:
                wrong.append(f"{path.relative_to(site)}: {link}: no such place")
    assert not wrong, "\n".join(wrong)


def test_a_browser_loads_nothing_from_other_hosts(site: Path, parsed: dict[Path, Page]) -> None:
    wrong = [
        f"{path.relative_to(site)}: {link}"
        for path, page in parsed.items()
        for link in page.loaded
        if urlsplit(link).netloc
    ]
    assert not wrong, "\n".join(wrong)


def test_every_page_links_to_its_source(site: Path, parsed: dict[Path, Page]) -> None:
    without = [
        str(path.relative_to(site))
        for path, page in parsed.items()
        if path.parent != site
        or path.name in ("README.html", "CONTRIBUTING.html")  # not those that Sphinx makes
        if not any("_sources/" in link for link in page.links)
    ]
    assert not without, "\n".join(without)


def test_what_is_wide_scrolls_by_itself(site: Path) -> None:
    page = (site / "docs" / "theory-turbulence.html").read_text()
    assert page.count('<div class="formula"><math') > 10
    settings = (site / "docs" / "settings.html").read_text()
    assert settings.count("<table") == settings.count('<div class="pst-scrollable-table-container">')
    assert 'class="prose"' in settings


def test_the_gallery_has_the_pictures(site: Path, parsed: dict[Path, Page]) -> None:
    pictures = [
        Path(link).name for link in parsed[site / "examples" / "README.html"].loaded if "_images" in link
    ]
    assert len(pictures) == len(set(pictures)) > 8
    assert set(pictures) >= {
        Path(link).name for link in parsed[site / "docs" / "index.html"].loaded if "_images" in link
    }


def test_the_interface_is_there(site: Path, parsed: dict[Path, Page]) -> None:
    names = parsed[site / "docs" / "api.html"].names
    assert names >= {"ridgeline.open", "ridgeline.Case.replace", "ridgeline.Simulation.advance"}
    assert names >= {"ridgeline.analysis.plot.plot_slices", "ridgeline.models.contract.Model"}
    text = re.sub(r"<[^>]+>", "", (site / "docs" / "api.html").read_text())
    assert "Advance by some steps, at most to the last one" in text


def test_notebooks_come_as_one_file(site: Path, parsed: dict[Path, Page]) -> None:
    assert "notebooks.zip" in parsed[site / "notebooks" / "README.html"].links
    with zipfile.ZipFile(site / "notebooks" / "notebooks.zip") as archive:
        assert archive.namelist() == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_the_site_starts_at_the_index(site: Path) -> None:
    assert "url=docs/index.html" in (site / "index.html").read_text()
