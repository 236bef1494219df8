"""Tables inside sections and repeated sections: values, overrides, and the place and words of faults."""

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.case import AnyCase
from ridgeline.config.explain import explain_rows, json_schema
from ridgeline.config.fields import Checked, Integer, Number, rule_of, setting
from ridgeline.config.load import load_case
from ridgeline.config.schema import fields_of, sections_of
from ridgeline.models import case_class
from ridgeline.runtime.errors import ConfigError

TEXT = """\
[run]
model = "turbulence"
steps = 10
[grid]
shape = [8, 8, 8]
[model]
viscosity = 0.1
dt = 0.1
transpose.method = "node"
[model.fft]
effort = "patient"

[[scalar]]
schmidt = 1.0

[[scalar]]
schmidt = 0.7
mean_gradient = [0, 1, 0]
"""
NAMES = (
    "[run], [grid], [model], [model.transpose], [model.fft], [initial], [forcing], [[scalar]], [particles], "
    "[output], [[output.part]], [checkpoint], [[callback]], [[recorder]]"
)


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str, *overrides: str) -> Any:
    Path("case.toml").write_text(text)
    return load_case("case.toml", case_class, overrides).case


def message(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text, *overrides)
    return str(caught.value)


def test_values_arrive() -> None:
    case = load(TEXT)
    assert (case.model.transpose.method, case.model.fft.effort) == ("node", "patient")
    assert [scalar.schmidt for scalar in case.scalar] == [1.0, 0.7]
    assert case.scalar[1].mean_gradient == (0.0, 1.0, 0.0)
    flat = case.flatten()
    assert (flat["model.transpose.method"], flat["model.fft.effort"]) == ("node", "patient")
    assert (flat["scalar.0.schmidt"], flat["scalar.1.mean_gradient"]) == (1.0, [0.0, 1.0, 0.0])
    assert "scalar" not in flat


def test_inline_tables_and_no_table_at_all() -> None:
    inline = TEXT.split("[[scalar]]")[0].replace("[run]", "scalar = [{ schmidt = 2.0 }]\n[run]")
    assert load(inline).scalar[0].schmidt == 2.0
    bare = TEXT.split("transpose.method")[0]
    case = load(bare)
    assert (case.model.transpose.method, case.model.fft.effort, case.scalar) == ("auto", "measure", ())
    assert case.flatten()["scalar"] == []


def test_overrides_reach_into_tables() -> None:
    case = load(
        TEXT,
        "scalar.0.schmidt=3",
        "scalar.2.schmidt=4",
        "model.fft.effort=estimate",
        "model.transpose.method=auto",
    )
    assert [scalar.schmidt for scalar in case.scalar] == [3.0, 0.7, 4.0]
    assert (case.model.transpose.method, case.model.fft.effort) == ("auto", "estimate")
    first = load(TEXT.split("[[scalar]]")[0], "scalar.0.schmidt=5", "scalar.0.mean_gradient=[1,0,0]")
    assert (first.scalar[0].schmidt, first.scalar[0].mean_gradient) == (5.0, (1.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "scalar.4.schmidt=1",
            "--set scalar.4.schmidt=1: there are 2 [[scalar]], counted from 0. Give a number from 0 to 2, where 2 "
            "adds one.",
        ),
        (
            "scalar.x.schmidt=1",
            "--set scalar.x.schmidt=1: there are 2 [[scalar]], counted from 0. Give a number from 0 to 2, where 2 "
            "adds one.",
        ),
        (
            "scalar.1=3",
            "--set scalar.1=3: this is not the key of a setting. Give one of a table [[scalar]], such as "
            "scalar.0.key=value.",
        ),
        ("grid.shape.0=4", "--set grid.shape.0=4: grid.shape is [8, 8, 8], not a table. Give the key of a setting."),
        ("run.steps.a=4", "--set run.steps.a=4: run.steps is 10, not a table. Give the key of a setting."),
        ("scalar=[]", "--set scalar=[]: write section.key=value, such as run.steps=100."),
        ("scalar.1.schmidt=-1", "--set: scalar.1.schmidt is -1, but it must be a number > 0."),
        (
            "scalar.1.smit=1",
            "--set: unknown key 'scalar.1.smit' in [[scalar]]. Did you mean 'schmidt'? Known keys: schmidt, "
            "mean_gradient, variance.",
        ),
        ("model.transpose.method=all",
         '--set: model.transpose.method is "all", but it must be "auto", "alltoall", "alltoallv", '
         '"ialltoallv", "node" or "shared".'),
        ("model.fft=measure", '--set: model.fft is "measure", but it must be a table, headed [model.fft].'),
        ("forcing.effort=measure", "--set: unknown key 'forcing.effort' in [forcing]. 'effort' belongs to "
                                   "[model.fft]. "
         "Known keys: kind, amplitude, correlation_time, shell_radius, inner_radius, formula, coefficient."),
    ],
)  # fmt: skip
def test_wrong_overrides(override: str, expected: str) -> None:
    assert message(TEXT, override) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("schmidt = 0.7", "schmidt = 0", "case.toml:17: scalar.1.schmidt is 0, but it must be a number > 0."),
        ("schmidt = 0.7\n", "", "case.toml:16: scalar.1.schmidt is missing. It must be a number > 0."),
        (
            "mean_gradient = [0, 1, 0]",
            "mean_gradient = [0, 1]",
            "case.toml:18: scalar.1.mean_gradient is [0, 1], but it must be three numbers as [Gx, Gy, Gz].",
        ),
        (
            "schmidt = 0.7",
            "schmit = 0.7",
            "case.toml:17: unknown key 'schmit' in [[scalar]]. Did you mean 'schmidt'? Known keys: schmidt, "
            "mean_gradient, variance.",
        ),
        (
            'effort = "patient"',
            'efort = "patient"',
            "case.toml:11: unknown key 'efort' in [model.fft]. Did you mean 'effort'? Known keys: effort, on_gpus.",
        ),
        (
            'transpose.method = "node"',
            'transpose_method = "node"',
            "case.toml:9: unknown key 'transpose_method' in [model]. Did you mean 'transpose.method'? Known keys: "
            "viscosity, inviscid, hyperviscosity, hyperviscosity_order, drag, drag_radius, scheme, dealias, dt, "
            "courant, rotation, brunt_vaisala, transpose_variables, transpose.method, "
            "transpose.between_gpus, fft.effort, fft.on_gpus.",
        ),
        (
            'transpose.method = "node"',
            'transpose = "node"',
            'case.toml:9: model.transpose is "node", but it must be a table, headed [model.transpose].',
        ),
        (
            "[[scalar]]\nschmidt = 1.0\n\n[[scalar]]",
            "[scalar]",
            "case.toml:13: scalar is the table [scalar], but it must be a list of tables, each headed [[scalar]].",
        ),
        (
            "[[scalar]]",
            "[[scalars]]",
            f"case.toml:13: unknown section [[scalars]]. Did you mean [[scalar]]? Known sections: {NAMES}.",
        ),
        (
            "[run]",
            "scalar = 3\n[run]",
            "case.toml:1: scalar is 3, but it must be a list of tables, each headed [[scalar]].",
        ),
    ],
    ids=range(10),
)
def test_faults_are_told_with_their_lines(old: str, new: str, expected: str) -> None:
    text = TEXT.replace(old, new)
    if new.startswith("scalar = 3"):
        text = text.split("[[scalar]]")[0]
    assert message(text) == expected


