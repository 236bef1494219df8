"""Figures of a turbulent flow: the same on every process grid as on one rank."""

import numpy as np
import pytest

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.modes import Modes
from ridgeline.fourier.transform import FourierTransform
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.models.turbulence.diagnostics import Diagnostics, ScalarParameters
from ridgeline.models.turbulence.passes import HostPasses
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.models.turbulence.recorders import output_field, output_names
from spectral_toys import mode_keys
from whole_box import COMM, WholeTransform, make_modes, random_velocity

RANKS = (1, 2, 3, 4)
TIMEOUT = 240

SHAPE = (12, 18, 14)
LENGTHS = (2 * np.pi, 3.0, 7.5)
NU = 0.03
SCALARS = (ScalarParameters(0.02, (1.0, -2.0, 0.25)),)


class GatheredTransform:
    """A distributed transform that gathers everything on every rank: equal bits on every process grid."""

    def __init__(self, comm, grid, modes) -> None:
        self.comm, self.grid = comm, grid
        self.whole = WholeTransform(make_modes(SHAPE, LENGTHS, grid.dealias))
        self.mine = places(modes)

    def to_physical(self, spectral):
        whole = np.zeros((len(spectral), self.whole.modes.n_modes), complex)
        for where, part in self.comm.allgather((self.mine, spectral)):
            whole[:, where] = part
        return np.ascontiguousarray(self.whole.to_physical(whole)[(slice(None), *box(self.grid))])

    def to_spectral(self, physical):
        whole = np.zeros((len(physical), *SHAPE))
        for where, part in self.comm.allgather((box(self.grid), physical)):
            whole[(slice(None), *where)] = part
        return np.ascontiguousarray(self.whole.to_spectral(whole)[:, self.mine])


def places(modes) -> np.ndarray:
    """Return the places of a rank's modes in the canonical order of all."""
    lines = modes.lines
    first = np.repeat(lines.start_global - lines.start[:-1], np.diff(lines.start))
    return first + np.arange(lines.n_modes)


def box(grid):
    return tuple(slice(offset, offset + size) for offset, size in zip(grid.offset, grid.block))


@pytest.fixture(params=["phase-shift", "two-thirds", "none"])
def whole(request):
    """Return all modes of the grid, fields of them and their figures on one rank."""
    modes = make_modes(SHAPE, LENGTHS, request.param)
    fields = random_velocity(modes, n_scalars=1)
    return modes, fields, Diagnostics(COMM, HostPasses(modes, WholeTransform(modes)), NU, SCALARS)


@pytest.fixture
def shares(comm, whole):
    """Return for each process grid of these ranks: this rank's grid, its fields, and diagnostics."""
    modes, fields, _ = whole
    found = []
    for rows in range(1, comm.size + 1):
        if comm.size % rows == 0:
            grid = PencilGrid(SHAPE, modes.dealias, (rows, comm.size // rows), comm.rank)
            mine = Modes.of(grid, LENGTHS)
            transform = GatheredTransform(comm, grid, mine)
            part = np.ascontiguousarray(fields[:, places(mine)])
            found.append((grid, part, Diagnostics(comm, HostPasses(mine, transform), NU, SCALARS)))
    return found


def test_series_has_the_same_bits_on_every_process_grid(whole, shares):
    _, fields, alone = whole
    expected = alone.series(fields, 0.01)
    for _, part, together in shares:
        assert together.series(part, 0.01) == expected


def test_profiles_agree_to_rounding(whole, shares):
    _, fields, alone = whole
    expected = alone.profiles(fields)
    for _, part, together in shares:
        found = together.profiles(part)
        assert list(found) == list(expected)
        for name, profile in found.items():
            scale = np.abs(expected[name].values).max()
            np.testing.assert_allclose(profile.values, expected[name].values, rtol=0, atol=1e-14 * scale)


def test_output_fields_are_the_blocks_of_the_whole(whole, shares):
    _, fields, alone = whole
    for name in output_names(1):
        expected = output_field(name, COMM, fields, alone.passes, FlowParameters(NU))
        for grid, part, together in shares:
            found = output_field(name, together.comm, part, together.passes, FlowParameters(NU))
            scale = np.abs(expected).max()
            np.testing.assert_allclose(found, expected[box(grid)], rtol=0, atol=1e-15 * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_figures_and_fields_by_the_transform_of_runs(whole, shares, dtype):
    _, fields, alone = whole
    rounding = 2e-5 if dtype == np.float32 else 1e-12
    single = fields.astype(np.result_type(dtype, np.complex64))
    expected = alone.series(single, 0.01)
    profiles = alone.profiles(single)
    for grid, part, together in shares:
        transform = FourierTransform(
            grid, LENGTHS, together.comm, dtype, TransformTuning("alltoallv", effort="estimate")
        )
        mine = Diagnostics(together.comm, HostPasses(together.passes.modes, transform), NU, SCALARS)
        part = part.astype(single.dtype)
        found = mine.series(part, 0.01)
        assert list(found) == list(expected)
        for name, value in found.items():
            assert value == pytest.approx(expected[name], rel=rounding, abs=rounding / 100), name
        for name, profile in mine.profiles(part).items():
            wanted = profiles[name].values
            if not name.endswith("density"):  # a value within rounding of an edge may fall to either side
                np.testing.assert_allclose(
                    profile.values, wanted, rtol=0, atol=rounding * np.abs(wanted).max()
                )
        for name in output_names(1):
            wanted = output_field(name, COMM, single, alone.passes, FlowParameters(NU))
            field = output_field(
                name, together.comm, part, HostPasses(together.passes.modes, transform), FlowParameters(NU)
            )
            assert field.dtype == dtype
            np.testing.assert_allclose(field, wanted[box(grid)], rtol=0, atol=rounding * np.abs(wanted).max())


def test_every_rank_names_the_same_bad_mode(comm, whole, shares):
    modes, fields, _ = whole
    keys = mode_keys(modes)
    for two in np.random.default_rng(4).integers(0, modes.n_modes, (10, 2)):
        bad = fields.copy()
        bad[2, two] = np.nan
        bad[3, 0] = np.inf
        jz, jy, jx = keys[two.min()]
        for _, _, together in shares:
            said = together.locate_nonfinite(np.ascontiguousarray(bad[:, places(together.passes.modes)]))
            assert said == f"velocity_z at mode j = (z {jz}, y {jy}, x {jx})"
            assert len(set(comm.allgather(said))) == 1
    for _, part, together in shares:
        assert together.locate_nonfinite(part) is None
        part[0, :1] = np.nan if comm.rank == comm.size - 1 else part[0, :1]
        assert np.isnan(together.series(part, 0.01)["energy"]), "on all ranks"
