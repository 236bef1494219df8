"""Initial states from checkpoints of other grids and from data sets, on every process grid of the ranks at hand."""

import logging

import numpy as np
import pytest

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.modes import Modes
from ridgeline.fourier.transform import FourierTransform
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.io.bp import BPWriter, Variable
from ridgeline.io.checkpoint import CheckpointStore
from ridgeline.jit import kernel_cache
from ridgeline.jit.contiguous_runs import gather_runs, scatter_runs
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.turbulence import initial_from_checkpoint
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.initial_from_file import fill_from_file, kernels_of_files
from ridgeline.models.turbulence.restart import SpectralState
from ridgeline.models.turbulence.solenoidal import project, recover_y, sum_of_squares
from ridgeline.runtime.errors import CheckpointError, ConfigError, OutputError, RidgelineError
from spectral_toys import (
    NumpyTransform,
    backward,
    dictionary,
    forward,
    mode_keys,
    part,
    process_grids,
    random_fields,
    whole_modes,
)

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)  # takes more than 5 s
TIMEOUT = 180
LENGTHS = (2.0, 7.0, 5.0)
SHAPE = (12, 10, 14)


@pytest.fixture(autouse=True)
def many_batches(monkeypatch):
    """Read so few modes at a time that every checkpoint takes several batches."""
    monkeypatch.setattr(initial_from_checkpoint, "BATCH", 37)


def settings_of(shape, dealias, lengths=LENGTHS, model="turbulence"):
    return {
        "run.model": model,
        "grid.shape": list(shape),
        "grid.lengths": list(lengths),
        "model.dealias": dealias,
    }


def save(comm, path, whole, shape, dealias, step=7, **changes):
    """Write a checkpoint as a run of that shape would."""
    grid = PencilGrid(shape, dealias, next(process_grids(comm.size, shape, dealias)), comm.rank)
    state = SpectralState(grid, LENGTHS, comm, whole.dtype, len(whole) - 3)
    with CheckpointStore(comm, path, ranks_per_file=2, keep=5) as store:
        saved = store.save(
            state.pack(part(whole, grid.lines)),
            step=step,
            time=0.5,
            identity={},
            settings=settings_of(shape, dealias) | changes,
        )
    comm.Barrier()
    return saved.path


def readers(comm, shape, dealias="phase-shift"):
    """(grid, modes) on every process grid."""
    for process_grid in process_grids(comm.size, shape, dealias):
        grid = PencilGrid(shape, dealias, process_grid, comm.rank)
        yield grid, Modes.of(grid, LENGTHS)


def fill(comm, path, grid, modes, caplog, dtype="complex128", n_scalars=0, step=None, transform=None):
    """The fields that come from a file, and what was said."""
    fields = np.full((3 + n_scalars, modes.n_modes), 99, dtype)
    transform = transform or NumpyTransform(comm, grid, modes)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        fill_from_file(fields, path, grid, modes, transform, comm, step, Forcing(modes, comm))
    # How far compiling has come is said on a slow machine, on any rank.
    of_runs = [record for record in caplog.records if record.name != kernel_cache.__name__]
    said = [(record.levelno, record.message) for record in of_runs]
    assert comm.rank == 0 or not said
    return fields, comm.bcast(said)


def kinetic_energy(fields, modes):
    return 0.5 * float((modes.weight() * np.abs(fields[:3]) ** 2).sum())


def refusal(comm, kind, path, grid, modes, step=None):
    """The message of the error that every rank must raise."""
    with pytest.raises(RidgelineError) as caught:
        fill_from_file(
            np.zeros((3, modes.n_modes), complex),
            path,
            grid,
            modes,
            NumpyTransform(comm, grid, modes),
            comm,
            step,
            Forcing(modes, comm),
        )
    assert isinstance(caught.value, kind), repr(caught.value)
    messages = comm.allgather(str(caught.value))
    assert len(set(messages)) == 1
    return messages[0]


def test_nothing_compiles_after_compile_kernels(comm, folder, caplog):
    """Kernels are called with no other types. First in this file: later all are compiled."""
    used = (gather_runs, scatter_runs, recover_y, project, sum_of_squares)
    compile_kernels(kernels_of_files("complex64"))
    before = [list(kernel.signatures) for kernel in used]
    whole = random_fields(1, "complex64", SHAPE, LENGTHS)
    path = save(comm, folder, whole, SHAPE, "phase-shift")
    grid, modes = list(readers(comm, SHAPE))[-1]
    fill(comm, path, grid, modes, caplog, "complex64")
    write_data_set(comm, folder / "u.bp", backward(whole, whole_modes(SHAPE, LENGTHS)))
    fill(comm, folder / "u.bp", grid, modes, caplog, "complex64")
    assert [list(kernel.signatures) for kernel in used] == before


