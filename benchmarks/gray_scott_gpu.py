"""Whole steps on a GPU, against the bandwidth at which it copies its own memory."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from gray_scott_sweep import NOISE, Settings
from harness.table import Row
from ridgeline.runtime.errors import DeviceError

STEPS = 50  # between two looks at the clock
ROUNDS = 7


def _seconds_per_step(model: Any) -> float:
    from numba import cuda

    cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        model.step(1)
    cuda.synchronize()
    return (time.perf_counter() - start) / STEPS


def gpu(settings: Settings) -> Iterator[Row]:
    """Effective bandwidth as the Frontier paper counts it (Eqs. 4-5), over measured device copy bandwidth."""
    from mpi4py import MPI

    from ridgeline.limits.limits_cuda import measure_device_copy
    from ridgeline.models import create
    from ridgeline.models.contract import StepTimes
    from ridgeline.models.gray_scott.settings import GrayScottCase
    from ridgeline.runtime.context import Context
    from ridgeline.runtime.devices import describe_devices

    try:
        device = describe_devices()[0]
    except DeviceError as reason:
        yield Row("GPU, effective bandwidth over device copy", None, ">= 0.9", note=str(reason))
        return
    n = max(settings.sizes)
    for dtype in settings.dtypes:
        for noise in (0.0, NOISE):
            name = (
                f"GPU, effective bandwidth over device copy, noise {'on' if noise else 'off'}: {n}^3 {dtype}"
            )
            case = GrayScottCase.model_validate(
                {
                    "run": {"model": "gray_scott", "steps": 1, "precision": dtype, "device": "cuda"},
                    "grid": {"shape": [n, n, n]},
                    "model": {"noise": noise, "steps_per_sweep": 1},
                }
            )
            model = create("gray_scott")
            model.setup(case, Context(MPI.COMM_SELF, "cuda", 1))
            model.compile()
            model.initialize()
            _seconds_per_step(model)
            measured = [(measure_device_copy(), _seconds_per_step(model)) for _ in range(ROUNDS)]
            copies, seconds = np.array(measured).T
            rates = np.array(
                [model.figures(StepTimes(s, {}))["paper_effective_bandwidth"].value for s in seconds]
            )
            yield Row(
                name,
                float(rates.max() / copies.max()),
                ">= 0.9",
                float(np.median(rates / copies)),
                f"{rates.max() / 1e9:.0f} of {copies.max() / 1e9:.0f} GB/s on {device.name}",
            )
            del model
