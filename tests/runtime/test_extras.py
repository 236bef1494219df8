"""An optional package that is missing, or does not load, is one sentence with the command that installs it."""

import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from ridgeline.runtime import extras
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import ConfigError, DeviceError
from ridgeline.runtime.extras import import_extra, require_extra

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def test_a_missing_package_is_named_with_its_user_and_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvista", None)
    words = (
        r"^a view needs the package pyvista, which is not installed; install it with: pip install pyvista$"
    )
    with pytest.raises(ConfigError, match=words):
        require_extra("pyvista", "a view")
    with pytest.raises(DeviceError, match=words.replace("pyvista$", "pyvista, or draw a plane$")):
        import_extra("pyvista", "a view", "draw a plane", DeviceError)


def test_a_module_within_a_missing_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvmath", None)
    with pytest.raises(ConfigError, match="nvmath-python, which is not installed"):
        import_extra("nvmath.bindings.cufft", "cuFFT")


@pytest.mark.parametrize(
    "problem", [ImportError("libX.so"), OSError("libX.so"), ModuleNotFoundError("libX.so", name="y")]
)
def test_a_package_that_does_not_load_says_why(monkeypatch, problem):
    def fail(name):
        raise problem

    monkeypatch.setattr(extras, "import_module", fail)
    with pytest.raises(ConfigError, match=r"which does not load \(libX.so\); install it with: pip install"):
        import_extra("pyvista", "a view")


def test_the_library_under_a_package_is_asked_too(monkeypatch):
    def fail():
        raise RuntimeError("libcufft.so: absent")

    monkeypatch.setattr(extras, "import_module", lambda name: SimpleNamespace(get_version=fail))
    with pytest.raises(ConfigError, match=r"does not load \(libcufft.so: absent\)"):
        import_extra("nvmath.bindings.cufft", "cuFFT", probe="get_version")


def test_a_run_on_gpus_asks_before_its_kernels_are_imported(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    Context(None, "cpu")
    with pytest.raises(
        DeviceError, match="--device cuda needs the package numba-cuda, which is not installed"
    ):
        Context(None, "cuda")


def test_every_command_installs_what_the_project_calls_an_extra():
    optional = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    known = {Requirement(text).name for name, texts in optional.items() if name != "dev" for text in texts}
    for module, (package, command) in extras._PACKAGES.items():
        wanted = {Requirement(text).name for text in re.findall(r'[^\s"]+', command)}
        assert wanted <= known, (module, wanted - known)
        assert package in wanted | {"cuda-bindings"}
