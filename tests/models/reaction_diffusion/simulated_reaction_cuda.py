"""Reaction-diffusion in numba-cuda's simulator; test_reaction_cuda.py runs this file."""

import numpy as np
import pytest
from mpi4py import MPI

from reaction_diffusion_cases import BRUSSELATOR, EVERYTHING, make_case, owned
from ridgeline.config.expressions import FUNCTIONS
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.models import create
from ridgeline.models.reaction_diffusion.reference import ReferenceSolver
from ridgeline.runtime.context import Context
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"

SHAPE = (3, 7, 10)
SIDES = {
    "x_min": {"kind": "flux", "values": {"A": "0.1*y*z - t", "B": "t*a", "C": "0.01*x*z + 0.02*t*y"}},
    "x_max": {"kind": "fixed", "values": {"A": "0.5 + 0.1*y*t", "B": "a/2", "C": "0.1*z", "W": "t"}},
    "z_min": {"kind": "fixed", "values": {"A": "x*y*0.01*t", "B": "1 + 0.1*y", "C": "0.1*x", "W": "z"}},
    "z_max": {"kind": "no-flux"},
}


def start(case):
    model = create("reaction_diffusion")
    model.setup(case, Context(MPI.COMM_SELF, "cuda"))
    model.compile()
    model.initialize()
    return model


def compare(case, steps):
    """Return the fields on the device and those of NumPy after some steps."""
    model = start(case)
    reference = ReferenceSolver(case, owned(model))
    for _ in range(steps):
        assert model.step(100) == 1
    reference.advance(steps)
    return owned(model), reference.fields, model


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("scheme", ["euler", "rk2"])
def test_arithmetic_has_the_bits_of_numpy(precision, scheme):
    run, model = {"precision": precision, "device": "cuda"}, {"dt": 0.1, "scheme": scheme}
    noisy = [{**each, "noise": 0.3} for each in BRUSSELATOR]
    found, expected, _ = compare(make_case(noisy, SHAPE, run=run, model=model), 4)
    for a, b in zip(found, expected):
        assert a.dtype == precision
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("boundary", [{}, SIDES], ids=["periodic", "sides"])
def test_everything_that_formulas_can_say_is_what_numpy_finds(boundary):
    case = make_case(EVERYTHING, SHAPE, boundary=boundary, run={"device": "cuda"})
    found, expected, model = compare(case, 3)
    for name, a, b in zip("ABCW", found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15, err_msg=name)
    assert model.rate_of_change() > 0
    assert model.locate_nonfinite() is None


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_every_function_is_that_of_numpy_at_random_points(precision):
    """A species for each function, whose initial state is random, and whose rate is the function of it."""
    arguments = {
        "where": "S > 0, S, -2*S",
        "arctan2": "S, 0.3",
        "minimum": "S, 0.2",
        "maximum": "S, -0.2",
        "hypot": "S, 0.5",
        "heaviside": "S, 0.5",
        **dict.fromkeys(("log", "log10", "sqrt"), "abs(S)"),
    }
    rates = [f"{name}({arguments.get(name, 'S')})" for name in FUNCTIONS]
    rates += ["S**5", "S % 0.3", "-0.5 % S", "abs(S)**0.5", "S**-1", "1/3 + pi*S - e"]
    rates += ["(S > 0) + (S <= 0.5 and not S < -0.5)", "1 if -0.1 < S < 0.1 else (2 if S or 0 else 3)"]
    for first in range(0, len(rates), 15):
        part = rates[first : first + 15]
        species = [{"name": "S", "initial": "random"}]
        species += [{"name": f"f{n}", "rate": rate} for n, rate in enumerate(part)]
        run = {"device": "cuda", "precision": precision}
        found, expected, _ = compare(make_case(species, (1, 3, 9), model={"dt": 1.0}, run=run), 1)
        for rate, a, b in zip(part, found[1:], expected[1:]):
            tolerance = 1e-14 if precision == "float64" else 1e-6
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=1e-300, err_msg=rate)


def test_a_function_of_the_user_is_called_in_every_cell(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def rate(A, x, t):\n    return A * (1.0 - A) + t if x > 2.0 else -A\n")
    species = [{"name": "A", "diffusivity": 0.1, "rate": f"{path}:rate", "initial": "1 + 0.3*random"}]
    found, expected, _ = compare(make_case(species, SHAPE, run={"device": "cuda"}), 3)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-15)  # a GPU fuses its multiply-adds
