"""Each house rule finds what breaks it, on a tiny package written for that."""

from pathlib import Path

import pytest

import house_rules


@pytest.fixture
def package(tmp_path):
    """A function that writes a package from {path: source} and returns its folder."""

    def write(files: dict[str, str]) -> Path:
        folder = tmp_path / "toy"
        for name, text in {"__init__.py": "", **files}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            (path.parent / "__init__.py").touch()
        return folder

    return write


@pytest.mark.parametrize("text", ["import toy.{}.x\n", "def late():\n    from ..{} import x\n"])
def test_an_arrow_that_points_up_or_aside_is_found(package, text):
    tiers = ({"bench"}, {"io", "blocks"}, {"jit"})
    files = {"bench/x.py": text.format("io"), "io/x.py": text.format("jit")}
    files |= {"jit/x.py": text.format("bench"), "blocks/x.py": text.format("io")}
    wrong = house_rules.wrong_arrows(package(files), tiers)
    assert [line.split(":")[0] for line in wrong] == ["blocks/x.py", "jit/x.py"]


def test_a_model_that_imports_another_is_found(package):
    files = {"models/heat/a.py": "import toy.models.contract, toy.models.flow.a\n", "models/flow/a.py": ""}
    (wrong,) = house_rules.imports_between_models(package(files | {"models/contract.py": ""}))
    assert wrong == "models/heat/a.py:1: model heat must not import model flow"


def test_a_library_that_others_import_is_found(package):
    folder = package({"io/a.py": "import adios2\n", "bench/b.py": "def f():\n    import adios2.bindings\n"})
    assert house_rules.importers_beyond(folder, "adios2", ("io/",)) == ["bench/b.py:2"]


@pytest.mark.parametrize(
    "back",
    [
        "from toy.b import low\n",
        "import toy.b\n",
        "from . import b\n",
        "from toy import b\n",
        "def late():\n    from toy.b import low\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toy.b import Low\n",
        "from importlib import import_module\nlow = import_module('toy.b')\n",
    ],
)
def test_a_circle_is_found_however_it_is_hidden(package, back):
    files = {
        "a.py": back,
        "b.py": "from toy.c import x\n",
        "c.py": "import toy.a\n",
        "d.py": "import toy.a\n",
    }
    assert house_rules.circles(package(files)) == [{"toy.a", "toy.b", "toy.c"}]


def test_a_diamond_is_no_circle(package):
    files = {"a.py": "import toy.b, toy.c\n", "b.py": "import toy.d\n", "c.py": "import toy.d\n", "d.py": ""}
    assert house_rules.circles(package(files)) == []


def test_a_repeated_class_name_is_found(package):
    folder = package({"io/a.py": "class Step: ...\n", "bench/b.py": "def f():\n    class Step: ...\n"})
    assert house_rules.repeated_classes(folder, {"Engine"}) == {"Step": ["bench/b.py", "io/a.py"]}
    assert house_rules.repeated_classes(folder, {"Step"}), "only models share names"


@pytest.mark.parametrize(
    ("places", "allowed"),
    [
        (["models/heat/engine.py", "models/flow/engine.py"], True),
        (["config/sections.py", "models/heat/config.py", "models/flow/config.py"], True),
        (["models/heat/engine.py", "models/heat/model.py"], False),
        (["models/heat/engine.py", "io/engine.py"], False),
    ],
)
def test_a_model_has_each_name_of_the_anatomy_once(package, places, allowed):
    folder = package(dict.fromkeys(places, "class CpuEngine: ...\n"))
    assert (house_rules.repeated_classes(folder, {"CpuEngine"}) == {}) == allowed


def test_a_module_of_a_shared_room_with_one_caller_is_found(package):
    folder = package(
        {
            "jit/both.py": "",
            "jit/own.py": "import toy.jit.both\n",
            "jit/inside.py": "",
            "jit/alone.py": "import toy.jit.inside\n",
            "jit/twin.py": "",
            "jit/unused.py": "",
            "models/m.py": "import toy.jit.both, toy.jit.own, toy.jit.alone, toy.jit.twin\n",
            "bench/b.py": "import toy.jit.both, toy.jit.own\n",
            "bench/c.py": "import toy.models.m\n",
        }
    )
    found = house_rules.modules_of_one_room(folder, ("jit",), {"jit.twin": "jit.both"})
    assert found == {"jit.alone": {"models"}, "jit.unused": set()}


def test_imports_for_types_and_late_ones_are_told_apart(package):
    text = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numba\ndef f():\n    import scipy\n"
    )
    found = house_rules.all_imports(package({"a.py": text}))
    assert [(i.where, i.module, i.typing_only) for i in found] == [
        ("a.py:1", "typing.TYPE_CHECKING", False),
        ("a.py:3", "numba", True),
        ("a.py:5", "scipy", False),
    ]


def test_a_long_file_and_a_model_without_a_part_are_found(package):
    folder = package({"models/heat/config.py": "x = 1\n" * 5, "models/heat/model.py": ""})
    assert list(house_rules.long_files(house_rules.sources(folder), 4).values()) == [5]
    assert house_rules.missing_parts(folder / "models", ("config", "model", "kernels")) == {
        "heat": ["kernels"]
    }