class Inner(Checked):
    """Inside."""

    pair: tuple[Integer, Integer] = setting((1, 2), "A pair without a separate rule.")
    many: tuple[Number, ...] = setting((), "Any number of numbers.")
    choice: Literal["a", "b"] | Integer = setting("a", "A word or a number.")
    maybe: Number | None = setting(None, "A number or nothing.", gt=0)


class Outer(Checked):
    """Outside."""

    inner: Inner = Field(default_factory=Inner)


class NestedCase(AnyCase):
    """A case with what no model has yet: a table inside a repeated table."""

    run: sections.RunSection
    grid: sections.GridSection
    outer: tuple[Outer, ...] = Field(default=())


def test_schema_of_tables_inside_repeated_tables() -> None:
    names = [section.key for section in sections_of(NestedCase)]
    assert names == [
        "run",
        "grid",
        "outer.N",
        "outer.N.inner",
        "output",
        "checkpoint",
        "callback.N",
        "recorder.N",
    ]
    assert [section.header for section in sections_of(NestedCase)][2:4] == ["[[outer]]", "[outer.inner]"]
    rows = {row.key: row for row in explain_rows(NestedCase)}
    assert rows["outer.N.inner.pair"].type == "list of 2 integers"
    assert json_schema(NestedCase)["properties"]["outer"]["type"] == "array"


def test_every_type_has_words_without_a_rule() -> None:
    fields = fields_of(NestedCase)
    words = {name: rule_of(fields[f"outer.N.inner.{name}"]) for name in Inner.model_fields}
    assert words == {
        "pair": "a list of 2 integers",
        "many": "a list of numbers",
        "choice": '"a" or "b" or an integer',
        "maybe": "a number > 0",
    }


def test_broken_pair_in_the_middle_of_tables() -> None:
    text = """\
[run]
model = "nested"
steps = 1
[grid]
shape = [1, 1, 1]
[[outer]]
[[outer]]
[outer.inner]
pair = [1, 2, 3]
maybe = 0
"""
    Path("case.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_case("case.toml", lambda name: NestedCase)
    assert str(caught.value).splitlines() == [
        "case.toml:9: outer.1.inner.pair is [1, 2, 3], but it must be a list of 2 integers.",
        "case.toml:10: outer.1.inner.maybe is 0, but it must be a number > 0.",
    ]


def test_unknown_model_leaves_alone_what_only_models_know() -> None:
    told = message(TEXT.replace("turbulence", "turbulent") + "[output]\nspectra_every = 3\nevery = -1\n")
    assert [line.split(": ")[1].split(" is ")[0] for line in told.splitlines()] == [
        "no model",
        "output.every",
    ]