@pytest.mark.parametrize(
    ("shape", "dealias"),
    [
        ((16, 20, 18), "phase-shift"),  # finer in every direction
        ((6, 8, 8), "phase-shift"),  # coarser
        ((20, 6, 14), "phase-shift"),  # finer and coarser
        (SHAPE, "two-thirds"),  # both padded and truncated
        (SHAPE, "none"),
        ((8, 30, 6), "none"),
    ],
)
def test_another_grid_pads_and_truncates(comm, folder, caplog, shape, dealias):
    whole = random_fields(1, "complex128", SHAPE, LENGTHS)
    path = save(comm, folder, whole, SHAPE, "phase-shift")
    source = dictionary(whole, whole_modes(SHAPE, LENGTHS))
    total = kinetic_energy(whole, whole_modes(SHAPE, LENGTHS))
    target_modes = whole_modes(shape, LENGTHS, dealias)
    keys = set(map(tuple, mode_keys(target_modes).tolist()))
    padded, left_out = len(keys - set(source)), len(set(source) - keys)
    for grid, modes in readers(comm, shape, dealias):
        fields, said = fill(comm, path, grid, modes, caplog, n_scalars=1)
        for key, values in dictionary(fields, modes).items():
            expected = source.get(key, np.zeros(4))
            np.testing.assert_array_equal(values[[0, 2, 3]], expected[[0, 2, 3]])
            np.testing.assert_allclose(values[1], expected[1], rtol=0, atol=1e-14)
        (level, sentence), *more = said
        assert not more
        assert level == logging.WARNING
        assert (f"{padded} modes that only this grid has are zero" in sentence) == (padded > 0)
        assert (f"{left_out} modes that only the checkpoint has" in sentence) == (left_out > 0)
        if left_out:
            kept = sum(comm.allgather(kinetic_energy(fields, modes)))
            assert f"{total - kept:.4g} of its kinetic energy {total:.6g}" in sentence
            assert 0 < total - kept < total


def test_a_few_modes_for_many_ranks(comm, folder, caplog):
    """Some ranks have nothing to read, and some nothing to receive."""
    small = (4, 4, 4)
    if comm.size > 1:
        some = comm.Split(int(comm.rank > 0), comm.rank)
        whole = random_fields(0, "complex128", small, LENGTHS, "two-thirds")
        whole[:, whole_modes(small, LENGTHS, "two-thirds").lines.expand()[2] == 1] = 0  # leaves 9 modes
        path = comm.bcast(save(some, folder, whole, small, "two-thirds") if comm.rank == 0 else None)
        some.Free()
        for grid, modes in readers(comm, SHAPE):
            fields, said = fill(comm, path, grid, modes, caplog)
            found = comm.allgather(kinetic_energy(fields, modes))
            expected = kinetic_energy(whole, whole_modes(small, LENGTHS, "two-thirds"))
            assert sum(found) == pytest.approx(expected, rel=1e-14)
            assert comm.size < 3 or 0.0 in found
            assert "modes that only this grid has are zero" in said[0][1]


def test_same_grid_gives_the_same_bits_and_a_sentence(comm, folder, caplog):
    whole = random_fields(2, "complex128", SHAPE, LENGTHS)
    path = save(comm, folder, whole, SHAPE, "phase-shift")
    for grid, modes in readers(comm, SHAPE):
        fields, said = fill(comm, path, grid, modes, caplog, n_scalars=2)
        expected = part(whole, grid.lines)
        state = SpectralState(grid, LENGTHS, comm, "complex128", 2)
        state.pack(expected)
        assert fields.tobytes() == expected.tobytes()
        assert [level for level, _ in said] == [logging.INFO]
        assert str(path) in said[0][1]


@pytest.mark.parametrize(("stored", "used"), [("complex64", "complex128"), ("complex128", "complex64")])
def test_another_precision(comm, folder, caplog, stored, used):
    whole = random_fields(1, stored, SHAPE, LENGTHS)
    path = save(comm, folder, whole, SHAPE, "phase-shift")
    for grid, modes in readers(comm, SHAPE):
        fields, said = fill(comm, path, grid, modes, caplog, used, n_scalars=1)
        expected = part(whole, grid.lines)
        assert fields.dtype == used
        np.testing.assert_array_equal(fields[[0, 2, 3]], expected[[0, 2, 3]].astype(used))
        np.testing.assert_allclose(fields, expected, rtol=0, atol=1e-6)
        assert [level for level, _ in said] == [logging.INFO]


