"""What declarations promise: functions that are there, options that are checked, a page that is up to date."""

import re
import runpy
from dataclasses import dataclass, is_dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Literal, get_type_hints

import pytest

import ridgeline.bench
from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions, available, find_benchmark
from ridgeline.bench.pairs.pairs_options import OneWayOptions
from ridgeline.cli.bench_commands import OUTPUTS
from ridgeline.runtime.declared_options import OptionSpec, options_of
from ridgeline.runtime.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
ALL = list(available().values())


@dataclass(frozen=True)
class SomeOptions(BenchmarkOptions):
    """Options of every kind."""

    way: Annotated[Literal["short", "long"], OptionSpec("Which way.")] = "short"
    count: Annotated[int, OptionSpec("How many.", minimum=1, maximum=9)] = 3
    seconds: Annotated[float | None, OptionSpec("How long.", unit="s", above=0, flags=("--rt", "-t"))] = None
    sizes: Annotated[tuple[int, int], OptionSpec("From, to.", minimum=0)] = (1, 8)
    kinds: Annotated[tuple[Literal["a", "b"], ...], OptionSpec("Of what kind.", otherwise="all")] = ()
    detour: Annotated[int, OptionSpec("Of a long way.", only=("way", "long"))] = 0


def test_the_function_takes_what_is_declared():
    for benchmark in ALL:
        case = benchmark.name
        function = benchmark.find(benchmark.function)
        first, second, *others = signature(function).parameters
        assert (first, second) == ("comm", "options"), case
        assert set(others) <= {"memory", "progress"}, case
        assert "memory" in others or "device" not in {one.name for one in benchmark.offered}, case
        assert re.search(
            rf"options: {benchmark.options.__name__}\b", str(signature(function)).replace("'", "")
        ), case
        assert "-> 'Result'" in str(signature(function)) or "-> Result" in str(signature(function)), case
        if benchmark.finish is not None:
            assert list(signature(benchmark.find(benchmark.finish)).parameters) == ["result", "options"], case


def test_a_declaration_is_complete():
    for benchmark in ALL:
        case = benchmark.name
        assert is_dataclass(benchmark.options), case
        assert set(benchmark.fixed) <= set(get_type_hints(benchmark.options)), case
        for text in (benchmark.short, benchmark.summary, benchmark.pattern, benchmark.formula):
            assert text.endswith((".", ").")), case
        benchmark.make_options()  # the defaults are in their ranges
        flags = [flag for one in benchmark.offered for flag in one.flags]
        assert len(set(flags)) == len(flags), case
        common = {"-n", "--ranks", *(f"--{name}" for name in OUTPUTS)}
        assert not common & set(flags), case
        for one in benchmark.offered:
            assert one.flags[0].startswith("--"), case
            assert one.spec.help.endswith("."), case
            assert one.default_text or one.type in (int, str), f"{case}: {one.name}"


def test_the_page_is_fresh():
    page = runpy.run_path(str(ROOT / "tools" / "generate_benchmarks_doc.py"))
    assert (ROOT / "docs" / "benchmarks.md").read_text() == page["render"](), (
        "docs/benchmarks.md is stale: run `python tools/generate_benchmarks_doc.py`"
    )


def test_options_are_described():
    way, count, seconds, sizes, kinds, _ = options_of(SomeOptions)
    assert [one.allowed for one in (way, count, seconds, sizes)] == [
        "short, long",
        "1 to 9",
        "more than 0",
        "0 or more",
    ]
    assert [one.default_text for one in (way, count, seconds, sizes, kinds)] == [
        "short",
        "3",
        "",
        "1 8",
        "all",
    ]
    assert (way.flags, seconds.flags) == (("--way",), ("--rt", "-t"))
    assert (sizes.repeated, kinds.repeated) == (False, True)
    assert (sizes.items, kinds.choices) == ((int, int), ("a", "b"))
    assert (seconds.type, seconds.spec.unit) == (float, "s")


def check_refusal(options, given, words):
    with pytest.raises(ConfigError, match=words):
        options(**given)


def test_a_value_that_is_not_allowed():
    table = [
        ({"way": "wide"}, "--way is wide, but it must be short or long"),
        ({"count": 0}, "--count is 0, but it must be 1 to 9"),
        ({"count": 10}, "--count is 10, but it must be 1 to 9"),
        ({"seconds": 0.0}, "--rt is 0.0, but it must be more than 0"),
        ({"seconds": float("nan")}, "--rt is nan, but it must be more than 0"),
        ({"sizes": (4, -1)}, "--sizes is -1, but it must be 0 or more"),
        ({"kinds": ("a", "c")}, "--kinds is c, but it must be a or b"),
        ({"detour": 2}, "--detour requires --way long. It cannot be used with --way short."),
    ]
    for given, words in table:
        check_refusal(SomeOptions, given, re.escape(words))


def test_options_of_all_pairs_are_refused_without_it():
    for given in ({"size": 8}, {"between": "nodes"}, {"seconds": 1.0}, {"serial": True}):
        check_refusal(OneWayOptions, given, rf"^--{next(iter(given))} requires --all-pairs\.$")
        assert OneWayOptions(all_pairs=True, **given).all_pairs, given


@pytest.mark.parametrize(
    "given",
    [{"sizes": (1, 64)}, {"warm_up": 3}, {"pairing": "neighbours"}, {"pairs": (2,)}, {"method": "alcf"}],
)
def test_options_that_all_pairs_have_no_use_for_are_refused(given):
    flag = next(iter(given)).replace("_", "-")
    check_refusal(
        OneWayOptions,
        {"all_pairs": True, **given},
        rf"^--{flag} cannot be used with --all-pairs\. All pairs are",
    )


def test_values_that_are_allowed():
    assert SomeOptions(way="long", detour=2, seconds=0.5, kinds=("b",)).detour == 2


def test_fixed_options_are_not_offered():
    declared = Benchmark("a", "A.", "B.", "C.", "D.", SomeOptions, "measure.measure", fixed={"count": 7})
    assert "count" not in {one.name for one in declared.offered}
    assert declared.make_options(way="long").count == 7


def test_a_short_help_that_is_too_long():
    Benchmark("a", "A" * 45, "B.", "C.", "D.", SomeOptions, "measure.measure")
    with pytest.raises(ConfigError, match='short help of the benchmark "a" has 46 characters'):
        Benchmark("a", "A" * 46, "B.", "C.", "D.", SomeOptions, "measure.measure")


def test_a_benchmark_that_there_is_not():
    with pytest.raises(
        ConfigError, match=r'no benchmark is called "latecy"\. Did you mean "latency"\? Benchmarks: '
    ):
        find_benchmark("latecy")


def test_two_benchmarks_of_one_name(tmp_path, monkeypatch):
    family = tmp_path / "copied"
    family.mkdir()
    (family / "copied_options.py").write_text("from ridgeline.bench.pairs.pairs_options import BENCHMARKS\n")
    monkeypatch.setattr(ridgeline.bench, "__path__", [*ridgeline.bench.__path__, str(tmp_path)])
    with pytest.raises(
        ConfigError, match='two benchmarks are called "latency", one in the family copied and one in pairs'
    ):
        available()
