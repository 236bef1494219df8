"""Wind on a GPU without one: the kernels compile without spills, and the simulator runs them."""

from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated
from ridgeline.models.wind.device import advection_cuda as advection
from ridgeline.models.wind.device import tendencies_cuda as tendencies

pytestmark = pytest.mark.gpu

INT, DOUBLE = types.int64, types.float64
FIELD, THREE, TWO = DOUBLE[::1], types.UniTuple(INT, 3), types.UniTuple(INT, 2)
WIDTHS, FORCES = types.UniTuple(DOUBLE, 3), types.UniTuple(DOUBLE, 6)
OTHERS = (FIELD, FIELD, INT, DOUBLE) * 2
AXIS = (INT, INT, INT, DOUBLE)
KERNELS = {
    "hats of the velocity": (
        advection.set_velocity_hats,
        (FIELD, FIELD, FIELD, THREE, THREE, THREE, *AXIS, DOUBLE, INT, TWO, TWO, TWO, FIELD, FIELD, FIELD),
    ),
    "normal faces": (
        advection.set_normal_faces,
        (FIELD, FIELD, THREE, THREE, THREE, *AXIS, DOUBLE, DOUBLE, INT, TWO, *OTHERS, FIELD),
    ),
    "hats": (advection.set_hats, (FIELD, FIELD, THREE, THREE, THREE, *AXIS, DOUBLE, INT, TWO, FIELD)),
    "fluxes": (
        advection.add_fluxes,
        (FIELD, FIELD, FIELD, THREE, THREE, *AXIS, *[DOUBLE] * 3, INT, TWO, *OTHERS, DOUBLE, DOUBLE, FIELD),
    ),
    "momentum": (
        tendencies.set_momentum,
        (*[FIELD] * 5, THREE, THREE, THREE, WIDTHS, WIDTHS, FORCES, FIELD, FIELD, FIELD, FIELD),
    ),
    "diffusion": (tendencies.set_diffusion, (FIELD, THREE, THREE, WIDTHS, FIELD)),
    "eddy diffusion": (tendencies.add_eddy_diffusion, (FIELD, FIELD, THREE, THREE, WIDTHS, FIELD)),
    "transposed stress": (
        tendencies.add_transposed_stress,
        (*[FIELD] * 4, THREE, THREE, INT, DOUBLE, WIDTHS, FIELD),
    ),
    "Smagorinsky": (
        tendencies.set_smagorinsky,
        (*[FIELD] * 4, THREE, THREE, FIELD, FIELD, INT, FIELD, FIELD),
    ),
    "one equation": (
        tendencies.set_one_equation,
        (*[FIELD] * 5, THREE, THREE, FIELD, INT, FIELD, FIELD, FIELD),
    ),
    "difference": (tendencies.add_difference, (FIELD, DOUBLE, FIELD, FIELD, THREE, THREE)),
    "combination": (tendencies.combine, (FIELD, DOUBLE, FIELD, DOUBLE, FIELD, FIELD, THREE, THREE)),
    "layer": (tendencies.add_to_layer, (FIELD, INT, TWO, TWO, DOUBLE)),
    "field": (tendencies.add_field, (FIELD, THREE, THREE, FIELD)),
    "damping": (tendencies.add_damping, (FIELD, THREE, THREE, FIELD, FIELD, FIELD)),
    "plane": (tendencies.add_plane, (FIELD, INT, INT, TWO, FIELD)),
    "speeds": (tendencies.find_speeds, (FIELD, FIELD, FIELD, THREE, THREE, WIDTHS, FIELD, FIELD)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_spill_nothing(name) -> None:
    compile_without_spills(*KERNELS[name])


def test_in_the_simulator() -> None:
    run_simulated(Path(__file__).with_name("simulated_wind.py"))
