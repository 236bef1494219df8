"""`ridgeline new-model`: what it refuses, and a package whose tests pass once it is installed."""

import os
import subprocess
import sys

import pytest


def test_bad_names_and_folders_that_exist_are_refused(ridgeline):
    for name, words in [
        ("Warm", "lower-case letters"),
        ("gray_scott", "there is a model of this name already"),
    ]:
        done = ridgeline("new-model", name)
        assert done.returncode == 2
        assert words in done.stderr
    assert ridgeline("new-model", "warm_water").returncode == 0
    again = ridgeline("new-model", "warm_water")
    assert again.returncode == 6
    assert "ridgeline-warm-water exists already and is kept" in again.stderr


@pytest.mark.full
def test_the_tests_of_a_new_package_pass_once_it_is_installed(ridgeline):
    assert ridgeline("new-model", "warm_water").returncode == 0
    package, site = ridgeline.path / "ridgeline-warm-water", ridgeline.path / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--no-deps",
        "--target",
    ]
    subprocess.run([*pip, str(site), str(package)], check=True, timeout=300)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(package / "tests")],
        cwd=ridgeline.path,
        env={**os.environ, "PYTHONPATH": str(site), "NUMBA_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr
