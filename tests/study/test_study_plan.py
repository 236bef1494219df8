"""The points of a study: combinations, names, sizes, process grids, order, and refusals before anything starts."""

import re

import pytest
from rich.console import Console

from ridgeline.models import memory_check
from ridgeline.runtime.errors import ConfigError, DecompositionError
from ridgeline.study import plan as plan_module
from ridgeline.study.plan import make_plan, parse_values, show_plan
from ridgeline.study.request import read_request
from study_tools import CASE, TURBULENCE, planned


def sizes(plan):
    return [(point.name, point.need.size) for point in plan.points]


def bench(name, **given):
    return make_plan(read_request(None, {"bench": name, **given}))


def options_of(point):
    """Return the settings of a point's command, by key."""
    texts = point.command[point.command.index("--set") :][1::2]
    return dict(text.split("=", 1) for text in texts)


def test_weak_scaling_of_a_case(tmp_path):
    plan = planned(tmp_path, {"weak": True, "ranks": (4, 1, 2, 2)})
    assert sizes(plan) == [("n1", "16 x 16 x 16"), ("n2", "32 x 16 x 16"), ("n4", "32 x 32 x 16")]
    assert plan.subject.name == "gray_scott"
    first, second, _ = map(options_of, plan.points)
    assert "grid.shape" not in first
    assert second["grid.shape"] == "[32, 16, 16]"
    assert plan.points[1].need.memory > 0


def test_strong_scaling_of_a_case(tmp_path):
    plan = planned(tmp_path, {"strong": True, "ranks": (1, 3)})
    assert sizes(plan) == [("n1", "16 x 16 x 16"), ("n3", "16 x 16 x 16")]


def test_runs_write_nothing_unless_asked(tmp_path):
    silent, loud = (planned(tmp_path, {"ranks": (1,), "outputs": outputs}) for outputs in (False, True))
    found = options_of(silent.points[0])
    assert {key for key, value in found.items() if value == "0"} == {
        "output.every",
        "output.series_every",
        "checkpoint.every",
    }
    assert "--set" not in loud.points[0].command
    assert silent.points[0].paths == {"output.path": "gray_scott.bp", "checkpoint.path": "checkpoints"}


def test_parts_of_outputs_write_nothing_either(tmp_path):
    """A part has an interval of its own, in any unit; the case without it still has the part."""
    both = '[[output.part]]\nname = "a"\nplane = "z=mid"\nevery = 3\n'
    both += '[[output.part]]\nname = "b"\nmean = ["x"]\nevery_time = 0.5\nevery_wall = 7\n'
    silent, loud = (
        planned(tmp_path, {"weak": True, "ranks": (1, 2), "outputs": outputs}, CASE + both)
        for outputs in (False, True)
    )
    for point in silent.points:
        found = {key: value for key, value in options_of(point).items() if "part" in key}
        assert found == {
            "output.part.0.every": "0",
            "output.part.1.every": "0",
            "output.part.1.every_time": "",
            "output.part.1.every_wall": "",
        }
    assert not any(word.startswith("output.part") for point in loud.points for word in point.command)


def test_paths_of_one_name_get_names_of_their_own(tmp_path):
    both = ('output.path="a/x"', 'checkpoint.path="b/x"')
    plan = planned(tmp_path, {"settings": both})
    assert plan.points[0].paths == {"output.path": "output.path_x", "checkpoint.path": "checkpoint.path_x"}


def test_axes_are_combined(tmp_path):
    axes = ("run.precision=float32,float64", "model.noise=0, 0.1")
    plan = planned(tmp_path, {"strong": True, "ranks": (1, 2), "vary": axes, "threads": (1, 2)})
    assert len(plan.points) == 16
    point = plan.points[0]
    assert point.name == "n1_precision-float32_noise-0_threads-1"
    assert point.axes == {"precision": "float32", "noise": 0, "threads": 1}
    assert options_of(point) | {"run.threads": "1", "model.noise": "0"} == options_of(point)
    assert {p.threads for p in plan.points} == {1, 2}


def test_axes_whose_keys_end_alike_are_told_apart(tmp_path):
    plan = planned(tmp_path, {"vary": ("output.every=1,2", "checkpoint.every=3"), "outputs": True})
    assert plan.points[1].name == "n1_output.every-2_checkpoint.every-3"


