"""A run with rotation, stratification and averages over time: what it says, writes, and goes on with."""

import numpy as np
import pytest

import ridgeline
from ridgeline.simulation import report


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Run in an empty folder, and measure no machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})


def case(steps=6, **more):
    sections = {
        "grid": {"shape": (12, 14, 16)},
        "parameters": {
            "viscosity": 0.02, "courant": 0.4, "rotation": (0, 0, 2.0), "brunt_vaisala": 3.0,
            "fft": {"effort": "estimate"},
        },
        "initial": {"kind": "spectrum", "energy": 0.5, "peak_wavenumber": 2.0},
        "scalar": [{"schmidt": 1.0, "variance": 0.2}],
        "output": {"series_every": 1, "spectra_every": 2, "average_from": 2, "variables": ("velocity_x", "pressure")},
    }  # fmt: skip
    return ridgeline.Case("turbulence", steps, **{**sections, **more})


def simulate(case, **options):
    with ridgeline.Simulation(case, progress=False, **options) as simulation:
        simulation.advance(simulation.steps)
        state = {name: part.copy() for name, part in simulation.state().items()}
        simulation.run()
    return state


def test_averages_and_waves_go_on_from_a_checkpoint_to_the_bit():
    checkpoints = {"every": 3, "keep": 9}
    whole = simulate(case(checkpoint={**checkpoints, "path": "whole"}, output=output("whole")))
    simulate(case(3, checkpoint={**checkpoints, "path": "parts"}, output=output("parts")))
    parts = simulate(case(checkpoint={**checkpoints, "path": "parts"}, output=output("parts")), resume="auto")
    assert whole.keys() == parts.keys()
    assert {"average_curves", "average_times"} <= whole.keys()
    for name in whole:
        np.testing.assert_array_equal(parts[name], whole[name])
    found, wanted = (ridgeline.open(f"{name}_spectra.bp") for name in ("parts", "whole"))
    assert found.step.values.tolist() == [0, 2, 4, 6]
    for name in wanted:
        np.testing.assert_array_equal(found[name].values, wanted[name].values)
    mean, each = wanted["mean_energy_spectrum"].values, wanted["energy_spectrum"].values
    times = wanted.time.values
    assert np.isnan(mean[0]).all()
    np.testing.assert_array_equal(mean[1], each[1])
    np.testing.assert_allclose(
        mean[3], np.trapezoid(each[1:], times[1:], axis=0) / (times[3] - times[1]), rtol=1e-13
    )
    assert wanted["averaged_time"].values[:, 0] == pytest.approx(
        [0, 0, times[2] - times[1], times[3] - times[1]]
    )


def output(name):
    return {
        "path": f"{name}.bp", "series": f"{name}.csv", "spectra": f"{name}_spectra.bp", "series_every": 1,
        "spectra_every": 2, "average_from": 2,
    }  # fmt: skip


def test_a_checkpoint_of_no_averages_is_refused_in_words():
    plain = output("a") | {"average_from": None}
    simulate(case(2, checkpoint={"every": 2, "path": "a"}, output=plain))
    with pytest.raises(ridgeline.RidgelineError, match="average_curves"):
        simulate(case(4, checkpoint={"every": 2, "path": "a"}, output=output("a")), resume="auto")


def test_the_budgets_of_energy_and_buoyancy_close():
    """d(E)/dt = -eps + N <w theta>, d(<theta^2>)/dt = -2 N <w theta> - dissipation: a step of 1e-3."""
    parameters = case().settings.model.model_dump() | {"courant": None, "dt": 1e-3, "scheme": "rk4"}
    kept = {name: parameters[name] for name in ("viscosity", "dt", "scheme", "rotation", "brunt_vaisala")}
    flow = case(3, parameters=kept)
    rows = []
    with ridgeline.Simulation(flow, progress=False) as simulation:
        rows.append(simulation.diagnostics())
        for _ in range(2):
            simulation.advance()
            rows.append(simulation.diagnostics())
    energy = (rows[2]["energy"] - rows[0]["energy"]) / 2e-3
    variance = (rows[2]["scalar_0_variance"] - rows[0]["scalar_0_variance"]) / 2e-3
    now = rows[1]
    production = now["scalar_0_production"]
    assert abs(production) > 1e-3
    assert variance == pytest.approx(production - now["scalar_0_dissipation"], rel=1e-4)
    assert energy == pytest.approx(-production / 2 - now["dissipation"], rel=1e-4)


def test_check_and_run_know_the_work_of_waves():
    plain = case(parameters={"viscosity": 0.02, "courant": 0.4})
    assert case().estimate(1).work.flops > plain.estimate(1).work.flops
