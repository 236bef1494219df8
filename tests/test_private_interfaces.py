"""Interfaces that may change with a release of their package: each is named here, and its package has an upper bound.

The bound in pyproject.toml keeps a release away until the tests ran with it. llvmlite documents its binding, but
changes it with LLVM.
"""

import ast
import tomllib
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
# The modules concerned, by package, with all below them.
PRIVATE = {
    "numba": ("numba.core", "numba.np"),
    "xarray": ("xarray.core",),
    "typer": ("typer._click",),
    "llvmlite": ("llvmlite.binding",),
    "numba-cuda": ("numba.cuda.dispatcher",),
}
USED = {
    "numba": {
        "numba.core.cgutils": "get_or_insert_function",
        "numba.core.caching.FunctionCache": "load_overload",
        "numba.core.compiler_lock.global_compiler_lock": "__call__",
        "numba.core.errors.TypingError": "__init__",
        "numba.core.registry.cpu_target": "target_context",
        "numba.core.serialize.dumps": "__call__",
        "numba.np.arraymath": "ensure_blas",
        "numba.np.linalg": "ensure_blas",
    },
    "xarray": {"xarray.core.indexing": "explicit_indexing_adapter"},
    "typer": {"typer._click.Context": "meta", "typer._click.HelpFormatter": "write_dl"},
    "llvmlite": {"llvmlite.binding": "get_host_cpu_features"},
    "numba-cuda": {"numba.cuda.dispatcher.CUDACache": "load_overload"},
}
# What `jit/cuda_launch.py` asks of objects that it is given, by their classes.
OF_LAUNCHES = {
    "CUDADispatcher": {"call", "typeof_pyval"},
    "_Kernel": {"_prepare_args"},
    "_LaunchConfiguration": {"_is_kernel_launch_config_sensitive"},
}


def found_in(package: str) -> set[str]:
    """Return what our sources import of a package's private modules."""
    found = set()
    private = tuple(f"{module}." for module in PRIVATE[package])
    for path in (ROOT / "src" / "ridgeline").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(private):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
            if isinstance(node, ast.Import):
                found |= {a.name for a in node.names if f"{a.name}.".startswith(private)}
    return found


@pytest.mark.parametrize("package", USED)
def test_each_private_interface_is_named_and_there(package: str) -> None:
    assert found_in(package) == set(USED[package])
    for name, attribute in USED[package].items():
        module, _, last = name.rpartition(".")
        owner = getattr(import_module(module), last, None) or import_module(name)
        assert hasattr(owner, attribute), (name, attribute)


@pytest.mark.parametrize("package", USED)
def test_its_package_has_an_upper_bound(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    needs = [need for group in groups for need in map(Requirement, group) if need.name == package]
    assert needs
    for need in needs:
        assert any(bound.operator == "<" for bound in need.specifier), need
        assert need.specifier.contains(version(package)), need


def test_launches_of_gpu_kernels_find_what_they_ask_for() -> None:
    dispatcher = import_module("numba.cuda.dispatcher")
    for name, attributes in OF_LAUNCHES.items():
        assert attributes <= set(dir(getattr(dispatcher, name))), name
