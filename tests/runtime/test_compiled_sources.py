"""The digest of the kernel cache covers what reaches the compiler, and nothing else."""

import gc
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher
from numba.extending import _Intrinsic

import ridgeline
from ridgeline.runtime.compile_cache import source_digest
from ridgeline.runtime.compiled_sources import compiled_sources

PACKAGE = Path(ridgeline.__file__).parent
TOY = {
    "jit/kernel.py": "from numba import njit\nkernel = njit(cache=True)\n",
    "jit/emit.py": "from llvmlite import ir\n",
    "jit/vector.py": "from ridgeline.jit.kernel import kernel\nLINE = 64\n@kernel\ndef fill(x):\n    x[:] = 0\n",
    "sweep.py": (
        "from typing import TYPE_CHECKING\n"
        "from ridgeline.jit import vector\n"
        "from ridgeline.physics import (\n    rate,\n)\n"
        "if TYPE_CHECKING:\n    from ridgeline.types import Case\n\n    import ridgeline.more_types\n\nHALF = 1\n"
        "@vector.kernel()\ndef sweep(u):\n    from ridgeline.late import half\n    return half * rate(u)\n"
    ),
    "physics.py": "from ridgeline.constants import TWO\ndef rate(u):\n    return TWO * u\n",
    "constants.py": "TWO = 2\n",
    "late.py": "half = 0.5\n",
    "declared.py": "from ridgeline.factory import compiled_pass\n@compiled_pass\ndef dots(x):\n    return x\n",
    "factory.py": "from numba.core import cgutils\n",
    "device.py": "from numba import cuda\n@cuda.jit\ndef copy(x):\n    pass\n",
    "engine.py": (
        "from dataclasses import dataclass\nfrom numba import cuda\nfrom ridgeline.sweep import sweep\n"
        "@dataclass\nclass Engine:\n    @property\n    def u(self):\n        return cuda.to_device(sweep(1))\n"
    ),
    "types.py": "class Case:\n    pass\n",
    "more_types.py": "",
    "report.py": "import ridgeline.engine\n",
}  # fmt: skip
HOST = {"engine.py", "types.py", "more_types.py", "report.py"}


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    for name, text in TOY.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", TOY)
def test_the_digest_changes_with_what_reaches_the_compiler_alone(name: str, toy: Path) -> None:
    before = source_digest(toy)
    with (toy / name).open("a") as file:
        file.write("# changed\n")
    assert (source_digest(toy) == before) == (name in HOST)


def test_a_file_that_moves_or_goes_changes_the_digest(toy: Path) -> None:
    digests = [source_digest(toy)]
    (toy / "declared.py").rename(toy / "another.py")
    digests.append(source_digest(toy))
    (toy / "another.py").unlink()
    digests.append(source_digest(toy))
    assert len(set(digests)) == 3


def test_host_code_of_the_package_is_left_out() -> None:
    found = {path.relative_to(PACKAGE).as_posix() for path in compiled_sources(PACKAGE)}
    host = ("simulation/loop.py", "models/turbulence/model.py", "elements/mesh.py", "io/bp.py", "cli/run.py")
    assert not found & set(host)
    assert len(found) < len(list(PACKAGE.rglob("*.py"))) // 3


def files_of(thing: Any, seen: set[int]) -> Iterator[Path]:
    """Yield the files of ours of a compiled function and of all functions that it names, compiled or not."""
    function = getattr(thing, "py_func", None) or getattr(thing, "_defn", thing)
    if id(function) in seen or not isinstance(function, FunctionType):
        return
    seen.add(id(function))
    path = Path(function.__code__.co_filename)
    if path.is_relative_to(PACKAGE):
        yield path
        named = [function.__globals__.get(name) for name in function.__code__.co_names]
        named += [cell.cell_contents for cell in function.__closure__ or () if cell != type(cell)()]
        for other in named:
            yield from files_of(other, seen)


def test_no_compiled_function_of_the_package_is_missed() -> None:
    for module in pkgutil.walk_packages([str(PACKAGE)], "ridgeline."):
        if "cuda" not in module.name and not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError:
                continue  # an optional library is not installed
    seen: set[int] = set()
    things = [thing for thing in gc.get_objects() if issubclass(type(thing), Dispatcher | _Intrinsic)]
    files = {path for thing in things for path in files_of(thing, seen)}
    assert len(files) > 30
    missed = files - set(compiled_sources(PACKAGE))
    assert not missed, missed
