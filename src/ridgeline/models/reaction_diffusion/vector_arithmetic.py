"""Formulas on vectors of LLVM IR: the operations that `config.expressions.evaluate` needs, one vector at a time.

Constants stay NumPy numbers of the precision of the run until they meet a vector. + - * / and sqrt are those of
IEEE 754, as in NumPy, so that the bits are the same. Other functions are those of the C library, called for each
lane, so that results do not depend on the width of vectors; so are functions of the user.
"""

import ast
import math
from functools import partial

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ridgeline.config.expressions import FUNCTIONS, Arithmetic, arithmetic_in
from ridgeline.jit.llvm import F64, I1, Vector, constant

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
}
_OF_LLVM = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil"}
_RELATIONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


class VectorArithmetic:
    """Operations on vectors of one kind of lanes, and on constants of the same precision."""

    def __init__(self, lanes, context):
        self.lanes, self.builder, self.context = lanes, lanes.builder, context
        self.constants = arithmetic_in(np.float64 if lanes.element == F64 else np.float32)
        self.mask_type = ir.VectorType(I1, lanes.count)

    def table(self):
        """Return the operations as `evaluate` takes them."""
        both = self.constants
        binary = {kind: partial(self._mixed, both.binary[kind], self._binary(kind)) for kind in both.binary}
        compare = {kind: partial(self._compare, kind) for kind in both.compare}
        boolean = {ast.And: partial(self._boolean, "and_"), ast.Or: partial(self._boolean, "or_")}
        unary = {
            ast.UAdd: lambda a: a,
            ast.USub: lambda a: -a,
            ast.Not: lambda a: self.truth(self.builder.not_(self.mask(a))),
        }
        functions = {name: partial(self._mixed, FUNCTIONS[name], self._function(name)) for name in FUNCTIONS}
        functions["where"] = self.where
        return Arithmetic(
            both.number,
            self.truth,
            binary,
            unary,
            compare,
            boolean,
            self.where,
            functions,
            self.user,
            product_powers=True,
        )

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

    def truth(self, mask):
        """Return 1 where a mask is set, 0 elsewhere."""
        return self._select(self.mask(mask), self.lanes.constant(1.0), self.lanes.constant(0.0))

    def where(self, test, yes, no):
        """Return `yes` where a number is not 0, otherwise `no`."""
        return self._select(self.mask(test), self.lift(yes), self.lift(no))

    def _select(self, mask, yes, no):
        return Vector(self.lanes, self.builder.select(mask, yes.value, no.value))

    def _mixed(self, of_constants, of_vectors, *operands):
        """Apply one of two operations: that of NumPy if all operands are constants."""
        if not any(isinstance(each, Vector) for each in operands):
            with np.errstate(all="ignore"):
                return of_constants(*operands)
        return of_vectors(*map(self.lift, operands))

    def _binary(self, kind):
        return {
            ast.Add: lambda a, b: a + b,
            ast.Sub: lambda a, b: a - b,
            ast.Mult: lambda a, b: a * b,
            ast.Div: lambda a, b: a / b,
            ast.Pow: partial(self._of_c, "pow"),
            ast.Mod: self._remainder,
        }[kind]

    def _compare(self, kind, a, b):
        a, b = self.lift(a).value, self.lift(b).value
        if kind is ast.NotEq:
            return self.builder.fcmp_unordered("!=", a, b)
        return self.builder.fcmp_ordered(_RELATIONS[kind], a, b)

    def _boolean(self, name, a, b):
        return getattr(self.builder, name)(self.mask(a), self.mask(b))

    def _function(self, name):
        if name in _OF_C:
            return partial(self._of_c, _OF_C[name])
        if name in _OF_LLVM:
            return partial(self._of_llvm, _OF_LLVM[name])
        return {
            "minimum": partial(self._extreme, "<"),
            "maximum": partial(self._extreme, ">"),
            "sign": self._sign,
            "heaviside": self._heaviside,
            "where": self.where,
        }[name]

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

    def _remainder(self, a, b):
        """Return a % b with the sign of b, as NumPy does."""
        zero = self.lanes.constant(0.0)
        rest = self._of_c("fmod", a, b)
        nonzero = self.builder.fcmp_unordered("!=", rest.value, zero.value)
        signs = [self.builder.fcmp_ordered("<", each.value, zero.value) for each in (rest, b)]
        other_sign = self.builder.and_(nonzero, self.builder.xor(*signs))
        rest = self._select(other_sign, rest + b, rest)
        return self._select(nonzero, rest, self._of_c("copysign", zero, b))

    def _extreme(self, relation, a, b):
        first = self.builder.or_(
            self.builder.fcmp_ordered(relation, a.value, b.value),
            self.builder.fcmp_unordered("uno", a.value, a.value),
        )
        return self._select(first, a, b)

    def _sign(self, a):
        one, zero = self.lanes.constant(1.0), self.lanes.constant(0.0)
        result = self._select(self.builder.fcmp_ordered("==", a.value, zero.value), zero, a)
        result = self._select(self.builder.fcmp_ordered(">", a.value, zero.value), one, result)
        return self._select(self.builder.fcmp_ordered("<", a.value, zero.value), -one, result)

    def _heaviside(self, a, at_zero):
        one, zero = self.lanes.constant(1.0), self.lanes.constant(0.0)
        result = self._select(self.builder.fcmp_ordered("==", a.value, zero.value), at_zero, a)
        result = self._select(self.builder.fcmp_ordered(">", a.value, zero.value), one, result)
        return self._select(self.builder.fcmp_ordered("<", a.value, zero.value), zero, result)
