"""What people import is documented in NumPy's form, is listed by docs/api.md, and has examples that run.

Examples that need two ranks are run by tests/ranks/test_public_examples.py.
"""

import inspect
import re
from pathlib import Path

import pytest

import public_names
import ridgeline
from ridgeline.simulation import report

PAGE = (public_names.ROOT / "docs" / "api.md").read_text()
ROW = re.compile(r"^- `(ridgeline[\w.]+)`: (.+?)\n(?=-|\n|\Z)", re.MULTILINE | re.DOTALL)
THINGS = public_names.documented()


def summary_of(thing: object) -> str:
    return inspect.cleandoc(thing.__doc__ or "").split("\n")[0]


def test_what_people_import_is_found() -> None:
    found = public_names.imported()
    assert {
        "ridgeline.open",
        "ridgeline.analysis.plot.plot_slices",
        "ridgeline.api.HaloExchange",
    } <= set(found)
    assert "ridgeline.bench.ring.ring_options.RingOptions" not in found, "it is of a page's own example"
    assert len(THINGS) > 50


def test_names_are_found_in_programs_and_in_scripts() -> None:
    program = "%matplotlib inline\nfrom ridgeline.analysis.pdf import compute_pdf as pdf\nimport numpy\n"
    assert list(public_names.names_in(program)) == [("ridgeline.analysis.pdf", "compute_pdf")]
    script = "python - <<'END'\nfrom ridgeline.io.series import read_series, fingerprint\nEND\n"
    assert [name for _, name in public_names.names_in(script)] == ["read_series", "fingerprint"]


def test_what_people_import_is_documented() -> None:
    places = public_names.imported()
    wrong = [
        f"{name} (imported by {places[name]}) lacks {'; '.join(faults)}"
        for name, thing in THINGS.items()
        if (faults := public_names.lacks(thing))
    ]
    assert not wrong, "\n".join(wrong)


def test_methods_of_the_main_classes_are_documented() -> None:
    wrong = [
        f"{kind.__name__}.{name} lacks {'; '.join(faults)}"
        for kind in (ridgeline.Case, ridgeline.Simulation)
        for name, method in vars(kind).items()
        if not name.startswith("_") and not isinstance(method, property)
        if (faults := [f for f in public_names.lacks(getattr(kind, name)) if "xample" not in f])
    ]
    assert not wrong, "\n".join(wrong)


def test_a_poor_docstring_is_noticed() -> None:
    def double(x: int, y: int) -> int:
        """double a number

        Parameters
        ----------
        x : int
            The number.

        Notes
        -----
        Collective.
        """

    assert public_names.lacks(double) == [
        "a summary of one line that ends with a full stop",
        "Parameters: y",
        "Returns",
        "Examples",
        "an example with two ranks",
    ]


def test_the_page_lists_everything_with_its_summary() -> None:
    rows = {name: " ".join(text.split()) for name, text in ROW.findall(PAGE)}
    expected = public_names.imported().keys()
    modules = {name for name in expected if inspect.ismodule(public_names.thing_of(name))}
    assert rows.keys() == expected - modules, "docs/api.md lists what people import"
    wrong = [
        f"docs/api.md: {name}: {summary_of(thing)}"
        for name, thing in THINGS.items()
        if rows[name] != summary_of(thing)
    ]
    assert not wrong, "the summaries are\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "name", [n for n, thing in THINGS.items() if not public_names.needs_two_ranks(thing)]
)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})
    said = public_names.run_example(name, THINGS[name])
    assert not said, said
