"""The noise of the thermostat: Philox by identity and step, against its definition in NumPy."""

import numpy as np

from ridgeline.jit.random import philox4x32, round_keys
from ridgeline.models.molecular_dynamics.kernels import thermalise

SEED = 2**40 + 9


def normals(identity: np.ndarray, step: int) -> np.ndarray:
    """Three numbers of each identity, [3, n], from the four words of a block."""
    low, high = (part.astype(np.uint64) for part in (identity & 0xFFFFFFFF, identity >> 32))
    time, nothing = np.full(len(identity), step, np.uint64), np.zeros(len(identity), np.uint64)
    words = philox4x32(low, high, time, nothing, round_keys(SEED))
    a, b, c, d = ((np.asarray(word).astype(np.uint32) + 0.5) / 2.0**32 for word in words)
    first, second = np.sqrt(-2 * np.log(a)), np.sqrt(-2 * np.log(c))
    return np.stack(
        [first * np.cos(2 * np.pi * b), first * np.sin(2 * np.pi * b), second * np.cos(2 * np.pi * d)]
    )


def drawn(identity: np.ndarray, step: int) -> np.ndarray:
    velocity = np.zeros((3, len(identity)))
    thermalise(identity, len(identity), step, round_keys(SEED), 1.0, 1.0, velocity)
    return velocity


def test_the_noise_is_that_of_its_definition() -> None:
    identity = np.array([0, 1, 77, 2**32 + 1, 2**40], np.int64)
    np.testing.assert_allclose(drawn(identity, 12), normals(identity, 12), rtol=1e-13)


def test_friction_and_noise_have_their_factors() -> None:
    identity = np.arange(5)
    velocity = np.ones((3, 7))
    thermalise(identity, 5, 3, round_keys(SEED), 0.5, 2.0, velocity)
    np.testing.assert_allclose(velocity[:, :5], 0.5 + 2 * normals(identity, 3), rtol=1e-13)
    assert (velocity[:, 5:] == 1).all()


def test_noise_is_normal_and_of_no_other_step() -> None:
    identity = np.arange(20_000)
    here, next_step = drawn(identity, 5), drawn(identity, 6)
    error = 5 / np.sqrt(len(identity))
    assert np.abs(here.mean(1)).max() < error
    assert np.abs(np.cov(here) - np.eye(3)).max() < 2 * error
    assert abs(np.corrcoef(here[0], next_step[0])[0, 1]) < error
    assert abs((here**4).mean() - 3) < 0.2
