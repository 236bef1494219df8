"""Multigrid on a device without one: the kernels compile without spills, and the simulator runs them."""

from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated
from ridgeline.blocks import ghosts_cuda, rows_cuda
from ridgeline.blocks import projection_kernels_cuda as projection
from ridgeline.blocks.multigrid.device import cell_kernels_cuda as cells
from ridgeline.blocks.multigrid.device import nodal_kernels_cuda as nodes

pytestmark = pytest.mark.gpu

INT, DOUBLE = types.int64, types.float64
THREE, TWO = types.UniTuple(INT, 3), types.UniTuple(INT, 2)
INTS, DOUBLES = INT[::1], DOUBLE[::1]
REALS = pytest.mark.parametrize("real", [types.float64, types.float32], ids=str)


def equation(real):
    return INT, real, types.UniTuple(real[::1], 4), real[::1], INT


@REALS
def test_kernels_of_rows_spill_nothing(real) -> None:
    field = real[::1]
    for kernel, arguments in (
        (rows_cuda.fill_flat, (field, real)),
        (rows_cuda.scale_flat, (field, real, field)),
        (rows_cuda.copy_rows, (field, THREE, field, THREE, THREE)),
        (rows_cuda.add_to_rows, (field, THREE, THREE, real)),
        (rows_cuda.mirror_layers, (field, INT, INT, TWO, TWO, INT, real, real)),
        (rows_cuda.fill_layer, (field, INT, TWO, TWO, real)),
        (rows_cuda.largest_in_rows, (field, THREE, THREE, DOUBLES)),
        (rows_cuda.largest_of_all, (DOUBLES, DOUBLES)),
        (rows_cuda.sum_rows, (field, THREE, THREE, DOUBLES, DOUBLES)),
        (ghosts_cuda.wrap_ghosts, (field, THREE, THREE, INT, THREE)),
    ):
        compile_without_spills(kernel, arguments)


@REALS
def test_kernels_of_cells_spill_nothing_and_keep_their_precision(real) -> None:
    field = real[::1]
    head = (field, field, THREE, THREE, INT)
    transfer = (INTS, field, INT, field, THREE, THREE)
    correction = (field, THREE, INT, THREE, THREE, real, field, THREE, INT, INTS, INTS, field, INT)
    for kernel, arguments in (
        (cells.relax_cells, (*head, THREE, THREE, real, INT, *equation(real), field)),
        (cells.restrict_residual, (*head, *equation(real), *transfer)),
        (cells.add_correction, correction),
        (cells.find_residual, (*head, THREE, *equation(real), INT, field, DOUBLES)),
    ):
        ptx = compile_without_spills(kernel, arguments)
        is_double = real == types.float64 or kernel is cells.find_residual
        assert (".f64" in ptx) == is_double, "a kernel computes in another precision"


@REALS
def test_kernels_of_nodes_spill_nothing_and_keep_their_precision(real) -> None:
    field = real[::1]
    tables = (types.UniTuple(field, 3), THREE)
    coarse = (field, THREE)
    for kernel, arguments in (
        (nodes.relax_nodes, (field, field, THREE, THREE, THREE, real, *tables, INT, INT, field, DOUBLES)),
        (nodes.set_residual, (field, field, THREE, THREE, THREE, real, *tables, field)),
        (nodes.restrict_nodes, (field, THREE, INTS, field, INT, real, *coarse, THREE)),
        (nodes.interpolate_nodes, (field, THREE, THREE, THREE, *coarse, INTS, field, INT, field)),
    ):
        ptx = compile_without_spills(kernel, arguments)
        is_double = real == types.float64 or kernel is nodes.relax_nodes
        assert (".f64" in ptx) == is_double, "a kernel computes in another precision"


@REALS
def test_kernels_of_projections_spill_nothing_and_keep_their_precision(real) -> None:
    field, three = real[::1], types.UniTuple(real[::1], 3)
    tables = (three, THREE, THREE)
    for kernel, arguments in (
        (projection.set_divergence_at_nodes, (three, THREE, *tables, field, THREE)),
        (projection.add_gradient_at_cells, (field, THREE, *tables, real, three, THREE)),
        (projection.set_divergence_at_cells, (three, THREE, *tables, real, field, THREE)),
        (projection.subtract_gradient_at_faces, (field, THREE, *tables, three, THREE)),
    ):
        ptx = compile_without_spills(kernel, arguments)
        assert (".f64" in ptx) == (real == types.float64), "a kernel computes in another precision"


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_multigrid_cuda.py"))
