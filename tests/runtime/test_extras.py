"""An optional package that is missing, or does not load, is one sentence with the command that installs it."""

import json
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from ridgeline.runtime import extras
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import ConfigError, DeviceError
from ridgeline.runtime.extras import how_to_install_ridgeline_extra, import_extra, require_extra

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def test_a_missing_package_is_named_with_its_user_and_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvista", None)
    words = (
        r"^a view needs the package pyvista, which is not installed. Install it with: pip install pyvista$"
    )
    with pytest.raises(ConfigError, match=words):
        require_extra("pyvista", "a view")
    with pytest.raises(DeviceError, match=words.replace("pyvista$", r"pyvista, or draw a plane\.$")):
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
    with pytest.raises(ConfigError, match=r"which does not load \(libX.so\). Install it with: pip install"):
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


@pytest.mark.parametrize(
    ("source", "command"),
    [
        (
            {"url": "file:///home/me/rid%20geline", "dir_info": {"editable": True}},
            'pip install -e "/home/me/rid geline[viz]"',
        ),
        ({"url": "file:///home/me/ridgeline", "dir_info": {}}, 'pip install "/home/me/ridgeline[viz]"'),
        (
            {"url": "file:///home/me/ridgeline-1.0-py3-none-any.whl", "archive_info": {}},
            'pip install "ridgeline[viz] @ file:///home/me/ridgeline-1.0-py3-none-any.whl"',
        ),
    ],
)
def test_an_extra_of_ridgeline_comes_from_where_ridgeline_was_installed(monkeypatch, source, command):
    record = SimpleNamespace(read_text=lambda name: json.dumps(source) if name == "direct_url.json" else None)
    monkeypatch.setattr(extras, "distribution", lambda name: record)
    assert how_to_install_ridgeline_extra("viz") == f'Install the extra "viz" with: {command}'


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"url": "https://example.org/x.zip"}'])
def test_an_unknown_source_is_described_in_words(monkeypatch, content):
    monkeypatch.setattr(extras, "distribution", lambda name: SimpleNamespace(read_text=lambda name: content))
    said = how_to_install_ridgeline_extra("viz")
    assert (
        said == 'Install the extra "viz" from the checkout or the wheel from which Ridgeline was installed.'
    )
    monkeypatch.setattr(extras, "distribution", absent)
    assert how_to_install_ridgeline_extra("viz") == said


def absent(name):
    raise PackageNotFoundError(name)
