"""Settings files, `--set` and paths that nobody means: all are refused by one sentence, and at once."""

# ruff: noqa: E501

import os
import re

import pytest

from ridgeline.config.fields import MOST_COUNT
from ridgeline.config.load import load_case
from ridgeline.models import case_class
from ridgeline.runtime.errors import ConfigError
from settings_fuzz import within

GOOD = '[run]\nmodel = "gray_scott"\nsteps = 2\n[grid]\nshape = [8, 8, 8]\n'
MODEL = GOOD + "[model]\n"

FILES = {
    "large.toml": (GOOD + "#" * 2**20, "larger than 1024 KiB"),
    "deep.toml": (MODEL + "Du = " + "[" * 50000 + "]" * 50000, "too deep"),
    "nested.toml": (MODEL + "Du = " + "[" * 300 + "]" * 300, "nested more than 20 deep"),
    "tables.toml": (GOOD + "a" + ".a" * 2000 + " = 1\n", "nested more than 20 deep"),
    "inline.toml": (MODEL + "Du = " + "{a=" * 200 + "1" + "}" * 200, "(too deep|more than 20 deep)"),
    "digits.toml": (MODEL + "Du = " + "9" * 5000, "a number is too long"),
    "hexadecimal.toml": (MODEL + "Du = 0x" + "f" * 50000, r"200000 bits, but it must be a number >= 0, at most 1e\+30"),
    "steps.toml": (GOOD.replace("= 2", "= 0x" + "f" * 5000), f"20000 bits, but it must be an integer >= 1, at most {MOST_COUNT}"),
    "spaces.toml": (MODEL + "Du" + " " * 300_000 + "= -1\n", r"spaces\.toml:7: model\.Du is -1"),
    "header.toml": (GOOD + "[" + " " * 300_000 + "a]\n", r"header\.toml:6: unknown section \[a\]"),
    "unknown.toml": (MODEL + "".join(f"k{i} = 1\n" for i in range(20000)), r"There are 19900 more errors"),
    "sections.toml": (GOOD + "".join(f"[s{i}]\na = 1\n" for i in range(5000)), r"There are 4900 more errors"),
    "key.toml": (MODEL + "k" * 100_000 + " = 1\n", "unknown key 'kkk"),
    "nul.toml": (GOOD + '[output]\npath = "a\\u0000b"\n', "without NUL"),
    "long.toml": (GOOD + f'[output]\npath = "{"a" * 201}"\n', "200 between slashes"),
    "bytes.toml": (GOOD + f'[output]\npath = "{"ü" * 101}"\n', "200 between slashes"),
    "path.toml": (GOOD + f'[output]\npath = "{"b/" * 2500}"\n', "at most 4000 bytes"),
    "infinite.toml": (MODEL + "F = 1e308\n", r"must be a number >= 0, at most 1e\+30 in magnitude"),
    "tiny.toml": (MODEL + "F = 1e-310\n", "in magnitude, and either 0 or at least 1e-30"),
    "product.toml": (GOOD.replace("8, 8, 8", "2000000, 2000000, 2000000"), r"product is at most 2\^53"),
    "noise.toml": (MODEL + "noise = 1e30\ndt = 2.0\n", r"model\.noise"),
    "bits.toml": (b"\xff\xfe\x00", "byte 0 is not UTF-8"),
    "deep.json": ("[" * 100_000, "too deep"),
    "nested.json": ('{"x": ' + "[" * 400 + "]" * 400 + "}", "nested more than 20 deep"),
    "digits.json": ('{"L": ' + "9" * 5000 + "}", "a number is too long"),
    "huge.json": ('{"L": ' + "9" * 400 + "}", f"an integer of 1329 bits, but it must be an integer >= 1, at most {MOST_COUNT}"),
    "half.json": ('{"output": "\\ud800"}', "half of a surrogate pair"),
    "halfkey.json": ('{"\\ud800": 1}', "half of a surrogate pair"),
}  # fmt: skip


def refusal(path, overrides=()) -> str:
    """Return the words by which a case is refused, within 5 s."""
    with within(5), pytest.raises(ConfigError) as caught:
        load_case(path, case_class, overrides)
    return str(caught.value)


def test_file_is_refused_in_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (content, words) in FILES.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        text = refusal(name)
        assert re.search(words, text), f"{name}: {text[:500]}"
        assert len(text) < 250_000, name


def test_unknown_keys_of_json_are_left_out_with_a_bounded_number_of_warnings(tmp_path):
    (tmp_path / "unknown.json").write_text("{" + ",".join(f'"k{i}": 1' for i in range(20000)) + "}")
    with within(5):
        warnings = load_case(tmp_path / "unknown.json", case_class).warnings
    assert 1 < len(warnings) < 200
    assert any("19900 more unknown keys" in warning for warning in warnings)


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    assert "not a regular file" in refusal(tmp_path / "pipe.toml")
    assert "not a regular file" in refusal("/dev/zero")
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    for path in (tmp_path, tmp_path / "loop.toml", "a\0b", "x" * 5000, "", "\ud800"):
        assert refusal(path)


OVERRIDES = [
    "=", "a.b=[", "model.Du=" + "9" * 5000, "model.Du=" + "[" * 3000, "model.Du=0x" + "f" * 9000, "model" + ".a" * 3000 + "=1",
    "model.Du.x=1", "scalar.99999999999999999999.x=1", "scalar.².x=1", "run.model=\0", "run.model=" + "x" * 5000, "grid.0.1=2",
    "output.path=a\0", "run.walltime=" + "9" * 5000 + ":00:00", "x.y=" + "z" * 100_000, "grid.shape.0=4", "model.Du='\ud800'",
    "run.٣=1", "run.steps=٣", "run.threads=99999", f"run.steps={MOST_COUNT + 1}", "run.seed=18446744073709551616",
]  # fmt: skip


def test_override_is_refused_in_words(tmp_path):
    (tmp_path / "case.toml").write_text(GOOD)
    for override in OVERRIDES:
        text = refusal(tmp_path / "case.toml", [override])
        assert "invalid literal" not in text, override[:80]
        assert len(text) < 10_000, override[:80]
