"""Functions of the user in place of formulas: their values, what is refused, and in which words."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from ridgeline.config.expressions import ExpressionError, parse
from ridgeline.config.user_functions import load_user_function
from ridgeline.jit.formulas import CPU, FormulaLoop, point_function
from ridgeline.models import case_class
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.user_code import NO_PYTHON, digest_of

MINE = """\
import math

import numpy as np
from numba import njit

TABLE = np.array([1.0, 2.0, 4.0])


@njit
def square(a):
    return a * a


def wave(x, t):
    total = 0.0
    for n in range(1, 4):
        total += math.sin(n * x) / n
    return total * square(t) + TABLE[2]


def one():
    return 1


def below(y, x):
    return y < x


def unknown(x, ome):
    return x


def starred(*x):
    return 1.0


def given(x, y=1.0):
    return x


def names(x):
    return x + missing


def untyped(x):
    return x + "a"


def pair(x):
    return x, x


def nothing(x):
    if x > 0:
        return x


def lists(x):
    found = np.zeros(3)
    found[int(x)] = x
    return found.sum()


def late(x):
    return math.log(x - 100.0)


NOT_ONE = 3
"""
X, Y = np.random.default_rng(3).uniform(0.0, 2.0, (2, 3, 5))


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def test_values_are_those_of_the_plain_function():
    formula = parse(" mine.py:wave ")
    assert (formula.text, formula.variables, formula.steady) == ("mine.py:wave", {"x", "t"}, False)
    expected = load_user_function("mine.py:wave").at_points("float64", X, 0.5)
    np.testing.assert_array_equal(formula(X, Y, X, 0.5), expected)
    out = np.empty_like(X)
    FormulaLoop(formula, "xyz", "t")({"x": X, "t": 0.5}, out)
    np.testing.assert_array_equal(out, expected)
    assert point_function(parse("mine.py:below"), ("x", "y"), CPU)(1.0, 0.0) == 1.0
    assert parse("mine.py:one").evaluate({}) == 1.0
    np.testing.assert_array_equal(parse("mine.py:below")(X, Y, X, 0.0), (Y < X) * 1.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mine.py:unknown", r"^mine.py:29: .* has a parameter ome, .* \(did you mean omega\?\); the known"),
        (
            "mine.py:starred",
            r"^mine.py:33: .* has a parameter \*x, but all its parameters must be plain names",
        ),
        ("mine.py:given", r"^mine.py:37: .* has a parameter y=1.0, but"),
        ("mine.py:absent", "mine.py has no function absent"),
        ("mine.py:NOT_ONE", "mine.py has no function NOT_ONE"),
        ("ours.py:wave", "there is no file ours.py here"),
    ],
)
def test_what_settings_refuse(text, words):
    with pytest.raises(ExpressionError, match=words) as caught:
        parse(text, ("x", "y", "t", "omega"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("names", r"^mine.py:42: .* cannot be compiled: .*'missing'"),
        ("untyped", r"^mine.py:46: .* cannot be compiled: "),
        ("pair", r"^mine.py:49: .* returns .*Tuple.*, but it must return a number"),
        ("nothing", r"^mine.py:53: .* returns nothing in some case, but"),
        ("lists", r"^mine.py:58: .* allocates memory, for an array or a list, at every point"),
    ],
)
def test_what_does_not_compile(name, words):
    with pytest.raises(ConfigError, match=words) as caught:
        parse(f"mine.py:{name}").evaluate({"x": X})
    assert "\n" not in str(caught.value)


def test_before_numba_it_is_called_as_it_is():
    function = load_user_function("mine.py:late")
    with pytest.raises(
        ConfigError, match=r"^mine.py:65: .*at x = 1 failed \(ValueError: math domain error\)"
    ):
        function._one_by_one([np.float64(1.0)])
    with pytest.raises(ConfigError, match=r"^mine.py:49: .*returns a tuple, but it must return a number"):
        load_user_function("mine.py:pair")._one_by_one([np.float64(1.0)])
    wave = load_user_function("mine.py:wave")
    np.testing.assert_array_equal(wave._one_by_one([X, 0.5]), wave(X, 0.5))


def test_a_changed_file_is_read_again_and_is_another_run(mine):
    def case():
        initial = {"kind": "formula", "formula_u": "mine.py:one", "formula_v": "0"}
        document = {
            "run": {"model": "gray_scott", "steps": 2},
            "grid": {"shape": [4, 4, 4]},
            "initial": initial,
        }
        return case_class("gray_scott").model_validate(document)

    first = case()
    assert first.identity()["initial.formula_u.source"] == first.flatten()["initial.formula_u.source"]
    assert first.identity() == case().identity()
    assert first.user_formulas() == ["mine.py:one"]
    mine.write_text(MINE.replace("return 1\n", "return 2\n"))
    assert parse("mine.py:one").evaluate({}) == 2.0
    assert first.identity() != case().identity()
    assert case().is_of_start("initial.formula_u.source")


def test_no_python_refuses_a_function_that_was_loaded_before(monkeypatch):
    parse("mine.py:wave")
    monkeypatch.setenv(NO_PYTHON, "1")
    with pytest.raises(ExpressionError, match="--no-python"):
        parse("mine.py:wave")
    assert os.environ[NO_PYTHON]


def test_the_digest_sees_the_files_beside_it_that_it_imports(tmp_path):
    """Also those of packages and of what is imported in turn, in rings; not installed modules or other files."""
    mine, helper, other = (tmp_path / name for name in ("a.py", "helper.py", "other.py"))
    package = tmp_path / "parts"
    package.mkdir()
    for path, text in (
        (mine, "import math\nimport helper\n\ndef f(x):\n    return helper.g(x)\n"),
        (helper, "from parts.inner import one as g\nimport a\n"),
        (package / "__init__.py", ""),
        (package / "inner.py", "from . import deep\n"),
        (package / "deep.py", "ONE = 1\n"),
        (other, "TWO = 2\n"),
    ):
        path.write_text(text)
    seen = {digest_of(str(mine))}
    for path in (package / "deep.py", package / "__init__.py", package / "inner.py", helper, mine):
        path.write_text(path.read_text() + "# changed\n")
        assert digest_of(str(mine)) not in seen, path
        seen.add(digest_of(str(mine)))
    other.write_text("TWO = 3\n")
    assert digest_of(str(mine)) in seen
    mine.write_text("import math\n")
    alone = digest_of(str(mine))
    helper.unlink()
    assert digest_of(str(mine)) == alone == hashlib.blake2b(b"import math\n", digest_size=16).hexdigest()
    mine.write_text("import (")
    assert digest_of(str(mine)) != alone


def test_it_may_import_what_is_beside_it(tmp_path):
    (tmp_path / "beside_mine.py").write_text(
        "from numba import njit\n\n@njit\ndef twice(a):\n    return 2.0 * a\n"
    )
    mine = tmp_path / "mine.py"
    mine.write_text("from beside_mine import twice\n\ndef f(x):\n    return twice(x) + 1.0\n")
    before = list(sys.path)
    formula = parse(f"{mine}:f")
    out = np.empty(3)
    FormulaLoop(formula, ["x"])({"x": np.arange(3.0)}, out)
    np.testing.assert_array_equal(out, [1.0, 3.0, 5.0])
    assert sys.path == before


def test_a_file_that_imports_numba_leaves_the_number_of_threads_to_the_run():
    """The settings are read, and their files run, before the run sets its threads; later kernels must compile."""
    program = (
        "import numba\n"
        "from ridgeline.runtime.machine import configure_threads\n"
        "configure_threads(1)\n"
        "assert numba.get_num_threads() == 1\n"
        "numba.njit('float64(float64)')(lambda x: x)\n"
        "assert numba.config.NUMBA_NUM_THREADS == 1\n"
    )
    environment = os.environ | {"NUMBA_NUM_THREADS": "2"}
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
