"""The kernels that distributed transforms call."""

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.fourier import packing, row_pairs
from ridgeline.jit.kernel import Specialisation, specialise


def kernels_of_transforms(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels of a `FourierTransform` on any process grid. dtype: of physical fields, float32 or float64.

    They are called while it is made, to choose the layout of planes: compile them before.
    """
    of_modes = [
        packing.gather_lines,
        packing.scatter_lines,
        packing.unpack_planes,
        packing.pack_planes,
        packing.planes_to_rows,
        packing.rows_to_planes,
        packing.lines_from_modes,
        packing.modes_from_lines,
    ]
    of_rows = [
        row_pairs.load_pairs,
        row_pairs.store_pairs,
        row_pairs.block_from_pairs,
        row_pairs.pairs_from_block,
    ]
    return specialise(of_modes, np.result_type(dtype, np.complex64)) + specialise(of_rows, dtype)
