"""The file of thresholds: what it holds, and the sentence for everything wrong in it."""

import re
from pathlib import Path

import pytest

from ridgeline.runtime.errors import ConfigError
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
        ("[thresholds\n", ["site.toml:1", "not valid TOML"]),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(tmp_path, text, words):
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text)
    assert [word for word in words if word not in str(error.value)] == []


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
    assert thresholds.limits["alltoall bandwidth"] == 2e12
