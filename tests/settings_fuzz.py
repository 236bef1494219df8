"""Settings as nobody means them: boundary values, wrong types, odd texts and formulas, misspelt keys, seeded."""

# ruff: noqa: E501

import faulthandler
import json
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ridgeline.config.schema import ANY, fields_of, sections_of
from ridgeline.models import case_class

SMALLEST: dict[str, dict[str, Any]] = {
    "gray_scott": {"run": {"model": "gray_scott", "steps": 2}, "grid": {"shape": [8, 9, 10]}},
    "turbulence": {
        "run": {"model": "turbulence", "steps": 2},
        "grid": {"shape": [16, 16, 16]},
        "model": {"viscosity": 0.01, "dt": 0.001},
    },
    "reaction_diffusion": {
        "run": {"model": "reaction_diffusion", "steps": 2},
        "grid": {"shape": [8, 9, 10]},
        "model": {"dt": 0.01, "parameters": {"a": 1.0}, "species": [{"name": "U", "rate": "a - U"}]},
    },
    "navier_stokes": {
        "run": {"model": "navier_stokes", "steps": 2},
        "grid": {"elements": [2, 2, 2], "order": 4, "periodic": [True, True, True]},
        "model": {"viscosity": 0.01, "dt": 0.001},
    },
}

INTEGERS = [0, 1, -1, 2, 3, 4, 7, 31, 32, 64, 1100, 4096, 10**5, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**64, -(2**63), 10**400]  # fmt: skip
NUMBERS = [
    0.0, -0.0, 1.0, -1.0, 0.5, 0.1, 2.0, 1.5707, 3.2, 1e-3, 1e-30, 1e-31, 5e-324, 2.3e-308, 1e-10, 1e6, 1e30, 1.1e30,
    1e100, 1e308, -1e308, -1e30, 1.7976931348623157e308, float("nan"), float("inf"), float("-inf"),
]  # fmt: skip
DEEP: Any = 1
for _ in range(900):
    DEEP = [DEEP]
TEXTS = [
    "", " ", "x", "0", "nan", "auto", "none", "exact", "a\0b", "\0", "../x", "/", ".", "..", "~", "a" * 300, "b/" * 3000,
    "z" * 5000, "ü" * 150, "\U0001f30d.bp", "\n", "\t", "-", "[", "file.py:f", "scalar_0", "scalar_99999999999999999999",
    "scalar_١", "velocity_x", "99999999:00:00", "1" * 5000 + ":00:00", "00:00:01", "\ud800", "%s", "{}", "C:\\x", "a//b",
]  # fmt: skip
FORMULAS = [
    "x", "sin(2*pi*x)", "1e400", "9" * 400, "9**9**9**9", "(" * 150 + "x" + ")" * 150, "-" * 1500 + "x", "not " * 400 + "x",
    "+".join("x" * 900), "sin(" * 90 + "x" + ")" * 90, "x if " * 300 + "x", "x**-1e308", "1/0", "x.y", "x[0]", "lambda: x",
    "__import__('os')", "f(x)", "x, y", "t", "e**1e9", "0x" + "f" * 900, "1" + "e9" * 5, "x<" * 300 + "x", "x and " * 300 + "x",
    "[" * 500, "x\0", "1_000", "1j", "'a'", "True", "...", "x if x", "@", "((((", "hypot(x)", "where(x,y,z)", "sqrt(-1)",
]  # fmt: skip
OTHERS: list[Any] = [True, False, [], {}, [[]], [{}], {"a": 1}, [1, 2, 3], [0, 0, 0], [1, 1, 1], [1.0, 1.0, 1.0], ["x"] * 3, [True] * 3,
                     DEEP, list(range(1000)), ["U"] * 500, None]  # fmt: skip


def kinds(annotation: Any) -> Iterator[Any]:
    """Yield the plain alternatives of a field's type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from kinds(arguments[0])
    elif origin in (Union, UnionType):
        for argument in arguments:
            yield from kinds(argument)
    else:
        yield annotation


def valued(rng: random.Random, annotation: Any) -> Any:
    """Return a value of about the right type."""
    kind = rng.choice([k for k in kinds(annotation) if k is not type(None)] or [str])
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return rng.choice(arguments)
    if origin is tuple:
        length = rng.choice([0, 1, 2, 5]) if arguments[-1] is Ellipsis else len(arguments)
        return [valued(rng, arguments[0]) for _ in range(length)]
    if kind is bool:
        return rng.random() < 0.5
    if kind is int:
        return rng.choice(INTEGERS) if rng.random() < 0.5 else rng.randrange(1, 40)
    if kind is float:
        return rng.choice(NUMBERS) if rng.random() < 0.5 else 10 ** rng.uniform(-4, 2)
    return rng.choice(FORMULAS if rng.random() < 0.5 else TEXTS)


def mutated(rng: random.Random, model: str, strength: float = 0.25) -> dict[str, Any]:
    """Return settings of a model with some keys that are odd, wrong, misspelt or merely other ones."""
    document = json.loads(json.dumps(SMALLEST[model]))
    fields = fields_of(case_class(model))
    if rng.random() < 0.4:
        document["scalar"] = [{} for _ in range(rng.choice([1, 2, 2, 150]))]
    for key in rng.sample(sorted(fields), rng.choice([1, 2, 3, 6, 12])):
        *path, name = key.split(".")
        table: Any = document
        for part in path:
            if isinstance(table, list):
                table = table[rng.randrange(len(table))] if table else {}
            else:
                table = table.setdefault(part, {}) if part != ANY else table
        if isinstance(table, list):
            table = rng.choice(table) if table else {}
        value = valued(rng, fields[key].annotation)
        if rng.random() < strength:
            value = rng.choice([rng.choice(group) for group in (INTEGERS, NUMBERS, TEXTS, FORMULAS, OTHERS)])
        if rng.random() < strength / 5:
            name = rng.choice([name[:-1], name.upper(), name + "\0", "", "²", "x" * 3000, "0"])
        if isinstance(table, dict):
            table[name] = value
    if rng.random() < strength / 5:
        document[rng.choice(["gird", "", "²", "run.model", "x" * 3000, "scalar"])] = rng.choice(OTHERS)
    if rng.random() < strength / 10:
        document[
            rng.choice(sorted({section.key.split(".")[0] for section in sections_of(case_class(model))}))
        ] = rng.choice([*OTHERS, *NUMBERS[:3]])
    return document


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """End the block by TimeoutError after some seconds."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not done in {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    faulthandler.dump_traceback_later(4 * seconds, exit=True)  # where no signal arrives
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)
