"""Eddy viscosities: the kernels have the bits of the plain version, and both the values of simple flows."""

import numpy as np
import pytest

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.models.wind.settings_physics import SubgridSection, TemperatureSection
from ridgeline.models.wind.subgrid import (
    Closure,
    initial_energy,
    make_closure,
    one_equation_reference,
    set_one_equation,
    set_smagorinsky,
    smagorinsky_reference,
    squared_lengths,
    strain_reference,
)

GHOST = 3
SHAPE = (5, 7, 6)
CLOSURE = Closure((0.7, 1.1, 1.3), 0.17, buoyancy=0.9, prandtl=0.4)


def random_fields(count, dtype):
    """Fields with three layers of ghosts, all of them random and positive."""
    numbers = np.random.default_rng(3)
    block = Block.of_rank(SHAPE, (1, 1, 1), 0, ghost=GHOST)
    fields = [BlockArray.allocate(block, dtype) for _ in range(count)]
    for field in fields:
        field.ghosted[...] = numbers.uniform(0.1, 2.0, field.ghosted.shape)
    return fields


def inside(field, reach):
    """The cells in which results are set."""
    cut = GHOST - reach
    return field.ghosted[cut:-cut, cut:-cut, cut:-cut]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("reach", "surface"), [(0, True), (1, False)])
def test_kernels_have_the_bits_of_the_plain_version(dtype, reach, surface):
    fields = random_fields(8, dtype)
    energy = fields[4].owned
    energy[1, 1, 1], energy[1, 2, 1] = -0.5, 0.0
    compile_kernels(specialise([set_smagorinsky, set_one_equation], dtype))
    *given, nu, kappa, source = (field.flat for field in fields)
    layout = fields[0].origin, fields[0].row_pitch, fields[0].plane_pitch
    heights = (np.arange(SHAPE[0] + 2 * reach) - reach + 0.5) * CLOSURE.widths[0]
    lengths = squared_lengths(CLOSURE, heights, wall_damping=True, roughness=0.1)
    common = layout, SHAPE, CLOSURE.numbers()
    set_smagorinsky(*given[:4], *common, lengths, int(surface), reach, nu, kappa)
    padded = [inside(field, reach + 1) for field in fields[:5]]
    expected = smagorinsky_reference(*padded[:4], CLOSURE, lengths, surface)
    assert (expected[0] == 0).any()  # stable cells, and others
    assert (expected[0] > 0).any()
    for field, plain in zip(fields[5:], expected):
        assert np.array_equal(inside(field, reach), plain.astype(dtype))
    set_one_equation(*given, *common, int(surface), reach, nu, kappa, source)
    expected = one_equation_reference(*padded, CLOSURE, surface)
    for field, plain in zip(fields[5:], expected):
        assert np.isfinite(plain).all()
        assert np.array_equal(inside(field, reach), plain.astype(dtype))


def shear_flow(slope, lapse=0.0, energy=1.0):
    """u = slope z with theta = lapse z, on 4 cells a side with one layer of ghosts."""
    z = np.broadcast_to(((np.arange(6) - 0.5) * CLOSURE.widths[0])[:, None, None], (6, 6, 6))
    zero = np.zeros((6, 6, 6))
    return slope * z, zero, zero, lapse * z, zero + energy


def test_smagorinsky_of_a_uniform_shear():
    *flow, _ = shear_flow(2.0)
    lengths = squared_lengths(CLOSURE, np.arange(4.0))
    nu, kappa = smagorinsky_reference(*flow, CLOSURE, lengths)
    delta = (0.7 * 1.1 * 1.3) ** (1 / 3)
    np.testing.assert_allclose(nu, (0.17 * delta) ** 2 * 2.0, rtol=1e-13)
    np.testing.assert_allclose(kappa, nu / 0.4, rtol=1e-13)


