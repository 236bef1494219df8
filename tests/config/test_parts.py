"""Settings of parts: what is refused before a run, with its place; what a part takes; and what a plane costs."""

import pytest

from ridgeline.config.load import load_case
from ridgeline.config.parts import PartVariable, fields_needed
from ridgeline.models import case_class
from ridgeline.runtime.errors import ConfigError

GRID = {
    "gray_scott": "[run]\nmodel = 'gray_scott'\nsteps = 1000\n[grid]\nshape = [1024, 1024, 1024]\n",
    "turbulence": "[run]\nmodel = 'turbulence'\nsteps = 100\n[grid]\nshape = [48, 32, 64]\n"
    "lengths = [3.0, 2.0, 4.0]\n[model]\nviscosity = 0.1\ndt = 0.01\n",
    "navier_stokes": "[run]\nmodel = 'navier_stokes'\nsteps = 100\n[grid]\nelements = [2, 2, 2]\norder = 5\n"
    "periodic = [true, true, true]\n[model]\nviscosity = 0.1\ndt = 0.01\n",
    "molecular_dynamics": "[run]\nmodel = 'molecular_dynamics'\nsteps = 100\n[grid]\ncells = [5, 5, 5]\n",
}


def load(folder, model, *parts, output="every = 0\n"):
    text = GRID[model] + "[output]\n" + output
    text += "".join("[[output.part]]\n" + part for part in parts)
    path = folder / "case.toml"
    path.write_text(text)
    return load_case(path, case_class).case


def line(model):
    """Return the line of the first header of a part."""
    return (GRID[model] + "[output]\nevery = 0\n").count("\n") + 1


FAULTS = [
    (
        "gray_scott",
        ["name = 'a'\nplane = 'z=1024'\n"],
        2,
        "output.part.0.plane",
        "inside the domain, which has 1024",
    ),
    ("gray_scott", ["name = 'a'\nplane = 'w=1'\n"], 2, "output.part.0.plane", "a plane such as"),
    (
        "gray_scott",
        ["name = 'a'\nplane = 'z=1'\nbox = 'z=1:2'\n"],
        3,
        "output.part.0.box",
        "left out, because the",
    ),
    ("gray_scott", ["name = 'a'\nmean = ['x', 'x']\n"], 2, "output.part.0.mean", "each at most once"),
    ("gray_scott", ["name = 'a/b'\n"], 1, "output.part.0.name", "letters, digits"),
    (
        "gray_scott",
        ["name = 'a'\n", "name = 'a'\n"],
        3,
        "output.part.1.name",
        "a name that no other part has",
    ),
    (
        "gray_scott",
        ["name = 'a'\npath = 'gray_scott_b.bp'\n", "name = 'b'\n"],
        3,
        "output.part.1",
        "a path that differs from output.part.0.path",
    ),
    (
        "gray_scott",
        ["name = 'a'\npath = 'series.csv'\n"],
        2,
        "output.part.0.path",
        "a path that differs from output.series",
    ),
    (
        "gray_scott",
        ["name = 'a'\nvariables = ['W']\n"],
        2,
        "output.part.0.variables",
        '"W" is not a field. The fields are U, V',
    ),
    (
        "turbulence",
        ["name = 'a'\nvariables = ['velocity_q']\n"],
        2,
        "output.part.0.variables",
        "Did you mean 'velocity_",
    ),
    (
        "turbulence",
        ["name = 'a'\nvariables = ['s = sqrt(u*u + presure)']\n"],
        2,
        "output.part.0.variables",
        "presure is unknown (did you mean pressure?)",
    ),
    (
        "gray_scott",
        ["name = 'a'\nvariables = ['s = U*+*V']\n"],
        2,
        "output.part.0.variables",
        "(character 4)",
    ),
    ("gray_scott", ["name = 'a'\nvariables = ['s = ']\n"], 2, "output.part.0.variables", "(character 1)"),
    ("gray_scott", ["name = 'a'\nvariables = ['s = import(U)']\n"], 2, "output.part.0.variables", "formulas"),
    (
        "gray_scott",
        ["name = 'a'\nvariables = ['x = U*V']\n"],
        2,
        "output.part.0.variables",
        "the name of a coordinate",
    ),
    (
        "gray_scott",
        ["name = 'a'\nvariables = ['U', 'U = V']\n"],
        2,
        "output.part.0.variables",
        "is there twice",
    ),
    (
        "navier_stokes",
        ["name = 'a'\nvariables = ['s = uu']\n"],
        2,
        "output.part.0.variables",
        "uu is unknown",
    ),
    (
        "navier_stokes",
        ["name = 'a'\npoints = [4, 4, 4]\nplane = 'z=4'\n"],
        3,
        "output.part.0.plane",
        "has 4 points in z",
    ),
]


@pytest.mark.parametrize(("model", "parts", "below", "key", "words"), FAULTS)
def test_a_part_that_cannot_be_is_one_sentence_with_its_place(tmp_path, model, parts, below, key, words):
    with pytest.raises(ConfigError) as error:
        load(
            tmp_path,
            model,
            *parts,
            output="every = 0\nseries_every = 1\n" if "series" in parts[0] else "every = 0\n",
        )
    text = str(error.value)
    at = line(model) + below + ("series" in parts[0])
    assert len(text.splitlines()) == 1, text
    assert f"case.toml:{at}: {key}" in text, text
    assert words in text, text


def test_particles_have_no_parts(tmp_path):
    with pytest.raises(
        ConfigError, match=r"toml:8: unknown key 'part' in \[output\]. Parts are for models whose"
    ):
        load(tmp_path, "molecular_dynamics", "name = 'a'\n")


def test_what_parts_take(tmp_path):
    """A movie of one plane of 1024^3: 8 GiB of volume an output, and 2 MiB of plane."""
    case = load(
        tmp_path,
        "gray_scott",
        "name = 'movie'\nplane = 'z=mid'\nvariables = ['V']\nprecision = 'float16'\nevery = 10\ninitial = true\n",
        "name = 'profile'\nmean = ['x', 'y']\n",
        "name = 'off'\nevery = 0\n",
    )
    movie, profile, off = case.part_sizes()
    assert (movie.shape, movie.outputs, movie.bytes) == ((1, 1024, 1024), 101, 2 * 2**20)
    assert (profile.shape, profile.outputs, profile.bytes) == ((1024, 1, 1), 10, 2 * 8 * 1024)
    assert off.outputs == 0
    assert [path for key, path in case.written().items() if "part" in key] == [
        "gray_scott_movie.bp",
        "gray_scott_profile.bp",
    ]


def test_planes_at_places_and_names_of_flows(tmp_path):
    case = load(
        tmp_path, "turbulence", "name = 'a'\nplane = 'y=0.51'\nvariables = ['s = u*w', 'q = p + t']\n"
    )
    selection = case.output.part[0].select(case.part_grid(case.output.part[0]))
    assert (selection.start, selection.count) == ((0, 8, 0), (48, 1, 64))
    names = case.output_names()
    assert fields_needed(case.output.part[0].quantities(()), names) == [
        "velocity_x",
        "velocity_z",
        "pressure",
    ]
    assert fields_needed([PartVariable("dissipation"), PartVariable("c", "2*x")], names) == ["dissipation"]


def test_an_older_case_is_the_same_case(tmp_path):
    with_part = load(tmp_path, "gray_scott", "name = 'a'\n")
    assert with_part.identity() == load(tmp_path, "gray_scott").identity()
