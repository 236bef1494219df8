"""What goes wrong in a user's Python file is one sentence, whatever it raises."""

import pytest

from ridgeline.runtime.errors import ConfigError, DivergedError
from ridgeline.runtime.user_code import NO_PYTHON, load_function, user_errors


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise SystemExit(0)", "running .*theirs.py failed .SystemExit: 0.*Correct that file"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
        ("bend = 1\n1 / 0", "ZeroDivisionError: division by zero"),
        ("bend = 1\ndef (", "SyntaxError"),
        ("bend = 3", "has no function bend"),
    ],
)
def test_a_file_that_fails_is_an_error_with_its_key(tmp_path, text, words):
    path = tmp_path / "theirs.py"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf'grid.mapping = ".*theirs.py:bend": .*{words}') as caught:
        load_function("grid.mapping", f"{path}:bend")
    lines = text.count("\n") + 1
    assert str(caught.value).startswith("grid.mapping" if "no function" in words else f"{path}:{lines}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_may_not_run_does_not(tmp_path, monkeypatch):
    path = tmp_path / "theirs.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.setenv(NO_PYTHON, "1")
    with pytest.raises(ConfigError, match="--no-python"):
        load_function("grid.mapping", f"{path}:bend")
    assert not (tmp_path / "ran").exists()


def test_errors_of_ours_and_interrupts_pass():
    for error in (DivergedError("step 3"), KeyboardInterrupt()):
        with pytest.raises(type(error)), user_errors("their code", "theirs.py"):
            raise error
