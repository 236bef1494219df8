"""The update of a cell as source code of a device function: formulas on pieces of code in place of numbers.

`kernels.cell_update` computes with whatever has + - * and negation. Here each operation adds a line to the code, such
as `v7 = multiply(v3, v5)`, so that formulas of GPU kernels are those of CPUs, in the same order. A product is rounded
by itself (mul.rn), because the compiler would fuse it with a sum; the other operations are those of IEEE 754. Every
name in the code is one of `NAMES` or is made here: no text of a formula becomes code. A user's function is called
under a name that is made here, too; the compiler may fuse products and sums inside it.
"""

import ast
import math

import numpy as np
from numba.cuda import libdevice

from ridgeline.jit.cuda_device import SIMULATED, device_function, load, store
from ridgeline.models.reaction_diffusion.symbolic_arithmetic import SymbolicArithmetic

_RELATIONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_SAME_NAMES = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "log10", "hypot")
_MATH_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2"}


def _simulated_names(dtype):
    functions = {name: getattr(np, name) for name in (*_SAME_NAMES, *_MATH_NAMES)}
    plain = {name: getattr(np, name) for name in ("sqrt", "abs", "floor", "ceil", "cbrt", "fmod", "copysign")}
    return {**functions, **plain, "power": np.power, "multiply": lambda a, b: a * b}


def _device_names(dtype):
    single = "f" if np.dtype(dtype) == np.float32 else ""
    functions = {name: getattr(math, name) for name in _SAME_NAMES}
    functions |= {name: getattr(math, other) for name, other in _MATH_NAMES.items()}
    functions |= {
        name: getattr(libdevice, f"{name}{single}") for name in ("floor", "ceil", "cbrt", "copysign")
    }
    functions |= {"sqrt": math.sqrt, "abs": math.fabs, "fmod": math.fmod, "power": math.pow}
    return functions | {"multiply": libdevice.fmul_rn if single else libdevice.dmul_rn}


class Code:
    """The name of a number in the code, or of a truth."""

    def __init__(self, lines, text, truth=False):
        self.lines, self.text, self.truth = lines, text, truth

    def __add__(self, other):
        return self.lines.add(f"{self.text} + {self.lines.text(other)}")

    def __radd__(self, other):
        return self.lines.add(f"{self.lines.text(other)} + {self.text}")

    def __sub__(self, other):
        return self.lines.add(f"{self.text} - {self.lines.text(other)}")

    def __rsub__(self, other):
        return self.lines.add(f"{self.lines.text(other)} - {self.text}")

    def __mul__(self, other):
        return self.lines.add(f"multiply({self.text}, {self.lines.text(other)})")

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self.lines.add(f"{self.text} / {self.lines.text(other)}")

    def __neg__(self):
        return self.lines.add(f"-{self.text}")


class CodeLines:
    """The lines of a device function, one operation each."""

    def __init__(self, dtype):
        self.dtype, self._lines, self._known = np.dtype(dtype), [], {}
        self._users = {}  # functions of the user, with their names in the code

    def add(self, operation, truth=False):
        """Return the result of an operation, which is written once."""
        if operation not in self._known:
            self._known[operation] = name = f"v{len(self._known)}"
            self._lines.append(f"{name} = {operation}")
        return Code(self, self._known[operation], truth)

    def name_of(self, function):
        """Return the name of a function of the user in the code."""
        return self._users.setdefault(function, f"user{len(self._users)}")

    def do(self, statement):
        """Add a statement without a result."""
        self._lines.append(statement)

    def text(self, value):
        """Return a piece of code, or a constant in the precision of the run."""
        if isinstance(value, Code):
            return value.text
        number = float(self.dtype.type(value))
        if math.isnan(number):
            return "real(1e999 - 1e999)"
        return f"real({str(number).replace('inf', '1e999')})"

    def function(self, arguments):
        """Return the device function of the lines."""
        names = (_simulated_names if SIMULATED else _device_names)(self.dtype)
        names |= {"load": load, "store": store, "real": self.dtype.type}
        names |= {name: device_function(each.function) for each, name in self._users.items()}
        return function_of_code(arguments, self._lines, names)


def function_of_code(arguments, lines, names):
    """Return the device function of some lines of code, which knows nothing but its arguments and `names`."""
    body = "".join(f"    {line}\n" for line in lines)
    known = {**names, "__builtins__": {}}
    exec(f"def of_code({', '.join(arguments)}):\n{body}", known)
    return device_function(known["of_code"])


class CodeArithmetic(SymbolicArithmetic):
    """Operations on pieces of code; masks are truths among them."""

    symbol = Code

    def __init__(self, lines):
        super().__init__(lines.dtype)
        self.lines = lines

    def lift(self, value):
        """Return a constant as a piece of code."""
        return value if isinstance(value, Code) else Code(self.lines, self.lines.text(value))

    def mask(self, value):
        """Return where a number is not 0; a truth stays as it is."""
        if isinstance(value, Code) and value.truth:
            return value
        return self.lines.add(f"{self.lift(value).text} != real(0.0)", truth=True)

    def where(self, test, yes, no):
        """Return `yes` where a number is not 0 or a truth holds, otherwise `no`."""
        yes, no = self.lift(yes), self.lift(no)
        return self.lines.add(f"{yes.text} if {self.mask(test).text} else {no.text}")

    def inverse(self, mask):
        return self.lines.add(f"not {mask.text}", truth=True)

    def differ(self, a, b):
        return self.lines.add(f"{a.text} != {b.text}", truth=True)

    def compare(self, kind, a, b):
        a, b = self.lift(a), self.lift(b)
        return self.lines.add(f"{a.text} {_RELATIONS[kind]} {b.text}", truth=True)

    def both_or_either(self, kind, a, b):
        word = "and" if kind is ast.And else "or"
        return self.lines.add(f"{self.mask(a).text} {word} {self.mask(b).text}", truth=True)

    def call(self, name, *operands):
        return self.lines.add(f"real({name}({', '.join(each.text for each in operands)}))")

    def user(self, function, values):
        """Call a function of the user."""
        function.compiled(self.lines.dtype.name)  # which says what is wrong with it
        return self.call(self.lines.name_of(function), *map(self.lift, values))