def test_scalars_are_matched_by_number(comm, folder, caplog):
    whole = random_fields(1, "complex128", SHAPE, LENGTHS)
    path = save(comm, folder, whole, SHAPE, "phase-shift")
    for grid, modes in readers(comm, SHAPE):
        fields, said = fill(comm, path, grid, modes, caplog, n_scalars=3)
        np.testing.assert_array_equal(fields[3], part(whole, grid.lines)[3])
        assert (fields[4:] == 99).all()
        assert "has no scalar_1, scalar_2, so the initial state comes from [[scalar]]" in said[-1][1]
        fields, said = fill(comm, path, grid, modes, caplog, n_scalars=0)
        assert "has scalar_0, which this run does not use" in said[-1][1]


def test_newest_usable_checkpoint_or_the_step_asked_for(comm, folder, caplog):
    paths = {}
    wholes = {}
    for step in (3, 5, 9):
        wholes[step] = random_fields(0, "complex128", SHAPE, LENGTHS, seed=step)
        paths[step] = save(comm, folder, wholes[step], SHAPE, "phase-shift", step)
    if comm.rank == 0:
        file = paths[9] / f"data_{(comm.size - 1) // 2:04d}.bin"
        data = bytearray(file.read_bytes())
        data[200] ^= 4
        file.write_bytes(data)
    comm.Barrier()
    for grid, modes in readers(comm, SHAPE):
        for step, expected in ((None, 5), (3, 3)):
            fields, said = fill(comm, folder, grid, modes, caplog, step=step)
            np.testing.assert_array_equal(fields[0], part(wholes[expected], grid.lines)[0])
            refused = [text for level, text in said if level == logging.WARNING]
            assert len(refused) == (step is None)
        assert "damaged" in (refused or fill(comm, folder, grid, modes, caplog)[1][0])[1]
        message = refusal(comm, CheckpointError, paths[9], grid, modes)
        assert "no usable checkpoint" in message
        assert "data_" in message
        message = refusal(comm, CheckpointError, folder, grid, modes, step=4)
        assert "no checkpoint of initial.step = 4. Its steps are 9, 5, 3." in message


def test_checkpoints_of_something_else_are_refused(comm, folder):
    whole = random_fields(0, "complex128", SHAPE, LENGTHS)
    for grid, modes in readers(comm, SHAPE):
        path = save(comm, folder / "a", whole, SHAPE, "phase-shift", **{"run.model": "gray_scott"})
        assert 'run.model = "gray_scott"' in refusal(comm, CheckpointError, path, grid, modes)
        path = save(comm, folder / "b", whole, SHAPE, "phase-shift", **{"grid.lengths": [2.0, 7.0, 6.0]})
        message = refusal(comm, CheckpointError, path, grid, modes)
        assert "[2.0, 7.0, 6.0]" in message
        assert "[2.0, 7.0, 5.0]" in message
        for change in ({"grid.shape": [16, 10, 14]}, {"model.dealias": "none"}, {"grid.shape": None}):
            path = save(comm, folder / "c", whole, SHAPE, "phase-shift", **change)
            message = refusal(comm, CheckpointError, path, grid, modes)
            assert "does not contain the modes of the grid in its settings" in message
        whole[0, -1] = np.nan
        path = save(comm, folder / "d", whole, SHAPE, "phase-shift")
        assert "NaN" in refusal(comm, CheckpointError, path, grid, modes)
        whole[0, -1] = 0
        comm.Barrier()


def test_nothing_of_the_kind_at_the_path(comm, folder):
    grid, modes = next(readers(comm, SHAPE))
    (folder / "notes").mkdir(exist_ok=True)
    if comm.rank == 0:
        (folder / "file").write_text("text")
    comm.Barrier()
    for name, words in (("absent", "nothing"), ("file", "a file"), ("notes", "an empty folder")):
        message = refusal(comm, ConfigError, folder / name, grid, modes)
        assert f"{folder / name} is {words}, but" in message


def write_data_set(comm, path, fields, steps=(0, 10), names="xyz", attributes=None, dtype="float64"):
    """Write [n, z, y, x] arrays, 1 + step times as large at each step, as velocity components and scalars."""
    shape = fields.shape[1:]
    grid = PencilGrid(shape, "phase-shift", (1, comm.size), comm.rank)
    cells = tuple(slice(o, o + n) for o, n in zip(grid.offset, grid.block))
    labels = [f"velocity_{n}" if n in "xyz" else f"scalar_{n}" for n in names]
    variables = [Variable(n, dtype, shape, grid.offset, grid.block) for n in labels]
    with BPWriter(path, comm, variables, attributes or {}) as writer:
        for step in steps:
            blocks = [np.ascontiguousarray((1 + step) * f[cells]).astype(dtype) for f in fields]
            writer.write(step, 0.1 * step, dict(zip(labels, blocks)))
    comm.Barrier()


