"""Initial states of Gray-Scott: patches, formulas, pictures, data sets, disturbances, and lengths."""

import numpy as np
import pytest
from mpi4py import MPI
from PIL import Image

import ridgeline
from ridgeline.blocks.block import Block
from ridgeline.jit.random import uniform_reference
from ridgeline.models.gray_scott.initial import set_start
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.simulation import report

SHAPE = (5, 9, 12)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Run in an empty folder, and measure no machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})


def a_case(**more):
    sections = {"grid": {"shape": SHAPE}, "parameters": {"noise": 0}} | more
    return ridgeline.Case("gray_scott", 4, **sections)


def start(case, dtype=np.float64):
    """Return u and v of step 0, put together from the blocks of six ranks."""
    nz, ny, nx = case.settings.grid.shape
    whole = np.full((2, nz, ny, nx), np.nan, dtype)
    for rank in range(6):
        block = Block.of_rank((nz, ny, nx), (2, 1, 3), rank)
        fields = tuple(np.full(block.shape_local, np.nan, dtype) for _ in range(2))
        set_start(case.settings, block, fields, MPI.COMM_SELF)
        box = tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local, strict=True))
        for field, part in zip(whole, fields, strict=True):
            field[box] = part
    return whole


@pytest.mark.parametrize("boundary", ["periodic", "fixed"])
def test_patches_are_boxes_around_random_cells(boundary):
    case = a_case(
        grid={"shape": SHAPE, "boundary": boundary},
        run={"seed": 7},
        initial={"kind": "patches", "count": 3, "half_width": 2, "u": 0.5, "v": 0.25},
    )
    expected = np.zeros(SHAPE, bool)
    for patch in range(3):
        axes = []
        for axis, n in enumerate(SHAPE):
            centre = int((0.5 + 0.5 * uniform_reference(7, 2**32 - 1, axis, 0, patch)) * n)
            cells = np.arange(centre - 2, centre + 2)
            axes.append(np.unique(cells % n) if boundary == "periodic" else cells[(cells >= 0) & (cells < n)])
        expected[np.ix_(*axes)] = True
    u, v = start(case)
    assert 0 < expected.sum() < expected.size
    np.testing.assert_array_equal(u, np.where(expected, 0.5, 1.0))
    np.testing.assert_array_equal(v, np.where(expected, 0.25, 0.0))
    assert (start(case.replace({"run.seed": 8}))[1] != v).any()


@pytest.mark.parametrize(("size", "h", "shift"), [({}, 1.0, 0.0), ({"cell_size": 0.5}, 0.5, 0.25)])
def test_formulas_are_of_places(size, h, shift):
    case = a_case(
        grid={"shape": SHAPE, **size},
        parameters={"Du": 0.01, "Dv": 0.01},
        initial={"kind": "formula", "formula_u": "1 - x / 100", "formula_v": "where(y > z, 0.1, 0)"},
    )
    z, y, x = (np.arange(n) * h + shift for n in SHAPE)
    u, v = start(case, np.float32)
    np.testing.assert_array_equal(u, np.broadcast_to(1 - x / 100, SHAPE).astype(np.float32))
    np.testing.assert_array_equal(
        v, np.broadcast_to(np.where(y[:, None] > z[:, None, None], 0.1, 0), SHAPE).astype(np.float32)
    )


def test_a_picture_is_black_where_v_is_and_the_right_way_up():
    pixels = np.full((18, 24), 255, np.uint8)
    pixels[:2, :4] = 0  # upper left
    pixels[-2:, -4:] = 128  # lower right
    Image.fromarray(pixels).save("drop.png")
    case = a_case(initial={"kind": "image", "path": "drop.png", "u": 0.5, "v": 0.25})
    expected = np.zeros(SHAPE[1:])
    expected[-1, :2] = 1  # y upwards
    expected[0, -2:] = 127 / 255
    u, v = start(case)
    for k in range(SHAPE[0]):
        np.testing.assert_allclose(v[k], 0.25 * expected, atol=1e-15)
        np.testing.assert_allclose(u[k], 1 - 0.5 * expected, atol=1e-15)
    Image.new("RGBA", (3, 3), (0, 0, 0, 0)).save("glass.png")
    assert (start(case.replace({"initial.path": "glass.png"}))[1] == 0).all()


def test_a_data_set_goes_on_elsewhere():
    case = a_case(initial={"kind": "patches"}, output={"every": 2, "path": "first.bp"})
    with ridgeline.Simulation(case, progress=False) as simulation:
        simulation.run()
    again = a_case(initial={"kind": "file", "path": "first.bp", "step": 2})
    with ridgeline.open("first.bp") as data:
        np.testing.assert_array_equal(start(again)[0], data.U.sel(step=2))
        np.testing.assert_array_equal(
            start(again.replace({"initial.path": "first.bp", "initial.step": 4}))[1], data.V.sel(step=4)
        )
    last = a_case(initial={"kind": "file", "path": "first.bp"})
    with ridgeline.open("first.bp") as data:
        np.testing.assert_array_equal(start(last, np.float32)[0], data.U.sel(step=4).astype(np.float32))


