"""Commands where something that they take for granted is missing: no traceback, no crash, no hang, and one sentence.

Each environment is what a shell does before it becomes the command. The fast tests take the pairs that once failed;
the slow ones take every command in every environment.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = f"exec {shlex.quote(sys.executable)} -m ridgeline"
TIMEOUT = 240  # seconds; with an empty cache everything is compiled
CASE = """\
[run]
model = "gray_scott"
steps = 2
seed = 7

[grid]
shape = [8, 8, 8]

[initial]
half_width = 2

[output]
path = "out.bp"
every = 2
"""
ENVIRONMENTS = {
    "usual": "",
    "env -i": f"exec env -i {shlex.quote(sys.executable)} -m ridgeline",
    "no HOME": "unset HOME",
    "empty HOME": "export HOME=",
    "HOME is no folder": "export HOME=/dev/null",
    "HOME is missing": "export HOME=$PWD/missing",
    "no cache": "export RIDGELINE_CACHE_DIR=/dev/null/cache",
    "no cache and no temporary folder": "export RIDGELINE_CACHE_DIR=/dev/null/cache TMPDIR=/dev/null",
    "TMPDIR is missing": "export TMPDIR=$PWD/missing",
    "TMPDIR is no folder": "export TMPDIR=/dev/null",
    "empty PATH": "export PATH=",
    "no PATH": "unset PATH",
    "no mpiexec": "export RIDGELINE_MPIEXEC=$PWD/missing",
    "stdin closed": "exec <&-",
    "stdout closed": "exec >&-",
    "stderr closed": "exec 2>&-",
    "all closed": "exec <&- >&- 2>&-",
    "stdout full": "exec >/dev/full",
    "stderr full": "exec 2>/dev/full",
    "LC_ALL=C": "export LC_ALL=C",
    "ASCII": "export LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0",
    "unknown locale": "export LC_ALL=xx_YY.UTF-8 LANG=xx",
    "stdout in ASCII": "export PYTHONIOENCODING=ascii",
    "24 files": "ulimit -n 24",
    "soft 24 files": "ulimit -S -n 24",
    "files of 100 KiB": "ulimit -f 100",
    "700 MB of addresses": "ulimit -v 700000",
    "soft files of 100 KiB": "ulimit -S -f 100",
    "no core, small stack": "ulimit -c 0; ulimit -s 512",
    "umask 777": "umask 777",
    "umask 000": "umask 000",
    "cwd is gone": "mkdir gone; cd gone; rmdir $PWD; CASE=$OLDPWD/fäll.toml",
    "cwd is not writable": "mkdir locked; chmod 555 locked; cd locked; CASE=$OLDPWD/fäll.toml",
    "nothing of a terminal": "export TERM= COLUMNS=0 LINES=x NO_COLOR=1",
    "few columns": "export COLUMNS=1",
    "wrong numbers": "export OMP_NUM_THREADS=many",
    "signals ignored": "trap '' TERM INT HUP PIPE USR1",
}
COMMANDS = {
    "version": "--version",
    "explain": "explain gray_scott",
    "doctor": "doctor",
    "check": "check $CASE",
    "run": "run $CASE",
    "green": """run $CASE --set 'output.path="grün.bp"'""",
    "two ranks": "run $CASE -n 2",
    "compile": "compile $CASE",
    "plot": "plot missing.bp",
    "nothing there": "run nöthing.toml",
}
# What may be said, beside "error: ...", when something cannot be done.
CRASHES = re.compile(
    r"Traceback|Segmentation|core dumped|Fatal Python|Fatal error in|Exception ignored|UCX +ERROR|terminate called"
)
SIGNALS = {
    128 + number for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL)
}


def attack(folder: Path, environment: str, command: str) -> tuple[int, str, str]:
    """Run a command in an environment; return the exit code, stdout and stderr. It must end, without a crash."""
    (folder / "fäll.toml").write_text(CASE)
    before = ENVIRONMENTS[environment]
    start = "" if before.startswith("exec env") else f"\n{COMMAND}"
    script = f"CASE=fäll.toml\n{before}{start} {COMMANDS[command]}"
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    environ = {name: value for name, value in environ.items() if name != "NUMBA_CACHE_DIR"}
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"hangs: {process.communicate()}")
    text = out.decode(errors="replace"), err.decode(errors="replace")
    assert process.returncode >= 0, text
    assert process.returncode not in SIGNALS, text
    assert not CRASHES.search(text[0] + text[1]), text
    assert text[1].count("error:") <= 1, "once"
    heard = command != "doctor" and environment not in ("stderr closed", "all closed", "stderr full")
    if process.returncode and heard:
        assert re.search(r"error: |Usage: ", text[1]), f"no word of why: {text}"
    return process.returncode, *text


@pytest.mark.parametrize(
    ("environment", "command", "code", "word"),
    [
        pytest.param("no HOME", "run", 0, "ridgeline plot out.bp", marks=pytest.mark.full),
        ("env -i", "run", 0, "ridgeline plot out.bp"),
        ("ASCII", "nothing there", 2, "nöthing.toml: there is no such file"),
        ("stdout closed", "two ranks", 0, "ridgeline plot out.bp"),
        ("stdout full", "version", 6, "standard output cannot be written: No space left on device"),
        ("24 files", "two ranks", 1, "ulimit -n"),
        ("soft 24 files", "two ranks", 0, "ridgeline plot out.bp"),
        ("files of 100 KiB", "run", 1, "ulimit -f"),
        ("files of 100 KiB", "doctor", 1, "ulimit -f"),
        ("700 MB of addresses", "run", 1, "ulimit -v"),
        ("700 MB of addresses", "two ranks", 1, "ulimit -v"),
        ("no mpiexec", "two ranks", 7, "RIDGELINE_MPIEXEC"),
        pytest.param(
            "no cache and no temporary folder", "run", 0, "ridgeline plot out.bp", marks=pytest.mark.full
        ),
    ],
)
def test_what_is_missing_is_had_or_named(environment, command, code, word, tmp_path) -> None:
    found, _, err = attack(tmp_path, environment, command)
    assert (found, word in err) == (code, True), err


def test_a_name_of_a_file_is_the_same_in_every_locale(tmp_path) -> None:
    code, _, err = attack(tmp_path, "ASCII", "green")
    assert code == 0, err
    assert (tmp_path / "grün.bp" / "md.idx").exists()


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_command_ends_in_order(environment, tmp_path) -> None:
    failures = []
    for command in COMMANDS:
        folder = tmp_path / command
        folder.mkdir()
        try:
            attack(folder, environment, command)
        except (AssertionError, pytest.fail.Exception) as failure:
            failures.append(f"{command}: {failure}")
    assert not failures, "\n\n".join(failures)
