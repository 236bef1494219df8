"""What a newcomer calls first: the list of commands, `init`, `examples`, `explain`, and what the shell completes."""

import json
import re
from pathlib import Path

import pytest
from typer.main import get_command

from ridgeline.cli.completion import example_folders
from ridgeline.cli.main import app
from ridgeline.config.load import load_case
from ridgeline.models import available, case_class

ROOT = Path(__file__).resolve().parents[2]
MODELS = available()


def test_each_command_has_a_short_help_that_a_list_shows_whole():
    groups = {"": get_command(app)}
    groups |= {name: group for name, group in groups[""].commands.items() if hasattr(group, "commands")}
    texts = {
        f"{name} {command}".strip(): shown.get_short_help_str(1000)
        for name, group in groups.items()
        for command, shown in group.commands.items()
        if not shown.hidden
    }
    assert len(texts) > 40
    long = {name: text for name, text in texts.items() if len(text) > 45}
    assert not long
    assert all(re.fullmatch(r"[A-Z][a-z]+ .*\.", text) for text in texts.values()), texts


def test_help_lists_the_commands_in_four_panels(ridgeline):
    lines = ridgeline("--help").stdout.splitlines()
    panels = [line for line in lines if re.fullmatch(r"[A-Z]\w+:", line)]
    assert panels == ["Options:", "Simulate:", "Look:", "Measure:", "Machine:"]
    assert "  run        Run a simulation." in lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--foo"), "No such option: --foo"),
        (("runn",), "No such command 'runn'. Did you mean 'run'?"),
        (("run",), "Missing argument 'CASE'."),
        (("run", "case.toml", "-n", "two"), "Invalid value for '-n' / '--ranks'"),
    ],
)
def test_a_wrong_command_line_is_one_line(ridgeline, words, said):
    done = ridgeline(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {said}")
    assert re.search(r" `ridgeline[a-z ]* --help` lists what is allowed\.\n$", done.stderr)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("model", MODELS)
def test_init_writes_a_case_that_is_valid_and_explained(ridgeline, model):
    done = ridgeline("init", model)
    assert (done.returncode, done.stderr) == (0, "")
    case = ridgeline.path / f"{model}.toml"
    text = case.read_text()
    schema = re.match(r"#:schema \./(\S+)\n", text)
    assert json.loads((ridgeline.path / schema[1]).read_text())["properties"]["run"]
    loaded = load_case(case, case_class)
    assert loaded.case.run.model == model
    assert not loaded.warnings
    for key in re.findall(r"ridgeline explain \w+ ([\w.]+)", text):
        assert ridgeline("explain", model, key).returncode == 0
    again = ridgeline("init", model)
    assert again.returncode == 6
    assert again.stderr == f"error: {model}.toml: this file exists already and is kept. " + (
        "Move it away, or use another folder.\n"
    )
    assert case.read_text() == text


def test_init_of_an_unknown_model_and_in_a_folder_of_somebody_else(ridgeline):
    done = ridgeline("init", "gray_scot")
    assert done.returncode == 2
    assert 'Did you mean "gray_scott"?' in done.stderr
    (ridgeline.path / "gray_scott.toml").symlink_to("nowhere")
    assert ridgeline("init", "gray_scott").returncode == 6
    assert not (ridgeline.path / "nowhere").exists()


def test_examples_are_listed_and_copied(ridgeline):
    listed = ridgeline("examples").stdout.splitlines()
    names = [line.split()[0] for line in listed if line][:-1]
    assert names == sorted(path.parent.name for path in (ROOT / "examples").glob("*/README.md"))
    assert "lid_driven_cavity" in names
    done = ridgeline("examples", "lid_driven_cavity")
    assert (done.returncode, done.stderr) == (0, "")
    copied = ridgeline.path / "lid_driven_cavity"
    text = (ROOT / "examples" / "lid_driven_cavity" / "settings.toml").read_text()
    assert (copied / "settings.toml").read_text() == text.replace(
        "examples/lid_driven_cavity", "lid_driven_cavity"
    )
    assert ridgeline("check", copied / "settings.toml").returncode == 0
    assert ridgeline("examples", "lid_driven_cavity").returncode == 6
    unknown = ridgeline("examples", "lid_driven_cavty")
    assert (unknown.returncode, 'Did you mean "lid_driven_cavity"?' in unknown.stderr) == (2, True)
    several = ridgeline("examples", "tasks", "taylor_green")
    assert several.returncode == 0
    further = re.search("copy them with: ridgeline (examples .*)", several.stdout)[1].split()
    assert {"gray_scott", "turbulence_decay", "laminar_duct"} <= set(further[1:])
    assert "taylor_green" not in further
    assert ridgeline(*further).returncode == 0


def test_the_wheel_has_the_examples():
    assert '"examples" = "ridgeline/examples"' in (ROOT / "pyproject.toml").read_text()
    assert example_folders()["gray_scott"] == ROOT / "examples" / "gray_scott"


def test_explain_shows_one_key_a_section_or_what_a_word_finds(ridgeline):
    one = ridgeline("explain", "gray_scott", "F").stdout
    assert re.findall(r"^[a-z]\S*\.\S+", one, re.MULTILINE) == ["model.F"]
    assert ridgeline("explain", "gray_scott", "model.F").stdout == one
    section = ridgeline("explain", "navier_stokes", "scalar").stdout
    keys = re.findall(r"^[a-z]\S*\.\S+", section, re.MULTILINE)
    assert "scalar.N.diffusivity" in keys
    assert all(key.startswith("scalar.N.") for key in keys)
    assert "[initial]" in ridgeline("explain", "gray_scott", "initial").stdout, (
        "the section, not output.initial"
    )
    found = ridgeline("explain", "--search", "friends-of-friends").stdout
    assert re.search(r"^analysis\.halos .*\[n_body\]$", found, re.MULTILINE)
    everywhere = ridgeline("explain", "--search", "wall-clock limit").stdout
    assert re.search(r"^run\.walltime .*\)$", everywhere, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gray_scott", "Fx"), "gray_scott has no setting 'Fx'. Did you mean model.F?"),
        (
            ("gray_scott", "--search", "quark"),
            "no key or meaning in the settings of gray_scott has this word.",
        ),
        (("--schema",), "--schema requires MODEL"),
        (("gray_scott", "F", "--schema"), "--schema requires MODEL, and cannot be used with KEY"),
    ],
)
def test_explain_says_what_is_wrong_with_a_question(ridgeline, words, said):
    done = ridgeline("explain", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("ridgeline va", ["validate"]),
        ("ridgeline bench hpl", ["hpl", "hpl-mxp"]),
        ("ridgeline init gr", ["gray_scott"]),
        ("ridgeline explain gray_scott model.D", ["model.Du", "model.Dv"]),
        ("ridgeline examples lid", ["lid_driven_cavity"]),
        ("ridgeline run case.toml --set model.D", ["model.Du=", "model.Dv="]),
        ("ridgeline study run --bench hpl-", ["hpl-mxp"]),
        ("ridgeline predict hpc", ["hpcg"]),
    ],
)
def test_the_shell_completes(ridgeline, typed, expected):
    ridgeline.write()
    done = ridgeline(
        env={
            "_RIDGELINE_COMPLETE": "complete_bash",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(typed.split()) - 1),
        }
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")
