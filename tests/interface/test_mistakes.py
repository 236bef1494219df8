"""The mistakes on docs/python.md raise the errors that the page shows, and name keywords and not flags."""

import re
from pathlib import Path

import pytest

import ridgeline
from ridgeline.bench.benchmark import find_benchmark
from ridgeline.interface.keywords import with_keywords
from ridgeline.simulation import report

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text()
MISTAKES = re.findall(r"^\| `([^`]+\))` \| `([^`]+)` \|$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the page has defined before: a case, and its run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("mistakes"))
        patch.setattr(report, "measure_limits", lambda *arguments: {})
        output = {"path": "spots.bp", "every": 2}
        case = ridgeline.Case("gray_scott", steps=4, grid={"shape": (8, 8, 8)}, output=output)
        yield {"ridgeline": ridgeline, "case": case, "run": ridgeline.run(case, progress=False)}


def test_the_page_has_ten_mistakes_or_more() -> None:
    assert len(MISTAKES) >= 10


@pytest.mark.parametrize(("mistake", "error"), MISTAKES, ids=[mistake for mistake, _ in MISTAKES])
def test_a_mistake_raises_the_error_of_the_page(names, mistake, error):
    with pytest.raises(ridgeline.RidgelineError) as raised:
        eval(mistake, names)
    assert str(raised.value).startswith(error)
    assert not re.search(r"(?<![\w-])--[a-z]", str(raised.value)), "a flag of the command line"


def test_flags_become_keywords_and_other_words_stay() -> None:
    options = find_benchmark("latency").offered
    message = "--all-pairs takes --min-size -1, on -n 4 ranks; `ridgeline run --resume auto` is non-finite."
    names = {option.name for option in options}
    assert with_keywords(message, options) == (
        f"all_pairs takes {'min_size' if 'min_size' in names else '--min-size'} -1, on ranks 4 ranks; "
        "`ridgeline run --resume auto` is non-finite."
    )
