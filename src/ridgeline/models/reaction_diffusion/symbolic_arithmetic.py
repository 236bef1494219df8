"""Formulas on symbols instead of numbers: what vectors of LLVM IR and pieces of GPU code have in common.

`config.expressions.evaluate` walks over a formula with the table of operations that is made here. Constants stay
NumPy numbers of the precision of the run until they meet a symbol. A comparison returns a mask, which is not a number
until `truth` makes it one.
"""

import ast
from functools import partial

import numpy as np

from ridgeline.config.expressions import FUNCTIONS, Arithmetic, arithmetic_in


class SymbolicArithmetic:
    """Operations on symbols of one kind, and on constants of the same precision.

    A kind of symbols adds `symbol`, their class, and these methods: `lift` makes a symbol of a constant, `mask` says
    where a number is not 0, `where` chooses by a mask or a number, `inverse` and `differ` combine masks, `compare`
    and `both_or_either` return masks, `call` calls a function by its name in formulas, or power, fmod and copysign,
    and `user` calls a function of the user.
    """

    def __init__(self, dtype):
        self.constants = arithmetic_in(dtype)

    def table(self):
        """Return the operations as `evaluate` takes them."""
        both = self.constants
        binary = {kind: partial(self._mixed, both.binary[kind], self._binary(kind)) for kind in both.binary}
        compare = {kind: partial(self.compare, kind) for kind in both.compare}
        boolean = {kind: partial(self.both_or_either, kind) for kind in (ast.And, ast.Or)}
        unary = {
            ast.UAdd: lambda a: a,
            ast.USub: lambda a: -a,
            ast.Not: lambda a: self.truth(self.inverse(self.mask(a))),
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

    def truth(self, mask):
        """Return 1 where a mask is set, 0 elsewhere."""
        return self.where(mask, 1.0, 0.0)

    def _mixed(self, of_constants, of_symbols, *operands):
        """Apply one of two operations: that of NumPy if all operands are constants."""
        if not any(isinstance(each, self.symbol) for each in operands):
            with np.errstate(all="ignore"):
                return of_constants(*operands)
        return of_symbols(*map(self.lift, operands))

    def _binary(self, kind):
        return {
            ast.Add: lambda a, b: a + b,
            ast.Sub: lambda a, b: a - b,
            ast.Mult: lambda a, b: a * b,
            ast.Div: lambda a, b: a / b,
            ast.Pow: partial(self.call, "power"),
            ast.Mod: self._remainder,
        }[kind]

    def _function(self, name):
        return {
            "minimum": partial(self._extreme, ast.Lt),
            "maximum": partial(self._extreme, ast.Gt),
            "sign": self._sign,
            "heaviside": self._heaviside,
            "where": self.where,
        }.get(name, partial(self.call, name))

    def _remainder(self, a, b):
        """Return a % b with the sign of b, as NumPy does."""
        zero = self.lift(0.0)
        rest = self.call("fmod", a, b)
        other_sign = self.differ(*(self.compare(ast.Lt, each, zero) for each in (rest, b)))
        moved = self.where(other_sign, rest + b, rest)
        return self.where(self.mask(rest), moved, self.call("copysign", zero, b))

    def _extreme(self, kind, a, b):
        first = self.both_or_either(ast.Or, self.compare(kind, a, b), self.compare(ast.NotEq, a, a))
        return self.where(first, a, b)

    def _sign(self, a):
        result = self.where(self.compare(ast.Eq, a, 0.0), 0.0, a)
        result = self.where(self.compare(ast.Gt, a, 0.0), 1.0, result)
        return self.where(self.compare(ast.Lt, a, 0.0), -1.0, result)

    def _heaviside(self, a, at_zero):
        result = self.where(self.compare(ast.Eq, a, 0.0), at_zero, a)
        result = self.where(self.compare(ast.Gt, a, 0.0), 1.0, result)
        return self.where(self.compare(ast.Lt, a, 0.0), 0.0, result)
