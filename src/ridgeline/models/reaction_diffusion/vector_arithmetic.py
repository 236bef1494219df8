"""Formulas on vectors of LLVM IR: the operations that `config.expressions.evaluate` needs, one vector at a time.

+ - * / and sqrt are those of IEEE 754, as in NumPy, so that the bits are the same. Other functions are those of the C
library, called for each lane, so that results do not depend on the width of vectors; so are functions of the user.
"""

import ast
import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ridgeline.jit.llvm import F64, I1, Vector, constant
from ridgeline.models.reaction_diffusion.symbolic_arithmetic import SymbolicArithmetic

# Functions of the C library by their names in formulas; in float32 they end in f.
_OF_C = {
    **{
        name: name
        for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "log10", "cbrt", "hypot")
    },
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "power": "pow",
    "fmod": "fmod",
    "copysign": "copysign",
}
_OF_LLVM = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil"}
_RELATIONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


class VectorArithmetic(SymbolicArithmetic):
    """Operations on vectors of one kind of lanes; masks are values of LLVM IR."""

    symbol = Vector

    def __init__(self, lanes, context):
        super().__init__(np.float64 if lanes.element == F64 else np.float32)
        self.lanes, self.builder, self.context = lanes, lanes.builder, context
        self.mask_type = ir.VectorType(I1, lanes.count)

    def lift(self, value):
        """Return a constant as a vector."""
        return value if isinstance(value, Vector) else self.lanes.constant(float(value))

    def mask(self, value):
        """Return where a number is not 0; a mask stays as it is."""
        if isinstance(value, ir.Value):
            return value
        if isinstance(value, bool | np.bool_):
            return constant(self.mask_type, int(value))
        value = self.lift(value).value
        return self.builder.fcmp_unordered("!=", value, self.lanes.constant(0.0).value)

    def where(self, test, yes, no):
        """Return `yes` where a number is not 0 or a mask is set, otherwise `no`."""
        chosen = self.builder.select(self.mask(test), self.lift(yes).value, self.lift(no).value)
        return Vector(self.lanes, chosen)

    def inverse(self, mask):
        return self.builder.not_(mask)

    def differ(self, a, b):
        return self.builder.xor(a, b)

    def compare(self, kind, a, b):
        a, b = self.lift(a).value, self.lift(b).value
        if kind is ast.NotEq:
            return self.builder.fcmp_unordered("!=", a, b)
        return self.builder.fcmp_ordered(_RELATIONS[kind], a, b)

    def both_or_either(self, kind, a, b):
        return (self.builder.and_ if kind is ast.And else self.builder.or_)(self.mask(a), self.mask(b))

    def call(self, name, *operands):
        if name in _OF_LLVM:
            return self._of_llvm(_OF_LLVM[name], *operands)
        return self._of_c(_OF_C[name], *operands)

    def _of_llvm(self, name, a):
        kind = ir.FunctionType(self.lanes.type, [self.lanes.type])
        function = cgutils.get_or_insert_function(
            self.builder.module, kind, f"llvm.{name}.{self.lanes.suffix}"
        )
        return Vector(self.lanes, self.builder.call(function, [a.value]))

    def _of_c(self, name, *operands):
        """Call a function of the C library for each lane."""
        element, builder = self.lanes.element, self.builder
        kind = ir.FunctionType(element, [element] * len(operands))
        name = name if element == F64 else f"{name}f"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        result = ir.Constant(self.lanes.type, ir.Undefined)
        for lane in range(self.lanes.count):
            place = ir.Constant(ir.IntType(32), lane)
            value = builder.call(function, [builder.extract_element(each.value, place) for each in operands])
            result = builder.insert_element(result, value, place)
        return Vector(self.lanes, result)

    def user(self, function, values):
        """Call a compiled function of the user for each lane; where it raises, the result is not a number."""
        builder, element, operands = self.builder, self.lanes.element, [self.lift(each) for each in values]
        dtype = types.float64 if element == F64 else types.float32
        dispatcher = function.compiled("float64" if element == F64 else "float32")
        made = dispatcher.overloads[(dtype,) * len(operands)]
        self.context.add_linking_libs([made.library])
        result = ir.Constant(self.lanes.type, ir.Undefined)
        for lane in range(self.lanes.count):
            place = ir.Constant(ir.IntType(32), lane)
            arguments = [builder.extract_element(each.value, place) for each in operands]
            status, value = self.context.call_internal_no_propagate(
                builder, made.fndesc, made.signature, arguments
            )
            value = self.context.cast(builder, value, made.signature.return_type, dtype)
            value = builder.select(status.is_error, ir.Constant(element, math.nan), value)
            result = builder.insert_element(result, value, place)
        return Vector(self.lanes, result)
