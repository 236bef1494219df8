"""Kernels are declared one way, with their signatures, and compiled when asked for."""

import ast
from pathlib import Path

import numpy as np
import pytest
from numba import float64, int64

import ridgeline
from ridgeline.jit.kernel import compile_kernels, kernel, specialise, subroutine, unsigned

SOURCES = sorted(Path(ridgeline.__file__).parent.rglob("*.py"))


@subroutine(inline="always")
def _double(x):
    return x + x


@kernel(lambda T: (T[::1], T), nogil=True)
def add_twice(values, summand):
    for i in range(values.size):
        values[i] += _double(summand)


@kernel(lambda T, n: (T[::1], int64) if n == 1 else (T[:, ::1], int64))
def first(values, place):
    return values.flat[place]


def test_a_kernel_is_compiled_for_what_is_asked_and_called_without_another_compile():
    assert add_twice.signatures == []
    compile_kernels(specialise([add_twice], "float32"))
    compile_kernels(specialise([add_twice], np.dtype("float64")))
    compiled = list(add_twice.signatures)
    assert len(compiled) == 2
    for dtype in (np.float32, np.float64):
        values = np.ones(3, dtype)
        add_twice(values, dtype(0.5))
        assert (values == 2).all()
    assert add_twice.signatures == compiled


def test_a_declaration_may_depend_on_more_than_one_type():
    compile_kernels([*specialise([first], np.float64, 1), *specialise([first], np.float64, 2)])
    assert set(first.signatures) == {(float64[::1], int64), (float64[:, ::1], int64)}
    with pytest.raises(TypeError):
        specialise([first], np.float64)


def test_a_kernel_of_a_factory_is_compiled_at_once_and_takes_nothing_else():
    @kernel((float64[::1],))
    def largest(values):
        return values.max()

    assert len(largest.signatures) == 1
    assert largest(np.arange(3.0)) == 2
    with pytest.raises(TypeError):
        largest(np.zeros((2, 2)))


def test_unsigned_integers_hold_the_bits_of_floats():
    assert unsigned(float64).bitwidth == 64


def test_numba_is_asked_to_compile_in_one_file():
    """Every kernel is declared by `kernel`, with a signature; `subroutine` is what kernels alone call."""
    # The peer numba-mpi cannot be cached, a user's function is compiled before any kernel, and `jitter` times Numba.
    elsewhere = {
        "jit/kernel.py", "bench/language/compiled_mpi.py", "bench/tasking/jitter.py", "config/user_functions.py",
    }  # fmt: skip
    package = Path(ridgeline.__file__).parent
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        imported = {
            name.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "numba"
            for name in node.names
        }
        if str(path.relative_to(package)) not in elsewhere:
            assert not imported & {"njit", "jit"}, path
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                names = [ast.unparse(each) for each in node.decorator_list]
                assert not {"kernel", "compiled_pass"} & set(names), f"{path}: {node.name} has no signature"


def test_a_kernel_closes_over_what_reads_the_same_in_every_process():
    factor, names, table, unknown = 2.0, ("a", 3), np.full(3, 5.0), [1.0]

    @subroutine(inline="always")
    def made_here(x):
        return x + x

    @kernel((float64,))
    def scaled(x):
        return made_here(factor * x * names[1])

    assert scaled(1.0) == 12.0

    @kernel((float64,))
    def looked_up(x):
        return table[1] * x

    assert looked_up(2.0) == 10.0

    with pytest.raises(TypeError, match="cannot close over a value of <class 'list'>"):

        @kernel((float64,))
        def refused(x):
            return unknown[0] * x


def test_every_kernel_is_declared_by_ours() -> None:
    kept = [path.name for path in SOURCES if "cache=True" in path.read_text()]
    assert kept == ["kernel_cache.py"], (
        "declare it by ridgeline.jit.kernel; Numba's own cache misses changes in imported files"
    )
