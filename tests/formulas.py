"""Formulas that hold every function and operator that settings may have."""

FORMULAS = [
    "0.3*sin(3*x)*exp(-t)*where(y > z, 1, 2) + x**2/(1 + z**2)",
    "2",
    "-x + +y - t*pi + e",
    "sin(x) + cos(y) + tan(z)",
    "arcsin(x) + arccos(x/3)",
    "arctan(x) + arctan2(x, y)",
    "sinh(x) + cosh(y) + tanh(z)",
    "exp(x) + exp(1000*x)",
    "log(x) + log10(abs(y))",
    "sqrt(x)",
    "cbrt(x)",
    "abs(x) - sign(y)*3",
    "floor(3*x) + ceil(3*y)*10",
    "minimum(x, y) + 3*maximum(y, z)",
    "hypot(x, y)",
    "heaviside(x, 0.25) + heaviside(x - y, z)",
    "x/y",
    "1/(x - x)",
    "x % 0.7 + (x % -0.7)*10 + y % z",
    "x**y + x**2 + x**-1 + abs(x)**0.5",
    "x < y",
    "(x <= 0.5) + 2*(x >= 0.5) + 4*(x == y) + 8*(x != y)",
    "0 < x < y <= z",
    "x > 0 and y > 0 and z",
    "x > 1 or y > 1 or not z > 0",
    "1 if x < 0.5 else y if z > 0 else t",
    "where(x, y, z) + where(y > 0 or x > 0, 1, -1)",
    "5 % 3 + 2**0.5 - 7/2 + (1 < 2)",
]

# Numbers at which functions jump, end, or have no value.
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 1e300, -1e300, float("nan"), float("inf"), float("-inf")]
