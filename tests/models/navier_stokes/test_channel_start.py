"""Laminar and perturbed channels: flow of step 0, and which boxes are channels."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from ridgeline.models.navier_stokes.initial import (
    Channel,
    PeriodicFactor,
    WallFactor,
    exact_flow,
    initial_velocity,
    solenoidal,
)
from ridgeline.models.navier_stokes.settings import NavierStokesCase


def channel(kind: str = "perturbed-channel", along: str = "x", between: str = "y", **more: Any) -> Any:
    """A box 4 x 2 x 3 (x, y, z): walls across one direction, the others periodic."""
    return NavierStokesCase.model_validate(
        {
            "run": {"model": "navier_stokes", "steps": 1},
            "grid": {
                "elements": [2, 2, 2],
                "lengths": [3.0, 2.0, 4.0],
                "origin": [0.5, -1.0, 0.0],
                "periodic": [axis != between for axis in "zyx"],
            },
            "model": {"viscosity": 0.01, "dt": 0.01},
            "boundary": {f"{between}_{end}": {"kind": "wall"} for end in ("min", "max")},
            "initial": {"kind": kind, "direction": along, "speed": 2.0, "perturbation": 0.3},
            **more,
        }
    )


def places(count: int = 12) -> Any:
    x, y, z = np.meshgrid(
        *(np.linspace(a, b, count) for a, b in ((0, 4), (-1, 1), (0.5, 3.5))), indexing="ij"
    )
    return x, y, z


@pytest.mark.parametrize(("along", "between"), [("x", "y"), ("z", "y"), ("x", "z"), ("y", "x")])
def test_laminar_flow_is_poiseuilles(along: str, between: str) -> None:
    case = channel("channel", along, between)
    flow = exact_flow(case)
    assert flow is not None
    points = places(9)
    low, size = {"x": (0.0, 4.0), "y": (-1.0, 2.0), "z": (0.5, 3.0)}[between]
    eta = 2 * (points["xyz".index(between)] - low) / size - 1
    *velocity, pressure = flow(*points, 0.0)
    for axis, u in zip("xyz", velocity):
        np.testing.assert_allclose(u, 3.0 * (1 - eta**2) if axis == along else 0.0, atol=1e-14)
    assert np.abs(pressure).max() == 0  # a force drives what is periodic along


def test_pressure_falls_where_no_force_drives() -> None:
    laminar = Channel((0, 1, 2), (0.0, -1.0, 0.5), (4.0, 2.0, 3.0)).laminar(0.01, 2.0, forced=False)
    x, y, z = places(5)
    np.testing.assert_allclose(laminar(x, y, z, 0.0)[3], 3 * 0.01 * 2.0 * (4 - x), atol=1e-15)


def divergence(velocity: Any, x: Any, y: Any, z: Any) -> Any:
    """By central differences, of fourth order."""
    h, found = 1e-3, 0.0
    for axis in range(3):
        shift = [np.zeros_like(x) for _ in range(3)]
        shift[axis] += h

        def at(n: int, shift: Any = shift, axis: int = axis) -> Any:
            return velocity(x + n * shift[0], y + n * shift[1], z + n * shift[2])[axis]

        found = found + (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
    return found


@pytest.mark.parametrize(("along", "between"), [("x", "y"), ("x", "z"), ("z", "x")])
def test_perturbation_is_solenoidal_periodic_and_at_rest_at_walls(along: str, between: str) -> None:
    case = channel(along=along, between=between)
    velocity = Channel.of(case).perturbation(seed=3)
    x, y, z = places(7)
    u = velocity(x, y, z)
    assert 0.3 < np.sqrt((u**2).sum(axis=0)).max() <= 1.1
    inner = [a[1:-1, 1:-1, 1:-1] for a in (x, y, z)]
    assert np.abs(divergence(velocity, *inner)).max() < 1e-7
    for axis, name in enumerate("xyz"):
        first, last = (np.take(u, end, axis=1 + axis) for end in (0, -1))
        if name == between:
            assert max(np.abs(first).max(), np.abs(last).max()) < 1e-12
        else:
            np.testing.assert_allclose(first, last, atol=1e-12)
    assert np.abs(u).max(axis=(1, 2, 3)).min() > 0.05  # all components


def test_start_is_the_laminar_flow_and_the_perturbation() -> None:
    case = channel()
    x, y, z = places(5)
    u = initial_velocity(case, x, y, z)
    added = u - np.stack([3.0 * (1 - y**2), 0 * y, 0 * y])
    np.testing.assert_allclose(added, 0.3 * 2.0 * Channel.of(case).perturbation(case.run.seed)(x, y, z))
    np.testing.assert_array_equal(u, initial_velocity(channel(), x, y, z))


def test_seeds_make_different_perturbations() -> None:
    factors = (PeriodicFactor(0.0, 1.0), WallFactor(-1.0, 2.0), PeriodicFactor(0.0, 2.0))
    x, y, z = (np.full(3, v) for v in (0.2, 0.1, 0.7))
    one, two = (solenoidal((0, 1, 2), factors, seed)(x, y, z) for seed in (0, 1))
    assert np.abs(one - two).max() > 1e-3


@pytest.mark.parametrize("kind", ["channel", "perturbed-channel"])
def test_what_is_no_channel_is_refused(kind: str) -> None:
    with pytest.raises(ValidationError, match=r"initial\.direction must be the direction along the channel"):
        channel(kind, along="y", between="y")
    with pytest.raises(ValidationError, match=r"initial\.kind must be another kind than"):
        channel(
            kind,
            grid={"elements": [2, 2, 2], "periodic": [True, False, True], "mapping": "wavy"},
        )
