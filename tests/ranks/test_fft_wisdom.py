"""Plans that all ranks share."""

from pathlib import Path

import numpy as np
import pyfftw
import pytest

from ridgeline.fourier import fft
from ridgeline.fourier.planning import plan_on_all_ranks
from ridgeline.runtime.aligned import aligned_empty
from ridgeline.runtime.errors import ConfigError

RANKS = (1, 2, 3, 4)
TIMEOUT = 60


@pytest.fixture(autouse=True)
def empty_cache(comm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = Path(comm.bcast(str(tmp_path)))
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(folder))
    monkeypatch.delenv("RIDGELINE_FFT", raising=False)
    pyfftw.forget_wisdom()
    return folder


class Maker:
    """Plans transforms of n points and counts how often it had to measure."""

    def __init__(self, n: int, dtype: str = "c16") -> None:
        self.lines = aligned_empty((3, n), dtype)
        self.n_measured = 0

    def __call__(self, planner) -> list[fft.FFTPlan]:
        self.n_measured += not planner.keywords.get("known", False)
        return [planner(self.lines, self.lines, 1, direction) for direction in ("forward", "inverse")]

    def transform(self, plans: list[fft.FFTPlan]) -> np.ndarray:
        """Forward and back, of the same numbers on all ranks."""
        n = self.lines.shape[1]
        self.lines[...] = np.random.default_rng(3).standard_normal((3, n))
        plans[0].execute()
        spectrum = self.lines.copy()
        plans[1].execute()
        return np.concatenate([spectrum, self.lines / n])


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_rank_0_measures_for_all(comm, dtype: str) -> None:
    maker = Maker(36, dtype)
    result = maker.transform(plan_on_all_ranks(comm, maker))
    assert maker.n_measured == (comm.rank == 0)
    exact = np.fft.fft(np.random.default_rng(3).standard_normal((3, 36)))
    assert abs(result[:3] - exact).max() < 100 * np.finfo(dtype).eps
    np.testing.assert_array_equal(result, comm.bcast(result))


def test_other_sizes_are_measured_by_the_first_rank_that_has_them(comm) -> None:
    maker = Maker(36 if comm.rank == 0 else 40)
    maker.transform(plan_on_all_ranks(comm, maker))
    assert maker.n_measured == (comm.rank <= 1)


def test_the_next_run_plans_from_disk(comm) -> None:
    maker = Maker(36 + 4 * comm.rank)
    first = maker.transform(plan_on_all_ranks(comm, maker))
    pyfftw.forget_wisdom()
    maker = Maker(36 + 4 * comm.rank)
    again = maker.transform(plan_on_all_ranks(comm, maker, "wisdom-only"))
    assert maker.n_measured == 0
    np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize("without", [0, -1])
def test_missing_wisdom_is_an_error_on_all_ranks(comm, without: int) -> None:
    plan_on_all_ranks(comm, Maker(36))
    n = 38 if comm.rank == without % comm.size else 36
    with pytest.raises(ConfigError, match=r"no FFTW wisdom for 3 forward transforms of 38 points"):
        plan_on_all_ranks(comm, Maker(n), "wisdom-only")


@pytest.mark.parametrize("effort", ["estimate", "measure"])
def test_error_on_one_rank_is_raised_on_all(comm, effort: str) -> None:
    def make(planner) -> None:
        if comm.rank == comm.size - 1:
            raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        plan_on_all_ranks(comm, make, effort)


def test_estimate_neither_measures_nor_keeps(comm, empty_cache: Path) -> None:
    maker = Maker(36)
    result = maker.transform(plan_on_all_ranks(comm, maker, "estimate"))
    np.testing.assert_allclose(result[3:], np.random.default_rng(3).standard_normal((3, 36)), atol=1e-14)
    comm.Barrier()
    assert not list(empty_cache.rglob("*.wisdom"))


def test_scipy_plans_as_well(comm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIDGELINE_FFT", "scipy")
    maker = Maker(36)
    result = maker.transform(plan_on_all_ranks(comm, maker, "wisdom-only"))
    np.testing.assert_allclose(result[3:], np.random.default_rng(3).standard_normal((3, 36)), atol=1e-14)
