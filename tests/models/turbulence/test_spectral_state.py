"""What a turbulence checkpoint keeps and what it recovers: continuity, conjugate modes, sizes, rounding."""

import numpy as np
import pytest

from ridgeline.fourier.decomposition import Truncation
from ridgeline.jit.contiguous_runs import gather_runs, scatter_runs
from ridgeline.models.turbulence.restart import field_sizes, recover
from ridgeline.models.turbulence.solenoidal import project, sum_of_squares
from spectral_toys import backward, mode_keys, random_fields, whole_modes

SHAPE = (12, 10, 14)
LENGTHS = (2.0, 7.0, 5.0)


@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds", "none"])
def test_two_components_and_a_plane_are_enough(dealias):
    modes = whole_modes(SHAPE, LENGTHS, dealias)
    fields = random_fields(0, "complex128", SHAPE, LENGTHS, dealias)
    kept = fields.copy()
    _, ky, _ = modes.expand()
    kept[1, ky != 0] = np.nan
    recover(modes, kept)
    np.testing.assert_allclose(kept, fields, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(kept[:, ky == 0], fields[:, ky == 0])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_recovering_again_changes_nothing(dtype):
    modes = whole_modes(SHAPE, LENGTHS)
    fields = random_fields(0, dtype, SHAPE, LENGTHS)
    recover(modes, fields)
    again = fields.copy()
    recover(modes, again)
    assert again.tobytes() == fields.tobytes()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_conjugate_modes_stay_exact_conjugates(dtype):
    """k_x = 0 is stored for both signs of k_z: a field that is real must stay real to the last bit."""
    modes = whole_modes(SHAPE, LENGTHS)
    keys = {tuple(key): i for i, key in enumerate(mode_keys(modes).tolist())}
    fields = random_fields(0, dtype, SHAPE, LENGTHS)
    mirror = [(i, keys[-z, -y, 0]) for (z, y, x), i in keys.items() if x == 0 and (z, y) > (0, 0)]
    one, other = np.array(mirror).T
    fields[:, other] = fields[:, one].conj()
    recover(modes, fields)
    np.testing.assert_array_equal(fields[:, other], fields[:, one].conj())


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_rounding_comes_back_enlarged_by_the_ratio_of_wavenumbers_at_most(dtype):
    modes = whole_modes((48, 48, 48), (2 * np.pi,) * 3)
    exact = random_fields(0, "complex128", (48, 48, 48), (2 * np.pi,) * 3)
    fields = exact.astype(dtype)
    recover(modes, fields)
    kz, ky, kx = modes.expand()
    there = ky != 0
    error = np.abs(fields[1] - exact[1])[there]
    ratio = ((np.abs(kx) + np.abs(kz)) / np.where(there, np.abs(ky), 1))[there]
    largest = np.abs(exact).max()
    assert (error <= np.finfo(dtype).eps * largest * (1 + ratio)).all()
    energy = np.abs(fields - exact) ** 2 @ modes.weight()
    assert np.sqrt(energy.sum() / (np.abs(exact) ** 2 @ modes.weight()).sum()) < 5 * np.finfo(dtype).eps


def test_sizes_are_two_thirds_of_the_modes_and_a_plane():
    truncation = Truncation((64, 64, 64), "phase-shift")
    sizes = field_sizes(truncation, 1)
    assert list(sizes) == ["velocity_x", "velocity_y_ky0", "velocity_z", "scalar_0"]
    assert sizes["velocity_x"] == sizes["scalar_0"] == truncation.n_modes
    assert sizes["velocity_y_ky0"] == truncation.n_lines
    # The paper's 8 N^3 bytes in single precision, less the modes that truncation leaves out.
    ball = np.pi / 6 * (2 * np.sqrt(2) / 3) ** 3
    velocity = 8 * sum(n for name, n in sizes.items() if name != "scalar_0")
    assert velocity == pytest.approx(8 * 64**3 * ball, rel=0.05)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_projection_takes_out_divergence_and_nothing_else(dtype):
    modes = whole_modes(SHAPE, LENGTHS)
    kz, ky, kx = modes.expand()
    k = np.stack([kx, ky, kz])
    solenoidal = random_fields(0, "complex128", SHAPE, LENGTHS)
    potential = random_fields(1, "complex128", SHAPE, LENGTHS, seed=4)[3]
    gradient = 1j * k * potential
    u = (solenoidal + gradient).astype(dtype)
    u_before = u.astype(complex)
    sums = np.zeros(3)
    lines = modes.lines
    project(lines.most, modes.kx, modes.kz, modes.unit[1], modes.line_weight, *u, sums)
    accuracy = np.finfo(dtype).eps
    np.testing.assert_allclose(u, solenoidal, rtol=0, atol=4 * accuracy * np.abs(u_before).max())
    weight = modes.weight()
    expected = [
        (np.abs(u_before) ** 2 @ weight).sum(),
        (np.abs(gradient) ** 2 @ weight).sum(),
        np.abs((k * u_before).sum(axis=0)) ** 2 @ weight,
    ]
    np.testing.assert_allclose(sums, expected, rtol=10 * accuracy)


def test_sum_of_squares_is_that_of_the_grid_points():
    modes = whole_modes(SHAPE, LENGTHS)
    fields = random_fields(0, "complex128", SHAPE, LENGTHS)
    physical = backward(fields, modes)
    for values, points in zip(fields, physical):
        total = sum_of_squares(modes.lines.most, modes.line_weight, values)
        assert total == pytest.approx((points**2).mean(), rel=1e-12)


def test_runs_are_copied_there_and_back():
    values = np.arange(20) + 1j
    start, count = np.array([3, 0, 9, 15]), np.array([2, 1, 0, 5])
    packed = np.zeros(9, complex)
    gather_runs(values, start, count, packed)
    assert packed.real.tolist() == [3, 4, 0, 15, 16, 17, 18, 19, 0]
    back = np.full(20, -1, np.complex64)
    scatter_runs(packed, start, count, back)
    there = [0, 3, 4, 15, 16, 17, 18, 19]
    assert back[there].tolist() == values[there].tolist()
    assert (np.delete(back, there) == -1).all()
