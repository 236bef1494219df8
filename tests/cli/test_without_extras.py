"""An installation as `make` makes it: what needs another extra says so in one sentence, and nothing else fails."""

import os
import subprocess

import pytest

from bare_environment import make_bare_environment

pytestmark = pytest.mark.full
CASE = "case.toml"
CUDA = ("--device", "cuda")
OTHER_CASES = {
    "taylor_green": ("grid.shape=[8, 8, 8]", "run.steps=1"),
    "taylor_green_elements": ("grid.elements=[2, 2, 2]", "run.steps=1"),
}
NUMBA_CUDA = (
    "--device cuda needs the package numba-cuda, which is not installed. Install it with: pip install "
)
REFUSED = {
    "run": (("run", CASE, *CUDA), 8, NUMBA_CUDA),
    "run on ranks": (("run", CASE, *CUDA, "-n", 2), 8, NUMBA_CUDA),
    "compile": (("compile", CASE, *CUDA), 8, NUMBA_CUDA),
    "sweep": (("sweep", CASE, "--over", "model.F=0.02,0.03", "--set", 'run.device="cuda"', "-o", "s"), 1, NUMBA_CUDA),
    "study": (("study", "run", CASE, "--set", 'run.device="cuda"', "--repeat", 1, "-o", "t"), 1, NUMBA_CUDA),
    "stream": (("bench", "stream", *CUDA), 8, NUMBA_CUDA),
    "hpl": (("bench", "hpl", *CUDA), 8, NUMBA_CUDA),
    "latency": (("bench", "latency", *CUDA), 8, NUMBA_CUDA),
    "transpose": (("bench", "transpose", *CUDA), 8, NUMBA_CUDA),
}  # fmt: skip


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return make_bare_environment(tmp_path_factory.mktemp("bare") / "venv", "all")


@pytest.fixture
def bare(programs, ridgeline):
    """Call the command line of the environment."""
    ridgeline.write(steps=4)
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def call(*arguments):
        return subprocess.run(
            [programs / "ridgeline", *map(str, arguments)],
            cwd=ridgeline.path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return call


@pytest.mark.parametrize("what", REFUSED)
def test_what_needs_an_extra_says_so(what, bare) -> None:
    arguments, code, words = REFUSED[what]
    done = bare(*arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("example", OTHER_CASES)
def test_every_model_with_kernels_for_gpus_says_so(example, bare) -> None:
    from bare_environment import ROOT

    settings = [part for text in OTHER_CASES[example] for part in ("--set", text)]
    done = bare("run", ROOT / "examples" / example / "settings.toml", *settings, *CUDA)
    assert done.returncode == 8, done.stderr
    assert NUMBA_CUDA in done.stderr
    assert "Traceback" not in done.stderr


def test_check_warns_with_the_whole_command(bare) -> None:
    done = bare("check", CASE, *CUDA)
    assert done.returncode == 0, done.stderr
    assert NUMBA_CUDA + '"numba-cuda[cu13]"' in done.stdout


def test_pictures_that_need_one_say_so(bare) -> None:
    assert bare("run", CASE).returncode == 0
    for wish, package in (
        (("--isosurface", "V=0.1"), "pyvista"),
        (("--volume", "V"), "pyvista"),
        (("--movie", "m.mp4"), "imageio-ffmpeg"),
    ):
        done = bare("plot", "gray_scott.bp", *wish)
        assert done.returncode == 2, done.stderr
        assert f"needs the package {package}, which is not installed" in done.stderr
        assert "Traceback" not in done.stderr
    assert bare("plot", "gray_scott.bp", "--movie", "m.gif").returncode == 0


def test_all_else_works(bare) -> None:
    for arguments in (
        ("run", CASE, "-n", 2),
        ("bench", "pingpong", "-n", 2, "--trials", 1),
        ("doctor",),
    ):
        done = bare(*arguments)
        assert done.returncode == 0, (arguments, done.stdout + done.stderr)
