"""Schemes in time: their order, what they do to a decaying mode, and the bits of NumPy."""

import numpy as np
import pytest
from numpy.polynomial.legendre import Legendre

from reaction_diffusion_cases import (
    BRUSSELATOR,
    EVERYTHING,
    advance,
    compare_with_reference,
    make_case,
    owned,
    start,
)
from ridgeline.models.reaction_diffusion.schemes import stages_needed, stages_of

LOGISTIC = [{"name": "u", "rate": "u*(1 - u) + 0.1*sin(t)", "initial": 0.1}]


@pytest.mark.parametrize("precision", ["float32", pytest.param("float64", marks=pytest.mark.full)])
def test_the_bits_of_numpy(precision):
    for scheme in ("rk2", "rkl"):
        model = {"scheme": scheme, "dt": 0.05 if scheme == "rk2" else 3.0}
        case = make_case(
            BRUSSELATOR, model=model | {"parameters": {"a": 1.0, "b": 1.2}}, run={"precision": precision}
        )
        for a, b in zip(*compare_with_reference(case, 10)):
            assert np.isfinite(a).all()
            assert a.tobytes() == b.tobytes()


@pytest.mark.full
def test_the_bits_of_numpy_with_noise_and_places():
    case = make_case(EVERYTHING, model={"scheme": "rk2"})
    for a, b in zip(*compare_with_reference(case, 10)):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def end_of(scheme, dt, steps):
    model = start(make_case(LOGISTIC, (1, 1, 4), model={"scheme": scheme, "dt": dt}))
    advance(model, steps)
    return owned(model)[0][0, 0, 0]


@pytest.mark.full
def test_orders_in_time():
    """The error at t = 4 falls by 2 to the order when the step is halved."""
    exact = end_of("rk2", 0.0005, 8000)
    for scheme, order in (("euler", 1), ("rk2", 2), ("rkl", 1)):
        errors = [abs(end_of(scheme, dt, round(4 / dt)) - exact) for dt in (0.1, 0.05, 0.025)]
        found = np.log2(np.array(errors[:-1]) / errors[1:])
        np.testing.assert_allclose(found, order, atol=0.1, err_msg=scheme)


@pytest.mark.full
def test_rkl_multiplies_a_mode_by_a_legendre_polynomial():
    """A mode that decays at rate s becomes P_n(1 - 2 dt s/(n^2 + n)) of itself (Meyer et al., Eq. 13)."""
    n, dt = 16, 7.3
    species = [{"name": "u", "diffusivity": 1.0, "initial": f"cos(2*pi*x/{n}) + 0.5*cos(pi*x)"}]
    case = make_case(species, (1, 1, n), grid={"cell_size": 1.0}, model={"scheme": "rkl", "dt": dt})
    stages = len(case.stages())
    assert stages == stages_needed("rkl", dt, 0.5) == 5
    model = start(case)
    (before,) = owned(model)
    advance(model, 1)
    x = np.arange(n) + 0.5
    slow = np.cos(2 * np.pi * x / n)
    factor = Legendre.basis(stages)(1 - 2 * dt * 4 * np.sin(np.pi / n) ** 2 / (stages**2 + stages))
    projected = [2 * (field[0, 0] * slow).mean() for field in (before, *owned(model))]
    assert projected[1] / projected[0] == pytest.approx(factor, rel=1e-12)
    assert np.abs(owned(model)[0]).max() < 1


def test_weights_are_consistent_and_few_stages_do_for_short_steps():
    for scheme, count in (("euler", 1), ("rk2", 2), ("rkl", 7)):
        before, here = 0.0, 0.0  # of u' = 1 from 0
        for n, stage in enumerate(stages_of(scheme, count, 0.3)):
            new = stage.here * here + stage.before * before + stage.dt if n else stage.dt
            before, here = here, new
        assert here == pytest.approx(0.3, rel=1e-14)
    assert stages_needed("rkl", 0.1, np.inf) == stages_needed("rkl", 0.1, 1.0) == 3


@pytest.mark.full
def test_the_rate_of_change_is_that_of_the_present_state():
    species = [{"name": "u", "rate": "-0.5*u", "initial": 2}]
    for scheme in ("euler", "rk2", "rkl"):
        model = start(make_case(species, (1, 2, 4), model={"scheme": scheme, "dt": 1e-3}))
        model.step(1)
        assert model.rate_of_change() == pytest.approx(0.5, rel=2e-3), scheme
