"""The file of thresholds: what it holds, and the sentence for everything wrong in it."""

import re
from pathlib import Path

import pytest

from ridgeline.runtime.errors import ConfigError
from ridgeline.validate.counter_kinds import KINDS, NEVER
from ridgeline.validate.judge.thresholds import ThresholdSection, load_thresholds


def load(tmp_path, text):
    path = tmp_path / "site.toml"
    path.write_text(text)
    return load_thresholds(path)


def test_values_and_limits_are_read(tmp_path):
    thresholds = load(tmp_path, '[thresholds]\nslowdown = 0.2\n[thresholds.limits]\n"stream triad" = 4e11\n')
    assert (thresholds.slowdown, thresholds.z, thresholds.limits) == (0.2, 4.0, {"stream triad": 4e11})
    assert load(tmp_path, "").cpu_share == 0.9


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[thresholds]\nslowdwon = 0.2\n", ["slowdwon", "site.toml:2", "Did you mean 'slowdown'"]),
        ("[thresholds]\nslowdown = 1.5\n", ["slowdown", "site.toml:2", "1.5", "> 0 and < 1"]),
        ("[threshold]\nslowdown = 0.2\n", ["[threshold]", "[thresholds]"]),
        ("[thresholds]\nlimits = 3\n", ["thresholds.limits", "is 3", "must be a table"]),
        (
            "[thresholds.limits]\ntriad = -1\n",
            ["thresholds.limits.triad", "site.toml:2", "-1", "a number above 0"],
        ),
        (
            "[thresholds.counters]\nlink_flap = { warn = 1 }\n",
            ["site.toml:2", "link_flap", "Did you mean 'link_flaps'"],
        ),
        ("[thresholds.counters]\ntimeouts = 3\n", ["site.toml:2", "is 3", "{ warn = 1, suspect = 100 }"]),
        (
            "[thresholds.counters]\ntimeouts = { suspect = 0 }\n",
            ["site.toml:2", "timeouts.suspect is 0", 'or "never"'],
        ),
        ("logs = 3\n", ["site.toml:1", "logs is 3", "files and pattern"]),
        ('[logs]\nfiles = ["console"]\n', ["site.toml:2", "absolute paths"]),
        ('[[logs.pattern]]\nkey = "a"\nmatch = "("\n', ["logs.pattern 1 needs what"]),
        (
            '[[logs.pattern]]\nkey = "a"\nwhat = "b"\nadvice = "c"\nmatch = "("\n',
            ["logs.pattern 1: match is not a regular expression"],
        ),
        ("[thresholds\n", ["site.toml:1", "not valid TOML"]),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(tmp_path, text, words):
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text)
    assert [word for word in words if word not in str(error.value)] == []


def test_thresholds_of_counters_are_read(tmp_path):
    text = '[thresholds.counters]\nlink_flaps = { suspect = 3 }\nmemory_corrected = { suspect = "never" }\n'
    thresholds = load(tmp_path, text)
    bounds = {kind.key: thresholds.bounds(kind) for kind in KINDS}
    assert bounds["link_flaps"] == (1, 3)
    assert bounds["memory_corrected"] == (1, NEVER)
    assert bounds["drops"] == (100, NEVER)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_thresholds(tmp_path / "none.toml")


def test_the_documented_file_holds_every_setting_with_its_default(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "validation.md").read_text()
    thresholds = load(tmp_path, re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1])
    assert {name: getattr(thresholds, name) for name in ThresholdSection.model_fields} == dict(
        ThresholdSection()
    )
    assert all(name in page for name in ThresholdSection.model_fields)
    assert all(thresholds.bounds(kind) == (kind.warn, kind.suspect) for kind in KINDS)
    assert {kind.key for kind in KINDS} == set(thresholds.counters)
    assert thresholds.limits["alltoall bandwidth"] == 2e12