def test_derivatives_on_a_surface_do_not_read_its_ghosts():
    *flow, _ = shear_flow(2.0)
    flow[0] = flow[0].copy()
    flow[0][0] = 1e9
    nu, _ = smagorinsky_reference(*flow, CLOSURE, squared_lengths(CLOSURE, np.arange(4.0)), over_surface=True)
    np.testing.assert_allclose(nu, (0.17 * CLOSURE.filter_width) ** 2 * 2.0, rtol=1e-13)


def test_a_richardson_number_above_the_prandtl_number_stops_smagorinsky():
    lengths = squared_lengths(CLOSURE, np.arange(4.0))
    for ratio, stopped in ((0.99, False), (1.01, True)):
        *flow, _ = shear_flow(1.0, ratio * CLOSURE.prandtl / CLOSURE.buoyancy)
        assert (smagorinsky_reference(*flow, CLOSURE, lengths)[0] == 0).all() == stopped


def test_a_rotation_of_the_whole_has_no_strain():
    z, y, x = np.meshgrid(np.arange(5) * 0.7, np.arange(5) * 1.1, np.arange(5) * 1.3, indexing="ij")
    strain = strain_reference(0.3 * z - 0.2 * y, 0.2 * x - 0.5 * z, 0.5 * y - 0.3 * x, CLOSURE, True)
    np.testing.assert_allclose(strain, 0.0, atol=1e-25)


def test_wall_damping_has_its_two_limits():
    lengths = squared_lengths(CLOSURE, np.array([0.0, 1e6]), True, roughness=1e-3, von_karman=0.4)
    np.testing.assert_allclose(lengths[0], (0.4 * 1e-3) ** 2, rtol=1e-4)
    np.testing.assert_allclose(lengths[1], (0.17 * CLOSURE.filter_width) ** 2, rtol=1e-8)


def test_energy_in_equilibrium_has_no_source():
    """nu_t S^2 = c_eps e^(3/2)/Delta with l = Delta: e = C_k Delta^2 S^2/0.93."""
    closure = CLOSURE._replace(coefficient=0.1)
    energy = 0.1 * closure.filter_width**2 * 4.0 / 0.93
    nu, kappa, source = one_equation_reference(*shear_flow(2.0, energy=energy), closure, False)
    np.testing.assert_allclose(nu, 0.1 * closure.filter_width * energy**0.5)
    np.testing.assert_allclose(kappa, 3 * nu)
    np.testing.assert_allclose(source, 0.0, atol=1e-14)


def test_a_stable_layer_shortens_the_length():
    lapse, energy = 2.0, 0.01
    nu, kappa, source = one_equation_reference(*shear_flow(0.0, lapse, energy), CLOSURE, False)
    n = (lapse * CLOSURE.buoyancy) ** 0.5
    length = 0.76 * energy**0.5 / n
    assert length < CLOSURE.filter_width
    share = length / CLOSURE.filter_width
    np.testing.assert_allclose(nu, 0.17 * length * energy**0.5)
    np.testing.assert_allclose(kappa, (1 + 2 * share) * nu)
    np.testing.assert_allclose(source, -kappa * n**2 - (0.19 + 0.74 * share) * energy**1.5 / length)


def test_settings_make_the_closure():
    air = TemperatureSection(enabled=True, reference=300.0, gravity=9.0)
    assert make_closure(SubgridSection(kind="smagorinsky"), air, (1, 2, 3)) == Closure((1, 2, 3), 0.17, 0.03)
    weak = SubgridSection(kind="smagorinsky", stratification=False)
    assert make_closure(weak, air, (1, 2, 3)).buoyancy == 0
    energy = SubgridSection(kind="one-equation", initial_energy=0.4, initial_height=250.0)
    assert make_closure(energy, air, (1, 2, 3)).coefficient == 0.1
    np.testing.assert_allclose(initial_energy(energy, np.array([0.0, 125.0, 300.0])), [0.4, 0.05, 0.0])
