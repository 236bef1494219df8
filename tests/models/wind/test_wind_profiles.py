"""Profiles in height: the plain version, weights in time, windows on disk, and checkpoints."""

from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

import ridgeline
from ridgeline.blocks.block import Block, BlockArray
from ridgeline.config.intervals import Moment
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.wind.profiles import (
    HeightProfiles,
    ProfiledFlow,
    profile_windows_recorder,
    profiles_reference,
)
from ridgeline.models.wind.settings_physics import ProfileSettings
from ridgeline.models.wind.subgrid import Closure

SHAPE, WIDTHS, GHOST = (35, 6, 7), (0.5, 1.0, 1.25), 3
COMM = MPI.COMM_SELF
NAMES = ("u", "v", "w", "theta", "smoke", "eddy_viscosity", "eddy_diffusivity", "subgrid_energy")
WINDY = ProfileSettings


def random_flow(seed, time, dtype="float64"):
    random = np.random.default_rng(seed)
    fields = {}
    block = Block.of_rank(SHAPE, (1, 1, 1), 0, ghost=GHOST)
    for n, name in enumerate(NAMES):
        fields[name] = BlockArray.allocate(block, dtype)
        fields[name].ghosted[...] = random.uniform(0, 2, fields[name].ghosted.shape) + (300 if n == 3 else 0)
    u, v, w, theta, smoke, nu, kappa, energy = fields.values()
    flow = ProfiledFlow(time, (u, v, w), {"theta": theta, "smoke": smoke}, nu, kappa, energy, on_surface=True)
    plain = {name: each.owned.astype(float) for name, each in fields.items()}
    cut = slice(GHOST - 1, 1 - GHOST)
    plain |= {f"padded {name}": each.ghosted[cut, cut, cut].astype(float) for name, each in fields.items()}
    return flow, plain


def make(dtype="float64", **options):
    block = Block.of_rank(SHAPE, (1, 1, 1), 0, ghost=GHOST)
    compile_kernels(HeightProfiles.kernels(dtype))
    return HeightProfiles(COMM, block, WIDTHS, ("theta", "smoke"), True, True, **options)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_profiles_are_those_of_the_plain_version(dtype):
    profiles = make(dtype, start=0.25)
    flows = [random_flow(seed, time, dtype) for seed, time in enumerate((0.0, 0.5, 2.0))]
    for step, (flow, _) in enumerate(flows):
        profiles.sample(step, flow)
    weights = (0.25, 1.5)  # the first sample only sets the clock, and the second counts from the start on
    plain = [(weight, fields) for weight, (_, fields) in zip(weights, flows[1:])]
    expected = profiles_reference(plain, ("theta", "smoke"), Closure(WIDTHS, 0.0), on_surface=True)
    found = profiles.averages()
    assert set(found) == {"z", *expected}
    np.testing.assert_allclose(found["z"].values, (np.arange(35) + 0.5) * 0.5)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name].values, values, rtol=1e-11, atol=1e-12, err_msg=name)
    assert (profiles.clock.seconds, profiles.clock.samples, profiles.clock.step) == (1.75, 2, 2)


def test_a_checkpoint_continues_the_averages():
    first, second = make(), make()
    flows = [random_flow(seed, float(seed))[0] for seed in range(4)]
    for step, flow in enumerate(flows):
        first.sample(step, flow)
    for step, flow in enumerate(flows[:2]):
        second.sample(step, flow)
    third = make()
    for name, array in third.state().items():
        array.local[...] = second.state()[name].local
    third.restored()
    for step, flow in enumerate(flows[2:], 2):
        third.sample(step, flow)
    for name, profile in first.averages().items():
        assert np.array_equal(profile.values, third.averages()[name].values)
    assert third.clock.samples == 3


def test_windows_are_written_as_they_end(tmp_path):
    settings = ProfileSettings(profiles=str(tmp_path / "profiles.zarr"), profiles_every=1, profiles_window=2)
    case = SimpleNamespace(output=SimpleNamespace(format="zarr"))
    profiles = make()
    flows = [random_flow(seed, 0.5 * seed) for seed in range(4)]
    now = [flows[0][0]]
    (recorder,) = profile_windows_recorder(case, settings, COMM, profiles, lambda: now[0])
    record = recorder.open({}, None)
    for step, (flow, _) in enumerate(flows):
        now[0] = flow
        assert recorder.due(Moment(step - 1, 0.0), Moment(step, 0.0))
        record.write(step)
    record.close()
    data = ridgeline.open(str(tmp_path / "profiles.zarr"))
    assert data["averaging_time"].values.ravel().tolist() == [1.0, 0.5]
    assert data["samples"].values.ravel().tolist() == [2.0, 1.0]
    assert data["time"].values.tolist() == [1.0, 1.5]
    plain = [(0.5, fields) for _, fields in flows]
    for window, samples in ((0, plain[1:3]), (1, plain[3:])):
        expected = profiles_reference(samples, ("theta", "smoke"), Closure(WIDTHS, 0.0), on_surface=True)
        np.testing.assert_allclose(data["uw"].values[window], expected["uw"], rtol=1e-10)
        np.testing.assert_allclose(data["subgrid_uw"].values[window], expected["subgrid_uw"], rtol=1e-10)
    none = profile_windows_recorder(case, ProfileSettings(), COMM, profiles, lambda: now[0])
    assert none == []


def test_a_flow_without_closure_has_no_subgrid_profiles():
    flow, _ = random_flow(1, 1.0)
    profiles = HeightProfiles(COMM, Block.of_rank(SHAPE, (1, 1, 1), 0, ghost=GHOST), WIDTHS)
    compile_kernels(HeightProfiles.kernels("float64"))
    for step, time in enumerate((0.0, 1.0)):
        profiles.sample(step, ProfiledFlow(time, flow.velocity, {}))
    assert list(profiles.averages()) == ["z", "u", "v", "w", "uu", "vv", "ww", "uv", "uw", "vw"]
    assert profiles.averages()["uu"].values.min() > 0
