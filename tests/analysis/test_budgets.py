"""Budgets of stresses: each term of polynomials against its formula, and the sum of all in a run against its rate."""

from itertools import pairwise

import numpy as np
import pytest
import xarray as xr

import ridgeline
from ridgeline.analysis.budgets import REQUIRED, TERMS, stress_budget
from ridgeline.analysis.windows import add_windows
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.runtime.errors import ConfigError
from ridgeline.simulation import report

ORDER, VISCOSITY = 5, 0.3
Z_EDGES, Y_EDGES = np.array([0.0, 0.4, 1.0]), np.array([-1.0, -0.7, 0.2, 1.0])


def lattice(edges):
    """The points of elements along an axis, each once."""
    xi = gauss_lobatto(ORDER + 1)[0]
    inside = [a + (b - a) * (1 + xi[:-1]) / 2 for a, b in pairwise(edges)]
    return np.append(np.concatenate(inside), edges[-1])


def averages(mapped=False, dims=("z", "y")):
    """Every average is a quadratic polynomial a + b y + c z + d y z + e y^2 of the place; returns them too."""
    z, y = np.meshgrid(lattice(Z_EDGES), lattice(Y_EDGES), indexing="ij")
    if mapped:  # so that products of both coordinates remain polynomials of the order
        z, y = z + 0.2 * y, y + 0.3 * z * z
    if dims == ("y",):
        y, z = lattice(Y_EDGES), 0.0
    random = np.random.default_rng(3)
    factors = {name: random.normal(size=5) for name in REQUIRED}
    if dims == ("y",):
        for each in factors.values():
            each[2:4] = 0.0
    values = {name: a + b * y + c * z + d * y * z + e * y * y for name, (a, b, c, d, e) in factors.items()}
    names = ("k", "j") if mapped else dims
    data = {name: (names, value) for name, value in values.items()}
    if mapped:
        data |= {"z": (names, z), "y": (names, y)}
        coords = {}
    else:
        coords = {"y": lattice(Y_EDGES)} | ({"z": lattice(Z_EDGES)} if "z" in dims else {})
    attributes = {"grid.order": ORDER, "model.viscosity": VISCOSITY}
    return xr.Dataset(data, coords, attributes), values, factors, y, z


@pytest.mark.parametrize("kind", ["plane", "mapped", "profile"])
def test_terms_of_polynomials(kind):
    data, values, factors, y, z = averages(kind == "mapped", ("y",) if kind == "profile" else ("z", "y"))

    def slope(name, axis):
        _, b, c, d, e = factors[name]
        return {"x": 0 * y, "y": b + d * z + 2 * e * y, "z": c + d * y}[axis]

    def laplacian(name):
        return 2 * factors[name][4]

    u, v, w = (f"velocity_{axis}" for axis in "xyz")
    found = stress_budget(data, "uv")
    expected = {
        "production": -values["uv"] * slope(v, "y") - values["uw"] * slope(v, "z")
        - values["vv"] * slope(u, "y") - values["vw"] * slope(u, "z"),
        "turbulent_transport": -slope("uvv", "y") - slope("uvw", "z"),
        "viscous_diffusion": VISCOSITY * laplacian("uv"),
        "pressure_strain": 2 * values["pressure_strain_xy"],
        "pressure_diffusion": -slope("up", "y"),
        "dissipation": -values["dissipation_xy"],
        "convection": -values[v] * slope("uv", "y") - values[w] * slope("uv", "z"),
    }  # fmt: skip
    for name in TERMS:
        np.testing.assert_allclose(found[name], expected[name] + 0 * y, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(found.residual, sum(expected.values()), atol=1e-9)
    energy, of = stress_budget(data), [stress_budget(data, stress) for stress in ("uu", "vv", "ww")]
    for name in (*TERMS, "residual"):
        np.testing.assert_allclose(energy[name], sum(each[name] for each in of) / 2, atol=1e-10)
    np.testing.assert_allclose(of[1].pressure_diffusion, -2 * slope("vp", "y") + 0 * y, atol=1e-9)


def test_what_has_no_budget():
    data = averages()[0]
    for changed, stress, words in (
        (data, "uvw", "there is no budget of 'uvw'. Did you mean"),
        (data.drop_vars("uuu"), "k", r"have no uuu, which budgets need\. Set output\.statistics_of"),
        (data.isel(y=slice(3)), "k", "11 x 3 points, which are not those of elements of the order 5"),
        (data.assign_attrs({"grid.order": 0}), "k", "of the order 0"),
        (data.expand_dims(x=2), "k", "the axes x, z, y, for which there are no budgets"),
    ):
        with pytest.raises(ConfigError, match=words):
            stress_budget(changed, stress)


@pytest.mark.full
def test_the_terms_add_up_to_the_rate_of_change_in_a_run(tmp_path, monkeypatch):
    """Decaying vortices in a channel, in two windows: of each stress, what the flow gains between both ends."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})
    order, dt, first, last = 7, 0.005, 4, 24
    wave = "sin(3.141592653589793*x)*(1 + 0.5*cos(3.141592653589793*z))"
    along = "cos(3.141592653589793*x)*(1 + 0.5*cos(3.141592653589793*z))"
    case = ridgeline.Case(
        "navier_stokes",
        last,
        grid={
            "elements": (2, 6, 2), "order": order, "lengths": (2.0, 2.0, 2.0), "origin": (0.0, -1.0, 0.0),
            "periodic": (True, False, True),
        },
        parameters={"viscosity": 0.05, "dt": dt},
        boundary={"y_min": {"kind": "wall"}, "y_max": {"kind": "wall"}},
        initial={
            "kind": "expression",
            "velocity": [
                f"1 - y*y - 1.2*y*(1 - y*y)*{wave}",
                f"-0.942477796*(1 - y*y)**2*{along}",
                "0.2*(1 - y*y)*sin(3.141592653589793*x)",
            ],
        },
        output={
            "every": first, "path": "f.bp", "variables": ["velocity_x", "velocity_y", "velocity_z"],
            "statistics_every": 1, "statistics_of": "budgets", "homogeneous": ["x", "z"],
            "statistics_start": first * dt, "statistics_window": 12, "series_every": 0,
        },
    )  # fmt: skip
    ridgeline.Simulation(case, progress=False).run()
    with ridgeline.open("statistics.bp") as data:
        assert data.sizes["step"] == 2
        total = add_windows(data)
    y = total.y.values
    with ridgeline.open("f.bp") as fields:
        fields = fields.load()
    place = np.abs(fields.y.values[..., None] - y).argmin(-1)
    weight = gauss_lobatto(order + 1)[1]
    weights = np.broadcast_to(weight[:, None, None] * weight, place.shape)

    def stress(step, i, j):
        off = [
            fields[name].sel(step=step).values - total[name].values[place]
            for name in (f"velocity_{'xyz'[axis]}" for axis in (i, j))
        ]
        product = np.bincount(place.ravel(), (weights * off[0] * off[1]).ravel())
        return product / np.bincount(place.ravel(), weights.ravel())

    for name, i, j in (("uu", 0, 0), ("vv", 1, 1), ("ww", 2, 2), ("uv", 0, 1)):
        rate = (stress(last, i, j) - stress(first, i, j)) / ((last - first) * dt)
        budget = stress_budget(total, name)
        largest = max(float(abs(budget[term]).max()) for term in TERMS)
        assert largest > 0.015
        np.testing.assert_allclose(budget.residual, rate, atol=0.05 * largest, err_msg=name)
