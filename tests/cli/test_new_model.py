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
def test_a_new_package_is_built_installed_known_to_every_command_and_passes_its_tests(ridgeline):
    assert ridgeline("new-model", "brusselator").returncode == 0
    package, site = ridgeline.path / "ridgeline-brusselator", ridgeline.path / "site"
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    wheels = ridgeline.path / "wheels"
    subprocess.run([*pip, "wheel", "--no-deps", "-w", wheels, package], check=True, timeout=300)
    (wheel,) = wheels.glob("ridgeline_brusselator-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", site, wheel], check=True, timeout=300)
    case = package / "settings.toml"
    environment = {**os.environ, "PYTHONPATH": str(site), "NUMBA_NUM_THREADS": "1"}

    def python(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=ridgeline.path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    study = "study", "run", "--ranks", "1,2", "--strong", "--output", "scaling"
    for words, expected in [
        (("--help",), "new-model"),
        (("explain",), "brusselator"),
        (("explain", "brusselator"), "model.D"),
        (("check", str(case)), "brusselator, float64"),
        (("predict", str(case), "--machine", "frontier"), "brusselator"),
        (("run", str(case), "-n", "2"), "2 ranks x 1 thread"),
        ((*study, str(case)), "efficiency"),
        (("doctor",), "ridgeline-brusselator 0.1.0: model brusselator"),
    ]:
        # Tables fold long lines.
        assert expected in " ".join(python("-P", "-m", "ridgeline", *words).split()), words
    assert "4 passed" in python("-m", "pytest", "-q", "-p", "no:cacheprovider", str(package / "tests"))