def test_keys_that_change_together(tmp_path):
    plan = planned(
        tmp_path, {"vary": ("model.F=0.01,0.02 & model.k=0.04,0.05", "run.precision=float32,float64")}
    )
    assert [point.axes for point in plan.points[::2]] == [
        {"F": F, "precision": "float32"} for F in (0.01, 0.02)
    ]
    assert [options_of(point)["model.k"] for point in plan.points] == ["0.04", "0.04", "0.05", "0.05"]
    with pytest.raises(ConfigError, match=r"equally many values, but model.F has 2, model.k has 1"):
        planned(tmp_path, {"vary": ("model.F=0.01,0.02 & model.k=0.04",)})


def test_values_of_axes():
    assert parse_values("1, 2") == [1, 2]
    assert parse_values("[4, 4],[8, 8]") == [[4, 4], [8, 8]]
    assert parse_values("float32,float64") == ["float32", "float64"]
    assert parse_values('"a b", true') == ["a b", True]
    with pytest.raises(ConfigError, match="is not a list of values"):
        parse_values("[4, 4],[8")


def test_all_process_grids_of_slabs_and_pencils(tmp_path):
    plan = planned(tmp_path, {"strong": True, "ranks": (1, 4), "process_grids": "all"}, TURBULENCE)
    assert [p.axes["process_grid"] for p in plan.points] == ["1x1", "1x4", "2x2", "4x1"]
    slabs = {"ranks": (4,), "process_grids": "all", "settings": ("grid.decomposition=slabs",)}
    assert [p.name for p in planned(tmp_path, slabs, TURBULENCE).points] == ["n4_process_grid-1x4"]


def test_all_process_grids_of_blocks(tmp_path):
    plan = planned(tmp_path, {"ranks": (4,), "process_grids": "all"})
    assert {p.axes["process_grid"] for p in plan.points} == {
        "1x1x4",
        "1x4x1",
        "4x1x1",
        "1x2x2",
        "2x1x2",
        "2x2x1",
    }


def test_benchmarks():
    plan = bench(
        "hpcg", weak=True, ranks=(1, 2), vary=("nx=16,32",), settings=('implementation=["reference"]',)
    )
    assert plan.subject.name == "hpcg-iteration"
    assert [point.name for point in plan.points] == ["n1_nx-16", "n2_nx-16", "n1_nx-32", "n2_nx-32"]
    assert plan.points[2].command == (
        "bench",
        "hpcg-iteration",
        "--implementation",
        "reference",
        "--nx",
        "32",
    )


def test_a_benchmark_is_divided():
    plan = bench(
        "nekbone", strong=True, ranks=(1, 4), settings=("elements=64", "nx1=[8, 10]", "stream=false")
    )
    assert " ".join(plan.points[1].command[2:]) == "--elements 16 --nx1 8 --nx1 10 --no-stream"
    plan = bench("transpose", weak=True, ranks=(1, 2), settings=("shape=[16, 16, 16]",), process_grids="all")
    assert plan.points[1].command[2:] == ("--shape", "32", "16", "16")


def test_the_order_is_random_and_stated(tmp_path):
    given = {"strong": True, "ranks": (1, 2), "repeat": 3, "vary": ("run.steps=10,20",)}
    plans = [planned(tmp_path, {**given, "seed": seed}) for seed in (1, 1, 2)]
    orders = [[(point.name, number) for point, number in plan.jobs()] for plan in plans]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    assert orders[0] != sorted(orders[0])


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"weak": True, "ranks": (2, 3), "settings": ("grid.shape=[15, 15, 15]",)}, ConfigError,
         "point n3: weak scaling from 2 to 3 ranks multiplies the points by 3/2"),
        ({"strong": True, "ranks": (1, 13), "settings": ("grid.shape=[1, 1, 12]",)}, DecompositionError,
         "point n13: "),
        ({"vary": ("run.precison=float32",)}, ConfigError, "point n1_precison-float32: "),
        ({"vary": ("model.F",)}, ConfigError,
         "--vary model.F: this is not a key with a value. Write it as model.order=7,15."),
        ({"settings": ("model.F=",)}, ConfigError, "--set model.F="),
        ({"settings": ("grid.shape=[8, 8",)}, ConfigError, "--set grid.shape=[8, 8: [8, 8 is not a TOML value"),
        ({"vary": ("output.path=a/x,b.x", "model.F=0.02")}, None, ""),
        ({"vary": ("output.path='a b','a/b'",)}, ConfigError, "two points of the study have the name n1_path-a-b"),
    ],
)  # fmt: skip
def test_points_that_cannot_be(tmp_path, given, error, words):
    if error is None:
        assert len(planned(tmp_path, given).points) == 2
        return
    with pytest.raises(error, match=re.escape(words)):
        planned(tmp_path, given)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("congestion", {}, "the benchmark congestion declares no size law.* with a size law: .*hpcg"),
        ("nekbon", {}, "no benchmark is called"),
        ("nekbone", {"threads": (2,)}, "the benchmark nekbone has no option --threads"),
        ("nekbone", {"process_grids": "all"}, "has no option --process-grid"),
        ("nekbone", {"outputs": True}, "--outputs cannot be used with --bench"),
        ("nekbone", {"vary": ("nx2=8",)}, r"has no option 'nx2'\. Did you mean 'nx1'\? Known options: nx1"),
        ("nekbone", {"vary": ("nx1=eight",)}, "--nx1 is eight, but it must be a list, each value an integer"),
        ("nekbone", {"vary": ("nx1=99",)}, "--nx1 is 99, but it must be 2 to 32"),
        ("transpose", {"settings": ("shape=[4, 4]",)}, "must be an integer and an integer and an integer"),
        (
            "transpose",
            {"settings": ("precision=half",)},
            "--precision is half, but it must be float32 or float64",
        ),
        (
            "hpcg",
            {"strong": True, "ranks": (1, 2), "settings": ("nx=16",)},
            "point n2: a global box of 16 x 16 x 16",
        ),
    ],
)
def test_benchmarks_that_cannot_be(name, given, words):
    with pytest.raises(ConfigError, match=words):
        bench(name, **given)


