"""Parts in a run: bytes on the disk, pictures while the run goes on, its report, and numbers that float16 lacks."""

import logging

import numpy as np
import pytest

import ridgeline
from ridgeline.analysis.plot import plot_lines
from ridgeline.analysis.plot_command import draw
from ridgeline.simulation import report

SHAPE = (40, 48, 56)
PLANE = {"name": "movie", "plane": "x=mid", "variables": ["V"], "every": 1, "initial": True}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})


def case_of(*parts, steps=4, shape=SHAPE):
    return ridgeline.Case(
        "gray_scott", steps, grid={"shape": shape}, output={"every": 0, "part": list(parts)}
    )


def bytes_of(folder, pattern):
    return sum(path.stat().st_size for path in folder.glob(pattern))


def test_a_movie_of_a_plane_writes_no_volume(tmp_path):
    case = case_of(PLANE)
    result = ridgeline.Simulation(case, progress=False).run()
    (size,) = case.settings.part_sizes()
    estimated = size.bytes * size.outputs
    assert (size.shape, size.outputs, estimated) == ((40, 48, 1), 5, 5 * 40 * 48 * 8)
    assert result["writes"]["part movie"]["bytes"] == estimated
    assert result["files"]["part movie"] == "gray_scott_movie.bp"
    on_disk = bytes_of(tmp_path / "gray_scott_movie.bp", "data.*")
    assert estimated <= on_disk <= estimated + 5 * 4096  # what ADIOS2 adds to the data of a step
    assert [path.name for path in tmp_path.glob("*.bp")] == ["gray_scott_movie.bp"]
    # All that the run has written is much less than one field.
    assert bytes_of(tmp_path / "gray_scott_movie.bp", "*") < 0.3 * np.prod(SHAPE) * 8


def test_pictures_during_a_run():
    line = {"name": "line", "line": "y=3, z=mid", "every": 1}
    point = {"name": "total", "mean": ["x", "y", "z"], "every": 1, "precision": "float32"}
    with ridgeline.Simulation(
        case_of(PLANE, line, point, steps=3, shape=(8, 9, 10)), progress=False
    ) as simulation:
        simulation.advance(2)
        drawn = {}
        for name in ("movie", "line", "total"):
            (drawn[name],) = draw(f"gray_scott_{name}.bp")
        assert draw("gray_scott_movie.bp", movie="v.gif")[0].exists()
        (across,) = draw("gray_scott_movie.bp", output="x.png", slice="x=0")
        assert across.read_bytes() == drawn["movie"].read_bytes()
        data = ridgeline.open("gray_scott_movie.bp")
        assert data.V.shape == (3, 8, 9, 1)
        assert data.x.values.tolist() == [5.0]
        line = ridgeline.open("gray_scott_line.bp")
        axes = plot_lines(line, ["V"]).axes[0]
        np.testing.assert_array_equal(
            axes.lines[0].get_xydata(), np.stack([line.x, line.V[-1, 0, 0]], axis=1)
        )
        total = plot_lines(ridgeline.open("gray_scott_total.bp"), ["U"]).axes[0]
        assert (total.get_xlabel(), len(total.lines[0].get_xydata())) == ("time", 2)
    assert all(path.exists() for path in drawn.values())


def test_numbers_that_float16_lacks_are_infinite_with_one_warning(caplog):
    half = {"name": "half", "plane": "z=0", "variables": ["U", "large = 1e5*(1 + U)"], "precision": "float16"}
    case = case_of({**half, "every": 1, "initial": True}, steps=2, shape=(4, 5, 6))
    with caplog.at_level(logging.WARNING):
        ridgeline.Simulation(case, progress=False).run()
    data = ridgeline.open("gray_scott_half.bp")
    assert data.large.dtype == data.U.dtype == np.float16
    assert np.isinf(data.large[0]).any()
    assert np.isfinite(data.U).all()
    said = [record.getMessage() for record in caplog.records if "float16" in record.getMessage()]
    assert said == [
        "the part half has values at step 0 that float16 cannot hold, which are written as infinity. "
        'Set precision = "float32".'
    ]