def test_a_disturbance_is_of_every_cell():
    case = a_case(run={"seed": 3}, initial={"kind": "uniform", "noise": 0.01})
    u, v = start(case)
    z, y, x = np.ogrid[:5, :9, :12]
    np.testing.assert_array_equal(u, 0.25 * (1 + 0.01 * uniform_reference(3, 2**32 - 2, z, y, x)))
    np.testing.assert_array_equal(v, 0.33 * (1 + 0.01 * uniform_reference(3, 2**32 - 3, z, y, x)))


def test_lengths_scale_diffusion_and_places():
    """Pearson's diffusivities on his grid are 1.258 and 0.629 in cells, as the settings say."""
    h = 2.5 / 256
    case = a_case(
        grid={"shape": SHAPE, "cell_size": h}, parameters={"Du": 2e-5, "Dv": 1e-5, "noise": 0, "dt": 0.5}
    )
    rates = [6 * d / h**2 for d in (2e-5, 1e-5)]
    assert np.allclose(rates, [1.258, 0.629], atol=5e-4)
    plain = a_case(parameters={"Du": rates[0], "Dv": rates[1], "noise": 0, "dt": 0.5})
    found = []
    for name, one in (("a.bp", case), ("b.bp", plain)):
        one = one.replace({"output.path": name, "output.every": 4})
        with ridgeline.Simulation(one, progress=False) as simulation:
            simulation.run()
        with ridgeline.open(name) as data:
            found.append(data.load())
    np.testing.assert_array_equal(found[0].V, found[1].V)
    np.testing.assert_allclose(found[0].x, (np.arange(12) + 0.5) * h, rtol=1e-14)
    assert found[1].x.dtype.kind == "i"
    with pytest.raises(
        ConfigError, match=r"at most 0\.8226, the linear stability limit 2/\(6 s/h\^2 Du \+ F\)"
    ):
        case.replace({"model.dt": 1.0})


@pytest.mark.parametrize(
    ("initial", "error", "words"),
    [
        ({"kind": "image"}, ConfigError, 'initial.path .* it must be a path with initial.kind = "image"'),
        ({"kind": "file"}, ConfigError, 'initial.path .* it must be a path with initial.kind = "file"'),
        (
            {"kind": "image", "path": "none.png"},
            ConfigError,
            'none.png" cannot be read as a picture: No such file or directory',
        ),
        (
            {"kind": "image", "path": "text.png"},
            ConfigError,
            'text.png" cannot be read as a picture: the format is unknown',
        ),
        ({"kind": "file", "path": "none.bp"}, OutputError, "none.bp"),
        ({"kind": "formula", "formula_u": "w"}, ConfigError, "initial.formula_u .* w is unknown"),
        (
            {"kind": "formula", "formula_v": "t"},
            ConfigError,
            "t is unknown; the known names are x, y, z, pi, e",
        ),
        ({"kind": "formula", "formula_v": "1 / x"}, ConfigError, "1 / x is inf at x = 0, y = 0, z = 0"),
        ({"kind": "patches", "count": 0}, ConfigError, "initial.count"),
        ({"noise": 2.0}, ConfigError, "initial.noise"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(tmp_path, initial, error, words):
    (tmp_path / "text.png").write_text("no picture")

    def begin():
        case = a_case(initial=initial)
        case.settings.check_files()
        start(case)

    with pytest.raises(error, match=words):
        begin()


def test_a_pattern_that_continues_is_not_disturbed():
    case = a_case(output={"every": 4, "path": "first.bp"})
    with ridgeline.Simulation(case, progress=False) as simulation:
        simulation.run()
    changes = {"initial.kind": "file", "initial.path": "first.bp", "initial.noise": 0.01}
    with ridgeline.open("first.bp") as data:
        for name, field in zip("UV", start(case.replace(changes)), strict=True):
            np.testing.assert_array_equal(field, data[name].sel(step=4).values)


def test_a_data_set_of_another_grid_is_refused():
    case = a_case(output={"every": 4, "path": "first.bp"})
    with ridgeline.Simulation(case, progress=False) as simulation:
        simulation.run()
    for changes, words in (
        (
            {"grid.shape": (5, 9, 11)},
            r"has shape \[5, 9, 12\] .* floating-point numbers of grid.shape = \[5, 9, 11\]",
        ),
        ({"initial.step": 3}, r"has no step 3 \(initial\.step\)\. It has the steps 4"),
    ):
        other = case.replace({"initial.kind": "file", "initial.path": "first.bp", **changes})
        with pytest.raises(OutputError, match=words):
            other.settings.check_files()