def test_a_model_without_process_grids(tmp_path):
    text = (
        '[run]\nmodel = "navier_stokes"\nsteps = 1\n[grid]\nelements = [2, 2, 2]\norder = 3\n'
        "periodic = [true, true, true]\n[model]\nviscosity = 0.1\ndt = 0.01\n"
    )
    with pytest.raises(ConfigError, match=r"the model navier_stokes has no setting grid.process_grid"):
        planned(tmp_path, {"process_grids": "all"}, text)


def test_too_little_memory_is_told_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_check, "node_memory_available", lambda: 10**6)
    with pytest.raises(
        ConfigError, match=r"point n1: the run needs .* Set run.check_memory = false to start the run anyway"
    ):
        planned(tmp_path, {"settings": ("grid.shape=[64, 64, 64]",)})
    planned(tmp_path, {"settings": ("grid.shape=[64, 64, 64]", "run.check_memory=false")})


def test_the_plan_is_shown_with_what_is_crowded(tmp_path, monkeypatch):
    monkeypatch.setattr(plan_module, "cores_available", lambda: 2)
    console = Console(width=200, record=True)
    console.print(show_plan(planned(tmp_path, {"strong": True, "ranks": (2, 4), "seed": 5})))
    text = console.export_text()
    assert "2 points, 3 jobs of each, 6 jobs in random order (seed 5)" in text
    assert "4 ranks x 1 thread share 2 cores" in text
    assert "These points are drawn hollow: n4" in text
    assert "16 x 16 x 16" in text


PARTICLES = TURBULENCE + '\n[particles]\ncount = 1000\nplacement = "pairs"\nseparation = 0.1\nevery = 2\n'


def test_particles_grow_with_the_grid_and_write_nothing(tmp_path):
    weak, strong = (
        planned(tmp_path, {kind: True, "ranks": (1, 2, 4)}, PARTICLES) for kind in ("weak", "strong")
    )
    counts = [options_of(point).get("particles.count") for point in weak.points]
    assert counts == [None, "2000", "4000"]
    assert all("particles.count" not in options_of(point) for point in strong.points)
    assert all(options_of(point)["particles.every"] == "0" for point in (*weak.points, *strong.points))
    assert "particles.path" not in weak.points[0].paths
    loud = planned(tmp_path, {"ranks": (1,), "outputs": True}, PARTICLES)
    assert loud.points[0].paths["particles.path"] == "particles.bp"


def test_the_number_of_particles_is_an_axis(tmp_path):
    plan = planned(
        tmp_path, {"strong": True, "ranks": (1, 2), "vary": ("particles.count=0,20000",)}, PARTICLES
    )
    needs = {point.name: point.need.memory for point in plan.points}
    assert list(needs) == ["n1_count-0", "n2_count-0", "n1_count-20000", "n2_count-20000"]
    assert needs["n1_count-20000"] > needs["n1_count-0"] + 20000 * 116


def test_a_lattice_of_particles_cannot_be_doubled(tmp_path):
    lattice = PARTICLES.replace('"pairs"\nseparation = 0.1', '"lattice"')
    with pytest.raises(ConfigError, match=r"point n2: .*particles\.count .*2000.* the cube of an integer"):
        planned(tmp_path, {"weak": True, "ranks": (1, 2)}, lattice)
