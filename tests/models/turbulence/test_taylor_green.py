"""The three-dimensional Taylor-Green vortex through transition, against published and independent solutions.

tgv_re100.csv: an independent symmetric Galerkin code (2/3 rule, RK4), energy to 1e-8; its header has the checks.
tgv_re1600.csv: van Rees et al., J. Comput. Phys. 230 (2011) 2794, 512^3, and Dairay et al., J. Comput. Phys. 337
(2017) 252; they agree to 1.4e-5. Rates of dissipation are 2 nu Z.
"""

import numpy as np
import pytest

from ridgeline.models.turbulence import initial
from ridgeline.models.turbulence.problem import FlowParameters
from turbulence_tools import energy, enstrophy, make_engine, table

KINDS = {"tgv_re100.csv": (100, "eps"), "tgv_re1600.csv": (1600, "eps_enstrophy")}


def compare(name, n, dt, until, every, dealias, scheme="rk4"):
    """Times, absolute error of energy, relative error of dissipation, and dissipation, at times of the table."""
    reference = table(name)
    t, reynolds, of_table = reference["t"], *KINDS[name]
    chosen = (t <= until + 1e-9) & np.isclose(t / every, np.round(t / every), atol=1e-6)
    times, steps = t[chosen], np.round(t[chosen] / dt).astype(int)
    solver = make_engine((n, n, n), FlowParameters(1 / reynolds, scheme), initial.taylor_green, dealias)
    found = np.empty((2, len(times)))
    for i, last in enumerate(steps):
        while solver.step_index < last:
            solver.advance(dt)
        fields, modes = solver.fields, solver.modes
        found[:, i] = energy(fields, modes), 2 / reynolds * enstrophy(fields, modes)
    np.testing.assert_allclose(steps * dt, times, atol=1e-9)
    exact = reference[of_table][chosen]
    return times, np.abs(found[0] - reference["E_k"][chosen]), np.abs(found[1] / exact - 1), found[1]


@pytest.mark.parametrize(
    ("n", "dealias", "of_energy", "of_dissipation"),
    [
        pytest.param(48, "phase-shift", 5e-6, 7e-4, marks=pytest.mark.full),
        pytest.param(64, "two-thirds", 6.3e-7, 4e-5, marks=pytest.mark.full),
        # What a code with |k_i| <= 16 reaches; the strict rule |k_i| < N/3 keeps 15 at 48^3 and 16 at 50^3.
        pytest.param(50, "two-thirds", 5e-6, 7e-4, marks=pytest.mark.slow),
        pytest.param(48, "two-thirds", 7e-6, 7e-4, marks=pytest.mark.slow),
        pytest.param(64, "phase-shift", 2e-8, 4e-6, marks=pytest.mark.slow),
    ],
)
def test_reynolds_100_to_time_10(n, dealias, of_energy, of_dissipation):
    """The errors that a correct code has on these grids; time steps of 0.02 add nothing to them."""
    t, energy_error, dissipation_error, _ = compare("tgv_re100.csv", n, 0.02, 10.0, 0.5, dealias)
    assert energy_error.max() <= of_energy
    assert dissipation_error.max() <= of_dissipation
    if n == 64:
        assert energy_error[t <= 5].max() <= 1e-8
        assert dissipation_error[t <= 5].max() <= 2e-6 * (1 + 1e-3)


@pytest.mark.full
def test_reynolds_1600_on_64_points_while_they_resolve_it():
    """To t = 3 within 0.1 %; from then on 64^3 lacks the small scales: 2 % at t = 4, 6 % at t = 5."""
    t, energy_error, dissipation_error, dissipation = compare(
        "tgv_re1600.csv", 64, 0.04, 10.0, 0.2, "phase-shift", "rk2"
    )
    assert dissipation_error[t <= 3].max() <= 1e-3
    assert dissipation_error[t <= 4].max() <= 0.025
    assert dissipation_error[t <= 5].max() <= 0.06
    assert energy_error[t <= 5].max() <= 2e-4
    peak = dissipation.argmax()
    assert t[peak] == pytest.approx(8.97, abs=0.5)
    assert dissipation[peak] == pytest.approx(0.01286, rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(("dealias", "of_peak"), [("phase-shift", 0.01), ("two-thirds", 0.08)])
def test_reynolds_1600_on_128_points(dealias, of_peak):
    """Dissipation within 1 % to t = 5, and the peak near t = 9 within what 128^3 resolves."""
    t, energy_error, dissipation_error, dissipation = compare(
        "tgv_re1600.csv", 128, 0.01, 10.0, 0.2, dealias, "rk2"
    )
    assert dissipation_error[t <= 5].max() <= 0.01
    assert energy_error[t <= 5].max() <= 2e-5
    peak = dissipation.argmax()
    assert t[peak] == pytest.approx(8.97, abs=0.2)
    assert dissipation[peak] == pytest.approx(0.01286, rel=of_peak)
