"""Passes of Krylov solvers on GPUs: they compile without spills, and the simulator runs them."""

from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated, uses_atomics
from ridgeline.krylov.device import basis_kernels_cuda as basis_kernels
from ridgeline.krylov.device import kernels_cuda as kernels

pytestmark = pytest.mark.gpu

FIELD, WHOLE = types.float64[::1], types.int64
SMALL, FLAG, REAL = types.float32[::1], types.boolean, types.float64
REALS, FLAGS = types.UniTuple(types.float64, 3), types.UniTuple(types.boolean, 3)
PASSES = {
    "set_zero": (FIELD,),
    "subtract": (FIELD,) * 3,
    "copy": (SMALL, FIELD),
    "set_scaled": (REAL, FIELD, FIELD),
    "add_product": (REAL, *[FIELD] * 3),
    "add_scaled": (REALS, WHOLE, FIELD, FIELD),
    "cg_direction": (REALS, FLAGS, WHOLE, *[FIELD] * 3),
    "weighted_dots": (WHOLE, WHOLE, *[FIELD] * 4),
    "cg_sums": (WHOLE, WHOLE, *[FIELD] * 5),
    "cg_update": (REALS, FLAGS, WHOLE, *[FIELD] * 8),
    "flexible_sums": (WHOLE, SMALL, *[FIELD] * 4),
    "flexible_direction": (SMALL, REAL, FIELD),
    "flexible_update": (REAL, WHOLE, *[FIELD] * 7),
    "fold_sums": (FIELD, WHOLE, FIELD),
}
BASIS_PASSES = {
    "pair_dots": (*[WHOLE] * 3, *[FIELD] * 5),
    "basis_products": (*[WHOLE] * 3, *[FIELD] * 3),
    "basis_add": (WHOLE, WHOLE, SMALL, FIELD, FIELD),
    "basis_subtract": (WHOLE, WHOLE, FIELD, FIELD, REAL, FIELD),
    "basis_subtract_pair": (WHOLE, WHOLE, FIELD, FIELD, REAL, REAL, REAL, FIELD, FIELD),
    "projection_combine": (WHOLE, FLAG, FLAG, WHOLE, FIELD, FIELD, REAL, FIELD),
    "basis_transform": (WHOLE, WHOLE, FIELD, FIELD),
}


KERNELS = [(getattr(kernels, name), signature) for name, signature in PASSES.items()]
KERNELS += [(getattr(basis_kernels, name), signature) for name, signature in BASIS_PASSES.items()]


@pytest.mark.parametrize(("kernel", "signature"), KERNELS, ids=[*PASSES, *BASIS_PASSES])
def test_passes_spill_nothing_and_use_no_atomics(kernel, signature) -> None:
    assert not uses_atomics(compile_without_spills(kernel, signature))


def test_in_the_simulator() -> None:
    here = Path(__file__)
    run_simulated(here.with_name("simulated_cg_cuda.py"), here.with_name("simulated_krylov_cuda.py"))
