"""A kernel that cannot be compiled: one sentence with the kernel, the file, the line, and what is wrong there."""

import importlib.util
import re

import pytest

from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.runtime.errors import KernelError

KERNELS = """\
import numpy as np

from ridgeline.jit.kernel import kernel, subroutine


@kernel(lambda T: (T[::1], T[::1]))
def undefined(t, out):
    for i in range(t.size):
        out[i] = t[i] + zz


@kernel(lambda T: (T[::1], T[::1], T))
def one_type_too_many(t, out):
    out[0] = t[0]


@kernel(lambda T: (T[::1], T[::1]))
def no_sum(t, out):
    text = "x"
    out[0] = t[0] + text


@subroutine
def helper(t):
    return t.nothing


@kernel(lambda T: (T[::1], T[::1]))
def in_what_it_calls(t, out):
    out[0] = helper(t)


@kernel(lambda T: (T[::1], T[::1]))
def not_offered(t, out):
    with open("x") as file:
        out[0] = 1


@kernel(lambda T: (T[::1], T[::1]))
def too_many_arguments(t, out):
    out[0] = np.linalg.norm(t, 5, 6, 7)
"""


@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    path = tmp_path_factory.mktemp("declared") / "bad_kernels.py"
    path.write_text(KERNELS)
    spec = importlib.util.spec_from_file_location("bad_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("undefined", 9, "NameError: name 'zz' is not defined"),
        (
            "one_type_too_many",
            12,
            "Signature mismatch: 3 argument types given, but function takes 2 arguments",
        ),
        ("no_sum", 20, "No implementation of function .*add.* found for signature: add\\(float64, .*\\)"),
        ("in_what_it_calls", 25, "Unknown attribute 'nothing' of type array\\(float64, 1d, C\\)"),
        ("not_offered", 33, "The 'with .*' construct is not supported"),
        (
            "too_many_arguments",
            41,
            "No implementation of function .*norm.* found for signature: norm\\(array.*",
        ),
    ],
)
def test_the_place_and_the_reason_are_one_sentence(declared, name, line, reason):
    with pytest.raises(KernelError) as caught:
        compile_kernels(specialise([getattr(declared, name)], "float64"))
    expected = (
        rf"{re.escape(declared.__file__)}:{line}: the kernel {name} cannot be compiled: {reason}\. Correct it"
    )
    assert re.match(expected, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None
