"""Formulas as device functions of one point: the target `CUDA` of `jit.formulas.point_function`.

Functions that Numba has for GPUs under NumPy's names are taken from there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.cuda import libdevice

from ridgeline.jit.cuda_device import SIMULATED, device_function
from ridgeline.jit.formulas import FormulaTarget, names_of_target

# Those of Python raise where numbers leave their range, so that the simulator has NumPy's.
_FUNCTIONS: dict[str, Any] = (
    {name: getattr(np, name) for name in ("exp", "sqrt", "cbrt", "floor", "ceil", "power")}
    if SIMULATED
    else {
        "exp": math.exp,
        "sqrt": math.sqrt,
        "cbrt": libdevice.cbrt,
        "floor": math.floor,
        "ceil": math.ceil,
        "power": math.pow,
    }
)

CUDA = FormulaTarget(
    names_of_target(device_function, np.fmod if SIMULATED else math.fmod, **_FUNCTIONS), device_function
)
