"""The smaller commands: help, check, explain, compile, doctor, plot."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ridgeline as package
from toy_data_set import put, writer


def test_help_imports_nothing_heavy():
    program = (
        "import sys\n"
        "from ridgeline.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'mpi4py', 'numba', 'numpy', 'adios2', 'pydantic', 'matplotlib', 'xarray'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--help"], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr


def test_version(ridgeline):
    assert ridgeline("--version").stdout == f"ridgeline {package.__version__}\n"


def test_a_home_folder_behind_an_equals_sign(ridgeline, monkeypatch):
    """A shell hands on --json=~/x as it is."""
    monkeypatch.setenv("HOME", str(ridgeline.path / "me"))
    (ridgeline.path / "me").mkdir()
    done = ridgeline("predict", ridgeline.write(), "--machine", "frontier", "--json=~/x.json")
    assert (ridgeline.path / "me" / "x.json").exists(), done.stderr
    assert not (ridgeline.path / "~").exists()


def test_check_says_what_would_run_and_runs_nothing(ridgeline):
    case = ridgeline.write(steps=20, every=5, shape="40, 30, 20")
    done = ridgeline("check", case, "-n", 2)
    assert done.returncode == 0, done.stderr
    for words in (r"\[2, 1, 1\], largest block \[20, 30, 20\]", r"1\.536 MB in 4 outputs", "predicted time"):
        assert re.search(words, done.stdout), (words, done.stdout)
    assert [path.name for path in ridgeline.path.iterdir()] == ["case.toml"]


def test_a_setting_without_effect_is_told_once_by_check_and_before_a_run(ridgeline):
    case = ridgeline.write(steps=1, every=0)
    override = ("--set", "initial.count=3")
    words = (
        'warning: --set: initial.count = 3 has no effect, because initial.kind is "box". It is used only with '
        'initial.kind = "patches".\n'
    )
    checked = ridgeline("check", case, *override)
    assert (checked.returncode, checked.stdout.count(words), checked.stderr) == (0, 1, "")
    for line in ("diffusivities: 0.03333 and 0.01667 cells^2/time", "front: "):
        assert line in checked.stdout
    run = ridgeline("run", case, *override)
    assert (run.returncode, run.stderr.count(words)) == (0, 1)


def test_check_refuses_what_run_would_refuse(ridgeline):
    done = ridgeline("check", ridgeline.write(shape="3, 2, 2"), "-n", 64, "--set", "initial.half_width=1")
    assert done.returncode == 3
    assert done.stderr.startswith("error: grid.shape = [3, 2, 2] cannot be divided into 64 blocks")


def test_check_compares_a_data_set_with_its_checksums(ridgeline):
    path = ridgeline.path / "toy.bp"
    with writer(path) as out:
        put(out, 0, 1, 2)
    done = ridgeline("check", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout
        == f"{path}: 3 output steps with metadata and 0.0 MiB of values are as they were written\n"
    )
    content = bytearray((path / "data.0").read_bytes())
    content[5000] ^= 1
    (path / "data.0").write_bytes(content)
    done = ridgeline("check", path)
    assert done.returncode == 6
    where = "V is not as it was written at output step 1 (time step 10): 1 of its 1 blocks differ, "
    where += "the first is V[0:5, 0:3, 0:7]"
    assert done.stdout == f"{path}: {where}\n"
    sentence = f"the data set {path} is damaged in 1 place. Restore it from a copy, or run again."
    assert done.stderr == f"error: {sentence}\n"
    (path / "md.0").write_bytes(b"")
    done = ridgeline("check", path)
    assert (done.returncode, done.stdout) == (6, f"{path}: md.0 is cut off from output step 0 on\n")
    assert ridgeline("check", path, "--set", "run.steps=1").returncode == 2
    (path / "ridgeline.sums").unlink()
    done = ridgeline("check", path)
    assert (done.returncode, done.stdout) == (6, "")
    assert "cannot be checked, because it has no ridgeline.sums" in done.stderr


def test_explain_lists_every_key_and_a_schema_that_is_json(ridgeline):
    listing = ridgeline("explain", "gray_scott").stdout
    schema = json.loads(ridgeline("explain", "gray_scott", "--schema").stdout)
    for key in (
        "run.steps",
        "grid.shape",
        "model.Du",
        "initial.half_width",
        "output.every",
        "checkpoint.keep",
    ):
        assert key in listing
    assert schema["properties"]
    unknown = ridgeline("explain", "gray_scot")
    assert unknown.returncode == 2
    assert "gray_scott" in unknown.stderr


@pytest.mark.full
def test_compile_leaves_nothing_to_compile_for_the_run(ridgeline, tmp_path):
    case = ridgeline.write(shape="9, 8, 7")
    cache = {"RIDGELINE_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": ""}

    def kernels() -> set[str]:
        return {path.name for path in Path(tmp_path / "cache").rglob("*.kernel")}

    done = ridgeline("compile", case, env=cache)
    assert done.returncode == 0, done.stderr
    compiled = kernels()
    assert compiled
    done = ridgeline("run", case, "-n", 2, env=cache)
    assert done.returncode == 0, done.stderr
    assert kernels() == compiled


def test_doctor_finds_mpi_and_adios2(ridgeline):
    done = ridgeline("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())  # lines break where a long path makes them
    for words in ("two ranks that see each other", "ADIOS2", "Numba"):
        assert words in said


@pytest.mark.full
def test_plot_draws_planes_densities_and_movies(ridgeline):
    case = ridgeline.write(steps=8, every=2)
    assert ridgeline("run", case).returncode == 0
    for arguments, name in [
        ([], "gray_scott.png"),
        (["--pdf", "-o", "pdf.png"], "pdf.png"),
        (["--variable", "V", "--slice", "y=3", "--step", "4", "-o", "v.png"], "v.png"),
        (["--variable", "U", "--movie", "u.gif"], "u.gif"),
    ]:
        done = ridgeline("plot", "gray_scott.bp", *arguments)
        assert done.returncode == 0, done.stderr
        assert (ridgeline.path / name).stat().st_size > 1000
    wrong = ridgeline("plot", "gray_scott.bp", "--slice", "z=99")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
    missing = ridgeline("plot", "nothing.bp")
    assert missing.returncode == 6
    assert "nothing.bp" in missing.stderr
