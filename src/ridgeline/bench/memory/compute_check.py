"""Does this core compute correctly, how fast, and is it left to this process: exact arithmetic for some seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ridgeline.bench.memory import exact_chains
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.runtime.errors import ConfigError

_KERNELS = (exact_chains.multiply_chains, exact_chains.congruential_chains)
_STEPS = 100_000  # of both kinds of chains between two looks at the clock: less than a millisecond
_SEED = 0x2545F4914F6CDD1D


@dataclass(frozen=True)
class ComputeResult:
    """What was found.

    rate: operations per second of wall time (FLOPs of multiply_chains and integer operations of congruential_chains
    together), to compare with other cores of the same kind; correct: all bits of all chains as Python's
    integers give them; cpu_share: processor time of this thread over wall time, 1 on a core of its own;
    detail: what was wrong, or "".
    """

    rate: float
    correct: bool
    cpu_share: float
    detail: str


def compile_checks() -> None:
    """Compile the kernels, or load them from the cache."""
    compile_kernels(specialise(_KERNELS))


def check_compute(seconds: float) -> ComputeResult:
    """Compute for so many seconds of wall time (at least one batch), one thread, and compare bit for bit.

    The chains (exact_chains.py) are as long as the time allows; their last values are computed independently
    in closed form with Python's integers. Kernels are compiled before the clock starts and release the interpreter's
    lock. No communication. Raises ConfigError if seconds is negative.
    """
    if seconds < 0:
        raise ConfigError(f"a compute check of {seconds} s: the time cannot be negative")
    compile_checks()
    rng = np.random.default_rng(_SEED)
    starts = rng.integers(1, exact_chains.MODULUS // 2, exact_chains.float_chains())
    seeds = rng.integers(0, 2**63, exact_chains.INTEGER_CHAINS).astype(np.uint64)
    x, y = starts.astype(np.float64), seeds.copy()
    multiply, congruential = exact_chains.multiply_chains, exact_chains.congruential_chains
    steps = 0
    wall, cpu = time.perf_counter(), time.thread_time()
    end = wall + seconds
    while True:
        multiply(x, _STEPS)
        congruential(y, _STEPS)
        steps += _STEPS
        now = time.perf_counter()
        if now >= end:
            break
    cpu, wall = time.thread_time() - cpu, now - wall
    operations = steps * (
        x.size * exact_chains.FLOPS_PER_STEP + y.size * exact_chains.OPERATIONS_PER_INTEGER_STEP
    )
    detail = "; ".join(filter(None, (_wrong_float(starts, x, steps), _wrong_integer(seeds, y, steps))))
    return ComputeResult(operations / wall, not detail, min(cpu / wall, 1.0), detail)


def _wrong_float(starts: np.ndarray, x: np.ndarray, steps: int) -> str:
    for n, (start, value) in enumerate(zip(starts, x)):
        expected = exact_chains.multiply_exactly(int(start), steps)
        # Not an integer, or not finite: not even comparable modulo p.
        if not float(value).is_integer() or int(value) % exact_chains.MODULUS != expected:
            return f"floating-point chain {n} is {float(value):.17g} after {steps} steps, modulo p {expected}"
    return ""


def _wrong_integer(seeds: np.ndarray, y: np.ndarray, steps: int) -> str:
    for n, (seed, value) in enumerate(zip(seeds, y)):
        expected = exact_chains.congruential_exactly(int(seed), steps)
        if int(value) != expected:
            return f"integer chain {n} is {int(value):#x} after {steps} steps instead of {expected:#x}"
    return ""