def test_data_set_is_truncated_and_projected(comm, folder, caplog):
    """White noise has energy in modes that are left out, and divergence."""
    noise = np.random.default_rng(8).normal(size=(4, *SHAPE))
    write_data_set(comm, folder / "noise.bp", noise, names="xyz0")
    everything = whole_modes(SHAPE, LENGTHS)
    for step, factor in ((None, 11.0), (0, 1.0)):
        expected = factor * random_fields(1, "complex128", SHAPE, LENGTHS, seed=8)
        total = 0.5 * factor**2 * (noise[:3] ** 2).sum() / np.prod(SHAPE)
        for grid, modes in readers(comm, SHAPE):
            fields, said = fill(comm, folder / "noise.bp", grid, modes, caplog, n_scalars=1, step=step)
            np.testing.assert_allclose(fields, part(expected, grid.lines), rtol=0, atol=1e-13 * factor)
            (level, sentence), *more = said
            assert level == logging.WARNING
            assert not more
            raw = kinetic_energy(factor * forward(noise, everything), everything)
            kept = kinetic_energy(expected, everything)
            assert f"kinetic energy {total:.6g}" in sentence
            assert f"{total - raw:.3g} in modes that are not retained" in sentence
            assert f"{raw - kept:.3g} in the part with divergence" in sentence


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_data_set_of_a_run_loses_nothing(comm, folder, caplog, dtype):
    whole = random_fields(0, "complex128", SHAPE, LENGTHS)
    spacing = [length / n for length, n in zip(LENGTHS, SHAPE)][::-1]
    physical = backward(whole, whole_modes(SHAPE, LENGTHS))
    write_data_set(
        comm, folder / "u.bp", physical, steps=(0,), attributes={"Fides_Spacing": spacing}, dtype=dtype
    )
    for grid, modes in readers(comm, SHAPE):
        for used, tolerance in (("complex64", 1e-6), ("complex128", 1e-15 if dtype == "float64" else 1e-6)):
            real = np.zeros(0, used).real.dtype
            tuning = TransformTuning("alltoallv", effort="estimate")
            transform = FourierTransform(grid, LENGTHS, comm, real, tuning)
            fields, said = fill(comm, folder / "u.bp", grid, modes, caplog, used, transform=transform)
            assert fields.dtype == used
            np.testing.assert_allclose(fields, part(whole, grid.lines), rtol=0, atol=tolerance)
            assert [level for level, _ in said] == [logging.INFO]


def test_data_sets_that_cannot_be_used(comm, folder, caplog):
    whole = backward(random_fields(0, "complex128", SHAPE, LENGTHS), whole_modes(SHAPE, LENGTHS))
    grid, modes = next(readers(comm, SHAPE))
    write_data_set(comm, folder / "two.bp", whole[:2], names="xz")
    message = refusal(comm, OutputError, folder / "two.bp", grid, modes)
    assert "has no velocity_y, only velocity_x, velocity_z" in message
    write_data_set(comm, folder / "small.bp", whole[:, :8])
    message = refusal(comm, OutputError, folder / "small.bp", grid, modes)
    assert "[8, 10, 14]" in message
    assert "grid.shape = [12, 10, 14]" in message
    write_data_set(comm, folder / "box.bp", whole, attributes={"Fides_Spacing": [0.1, 0.1, 0.1]})
    assert "another box" in refusal(comm, OutputError, folder / "box.bp", grid, modes)
    write_data_set(comm, folder / "good.bp", whole)
    message = refusal(comm, OutputError, folder / "good.bp", grid, modes, step=5)
    assert "no step 5 (initial.step). It has the steps 0, 10" in message
    whole[1, 3, 4, 5] = np.inf
    write_data_set(comm, folder / "infinite.bp", whole)
    message = refusal(comm, OutputError, folder / "infinite.bp", grid, modes)
    assert "velocity_y" in message
    assert "NaN or infinity" in message
    if comm.rank == 0:
        data = folder / "good.bp" / "data.0"
        data.write_bytes(data.read_bytes()[:-100])
    comm.Barrier()
    assert "damaged" in refusal(comm, OutputError, folder / "good.bp", grid, modes)


def test_missing_scalars_of_a_data_set_are_left(comm, folder, caplog):
    whole = backward(random_fields(0, "complex128", SHAPE, LENGTHS), whole_modes(SHAPE, LENGTHS))
    write_data_set(comm, folder / "u.bp", whole)
    for grid, modes in readers(comm, SHAPE):
        fields, said = fill(comm, folder / "u.bp", grid, modes, caplog, n_scalars=1)
        assert (fields[3] == 99).all()
        assert "has no scalar_0, so the initial state comes from [[scalar]]" in said[0][1]
