"""What a study asks for: flags, study files, folders, and the words for what cannot be."""

import re
import tomllib
from pathlib import Path

import pytest

from ridgeline.runtime.errors import ConfigError
from ridgeline.study.request import read_request, to_toml
from ridgeline.study.study_options import StudyOptions, SubmitOptions
from study_tools import case_file

FILE = """\
[study]
case = "case.toml"
weak = true
ranks = [1, 2]
vary = ["run.precision=float32,float64"]
set = ["run.steps=10"]
repeat = 2
"""


def study_file(folder: Path, text: str = FILE) -> str:
    case_file(folder)
    path = folder / "weak_gs.toml"
    path.write_text(text)
    return str(path)


def test_paths_of_a_study_file_are_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("SCRATCH", str(tmp_path / "scratch"))
    path = tmp_path / "a.toml"
    path.write_text('[study]\ncase = "~/case.toml"\ndirectory = "$SCRATCH/runs"\nranks = [1]\nweak = true\n')
    with pytest.raises(ConfigError, match=r"a.toml: study.directory is .*runs, which is not a folder"):
        read_request(str(path), {})
    (tmp_path / "scratch" / "runs").mkdir(parents=True)
    request = read_request(str(path), {})
    assert (request.case, request.directory) == (
        Path("~/case.toml").expanduser(),
        tmp_path / "scratch" / "runs",
    )
    path.write_text(path.read_text().replace("SCRATCH", "NOWHERE"))
    with pytest.raises(
        ConfigError, match=r"study.directory is .*: the environment variable NOWHERE is not set"
    ):
        read_request(str(path), {})


def test_a_study_file_says_what_flags_say(tmp_path):
    request = read_request(study_file(tmp_path), {})
    assert request.options == StudyOptions(
        weak=True,
        ranks=(1, 2),
        vary=("run.precision=float32,float64",),
        settings=("run.steps=10",),
        repeat=2,
    )
    assert (request.case, request.name, request.folder) == (tmp_path / "case.toml", "weak_gs", None)


def test_flags_come_before_a_study_file(tmp_path):
    request = read_request(
        study_file(tmp_path), {"ranks": (4, 8), "strong": True, "weak": False, "outputs": False}
    )
    assert (request.options.ranks, request.options.scaling, request.options.repeat) == ((4, 8), "strong", 2)


def test_what_is_written_is_what_is_read(tmp_path):
    request = read_request(study_file(tmp_path), {"seed": 7, "threads": (1, 2), "outputs": True})
    (tmp_path / "study.toml").write_text(to_toml(request, "case.toml"))
    assert tomllib.loads((tmp_path / "study.toml").read_text())["study"]["seed"] == 7
    again = read_request(str(tmp_path), {})
    assert again.options == request.options
    assert (again.folder, again.case) == (tmp_path, tmp_path / "case.toml")
    assert again.directory == Path.cwd()


def test_a_case_or_a_benchmark(tmp_path):
    assert read_request(case_file(tmp_path), {"weak": True}).name == "gray_scott_weak"
    assert read_request(None, {"bench": "nekbone", "strong": True}).name == "nekbone_strong"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            FILE.replace("repeat", "repeats"),
            "unknown key 'repeats' in [study]. Did you mean 'repeat'? Known keys: case, ",
        ),
        (FILE.replace("[1, 2]", "2"), "study.ranks is 2, but it must be a list of integers."),
        (FILE.replace("[1, 2]", '["2"]'), "must be a list of integers."),
        (FILE.replace("[1, 2]", "[true]"), "must be a list of integers."),
        (FILE.replace("repeat = 2", 'repeat = "2"'), "study.repeat is '2', but it must be an integer."),
        (FILE.replace("repeat = 2", "repeat = 0"), "--repeat is 0, but it must be 1 or more"),
        (FILE.replace("weak = true", "weak = 1"), "it must be true or false."),
        (FILE + "strong = true\n", "--weak cannot be used with --strong."),
        (FILE.replace("weak = true\n", ""), "requires --weak or --strong"),
        (FILE.replace('case = "case.toml"\n', ""), "must have either the key case or the key bench"),
        (FILE + 'bench = "hpcg"\n', "must have either the key case or the key bench"),
        (FILE.replace('"case.toml"', "3"), "study.case is 3, but it must be the path of the settings file"),
        (FILE + "[grid]\nshape = [4, 4, 4]\n", "unknown table [grid]. A study file has the table [study]"),
        ("study = 3\n", "has the table [study] and nothing else"),
        ("[study\n", "not valid TOML"),
    ],
)
def test_study_files_that_are_wrong(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words.replace("[", r"\[").replace("?", r"\?")):
        read_request(study_file(tmp_path, text), {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "Name a case, a study file, or a benchmark with --bench."),
        ({"bench": "hpcg", "ranks": (1, 2)}, "--ranks 1,2 requires --weak or --strong"),
        ({"bench": "hpcg", "weak": True, "ranks": (0,)}, "--ranks is 0, but it must be 1 or more"),
        ({"bench": "hpcg", "weak": True, "ranks": ()}, "--ranks must have at least one number of ranks"),
    ],
)
def test_flags_that_are_wrong(given, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        read_request(None, given)


def test_a_case_and_a_benchmark_are_two(tmp_path):
    with pytest.raises(ConfigError, match="--bench hpcg cannot be used with a case"):
        read_request(case_file(tmp_path), {"bench": "hpcg"})
    (tmp_path / "study.toml").write_text("[run]\n")
    with pytest.raises(ConfigError, match=r"has no table \[study\]"):
        read_request(str(tmp_path), {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"now": True}, "--now requires --submit"),
        ({"ranks_per_node": 4}, "--ranks-per-node requires --submit"),
        ({"submit": "slurm", "time": "1h"}, "--time 1h: write the time as HH:MM:SS"),
        ({"submit": "pbs", "directive": ("-q a\n-q b",)}, "it must be one line of text"),
        ({"submit": "lsf"}, "--submit is lsf, but it must be none, slurm or pbs"),
    ],
)
def test_submissions_that_are_wrong(given, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        SubmitOptions(**given)
