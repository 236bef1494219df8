"""Checksums of data sets: what they refuse, what they let be read, and how they follow a run that is continued."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from mpi4py import MPI

import ridgeline
from ridgeline.io import bp_sums, zarr_layout
from ridgeline.io.bp_reader import BPReader
from ridgeline.io.data_set_check import check_data_set
from ridgeline.io.open_store import open_writer
from ridgeline.io.store import Selection, Variable
from ridgeline.runtime.errors import OutputError
from toy_data_set import SHAPE, STORES, assert_steps, bits, put, read, writer


@pytest.fixture
def path(tmp_path, request) -> Path:
    """A data set of four output steps."""
    path = tmp_path / f"toy.{getattr(request, 'param', 'bp')}"
    with writer(path, {"seed": 7}) as out:
        put(out, 0, 1, 2, 3)
    return path


both = pytest.mark.parametrize("path", STORES, indirect=True)


def zero(file: Path, start: int, length: int = 16) -> None:
    with file.open("r+b") as stream:
        stream.seek(start)
        stream.write(bytes(length))


def ends(path: Path, name: str) -> list[int]:
    return [record.parts[name][0] for record in bp_sums.read_sums(path)[0]]


@pytest.mark.parametrize("name", ["md.idx", "md.0"])
def test_the_steps_before_a_damage_can_be_read(path, name):
    zero(path / name, ends(path, name)[1] + 20)
    said = (
        rf"damaged: {name} is not as it was written from output step 2 on\. .* ridgeline\.open\(.*, steps=2\)"
    )
    with pytest.raises(OutputError, match=said) as caught:
        ridgeline.open(path)
    assert "\n" not in str(caught.value)
    with ridgeline.open(path, steps=2) as data:
        assert data.step.values.tolist() == [0, 10]
        np.testing.assert_array_equal(data.V.values, [bits(1000), bits(1001)])
    with pytest.raises(OutputError, match=name):
        ridgeline.open(path, steps=3)
    verdict = check_data_set(path)
    assert verdict.damages == (f"{name} is not as it was written from output step 2 on",)
    assert verdict.bytes_compared == 4 * bits(0).nbytes


@both
def test_a_data_set_has_no_more_steps_than_it_has(path):
    with pytest.raises(OutputError, match="holds 4 complete output steps, so steps must be 1 to 4, not 5"):
        ridgeline.open(path, steps=5)


def test_a_step_is_whole_when_its_checksums_are_there(path):
    """A run is writing, or was killed, between the index and the checksums."""
    sums = path / "ridgeline.sums"
    whole = sums.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for left in (0, 1, len(last) - 1):
        sums.write_bytes(whole[: len(whole) - len(last) + left])
        with BPReader(path) as reader:
            assert reader.steps == 3
        assert check_data_set(path).unfinished
    with writer(path, keep_steps=3) as out:
        put(out, 3, 4)
    assert_steps(path, 0, 1, 2, 3, 4)
    assert not check_data_set(path).unfinished


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw.replace(b"metadata", b"metadatA", 1), "is not as it was written from output step 0"),
        (lambda raw: b"R" + raw[1:], "does not begin with 'ridgeline sums 1'"),
        (lambda raw: b"\n".join(raw.split(b"\n")[:3]) + b"\n", "is cut off from output step 2"),
        (lambda raw: b"\n".join(raw.split(b"\n")[:2] + raw.split(b"\n")[3:]), "from output step 1 on"),
    ],
    ids=["bit", "header", "cut", "a line left out"],
)
def test_damaged_checksums_are_named(path, change, words):
    sums = path / "ridgeline.sums"
    sums.write_bytes(change(sums.read_bytes()))
    with pytest.raises(OutputError, match=rf"ridgeline\.sums {words}|ridgeline\.sums is not .* {words}"):
        ridgeline.open(path)
    assert "ridgeline.sums" in check_data_set(path).damages[0]


@pytest.mark.parametrize("more", [b"x", bytes(17), b'{"metadata": {'])
def test_bytes_after_the_last_record_are_named_and_cut_off_by_the_next_run(path, more):
    """The record of a step that is being written is no damage: the index holds that step."""
    with (path / "ridgeline.sums").open("ab") as file:
        file.write(more)
    assert check_data_set(path).damages == (f"ridgeline.sums has {len(more)} more bytes than were written",)
    with writer(path, keep_steps=3) as out:
        put(out, 3)
    assert not check_data_set(path).damages


def test_a_run_continues_before_a_damage_and_not_after_it(path):
    zero(path / "md.0", ends(path, "md.0")[1] + 20)
    with pytest.raises(
        OutputError, match=r"2 complete output steps \(md\.0 is not .* step 2 on\), but .* written 3"
    ):
        writer(path, keep_steps=3)
    with writer(path, keep_steps=2) as out:
        put(out, 2, 3)
    assert_steps(path, 0, 1, 2, 3)
    assert not check_data_set(path).damages


def test_a_data_set_without_checksums_is_read_and_gets_them_when_it_is_continued(path):
    """As of an older Ridgeline."""
    (path / "ridgeline.sums").unlink()
    assert_steps(path, 0, 1, 2, 3)
    with pytest.raises(OutputError, match=r"cannot be checked, because it has no ridgeline\.sums"):
        check_data_set(path)
    with writer(path, keep_steps=3) as out:
        put(out, 3, 4)
    assert_steps(path, 0, 1, 2, 3, 4)
    verdict = check_data_set(path)
    assert (verdict.steps, verdict.unknown, verdict.damages) == (5, 3, ())
    assert verdict.bytes_compared == 4 * bits(0).nbytes
    with ridgeline.open(path, steps=2) as data:
        np.testing.assert_array_equal(data.U.values, [bits(0), bits(1)])


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_damaged_value_is_found_at_its_step(path, number):
    content = bytearray((path / "data.0").read_bytes())
    place = content.find(bits(number).tobytes())
    zero(path / "data.0", place + 8, 1 + 8 * SHAPE[2])
    (damage,) = check_data_set(path).damages
    assert damage.startswith(f"U is not as it was written at output step {number} (time step {10 * number})")


def test_lost_data_files_are_named_once(path):
    (path / "data.0").rename(path.with_name("data.0"))
    assert check_data_set(path).damages == ("data.0 is missing from output step 0 on",)
    path.with_name("data.0").rename(path / "data.0")
    os.truncate(path / "data.0", (path / "data.0").stat().st_size - 10)
    (damage,) = check_data_set(path).damages
    assert damage.startswith("data.0 is ")
    assert damage.endswith("from output step 3 on")


@pytest.mark.parametrize("store", STORES)
def test_an_array_of_the_first_step_alone_is_compared_too(tmp_path, store):
    shape = (4, 3)
    both = [Variable(name, float, shape, (0, 0), shape, once=name == "x") for name in "px"]
    values = np.arange(12.0).reshape(shape)
    with open_writer(tmp_path / f"toy.{store}", MPI.COMM_SELF, both, {}) as out:
        for step in range(3):
            out.write(step, 0.0, {"p": values + step, "x": values})
    verdict = check_data_set(tmp_path / f"toy.{store}")
    assert (verdict.damages, verdict.bytes_compared) == ((), 4 * values.nbytes)


def test_a_child_process_reads_the_same(path):
    with BPReader(path) as near, BPReader(path, isolated=True) as far:
        assert repr(near.attributes) == repr(far.attributes)
        assert near.arrays == far.arrays
        assert near.blocks("U", 2) == far.blocks("U", 2)
        out = np.empty((2, 3, 4))
        far.read("V", [Selection(3, (1, 0, 2), out)])
        assert out.tobytes() == bits(1003)[1:3, :, 2:6].tobytes()
        far.close()
        far.read("V", [Selection(2, (1, 0, 2), out)])
        assert out.tobytes() == bits(1002)[1:3, :, 2:6].tobytes()


def test_a_child_that_dies_is_one_sentence(path):
    with BPReader(path, isolated=True) as reader:
        reader._engine._child.kill()
        with pytest.raises(OutputError, match=r"ADIOS2 crashed while reading it \(signal SIGKILL\)"):
            reader.read("U", [Selection(0, (0, 0, 0), np.empty(SHAPE))])


def test_an_array_that_the_files_cannot_hold_is_refused(path, monkeypatch):
    """A damaged shape would ask for memory that no machine has; without checksums nothing else tells."""
    monkeypatch.setattr("ridgeline.io.bp_reader._MOST_COMPRESSED", 1e-3)
    assert read(path, "U", 0).shape == SHAPE
    (path / "ridgeline.sums").unlink()
    with pytest.raises(OutputError, match=r"U has the shape \[5, 3, 7\], but all data files together hold"):
        BPReader(path)


@pytest.fixture
def zarr_path(tmp_path, monkeypatch) -> Path:
    """A Zarr data set of four output steps with a file for each array at each step."""
    monkeypatch.setattr(zarr_layout, "REPLACED", 0)
    with writer(tmp_path / "toy.zarr", {"seed": 7}) as out:
        put(out, 0, 1, 2, 3)
    return tmp_path / "toy.zarr"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw.replace(b"metadata", b"metadatA", 1), "is not as it was written from output step 0"),
        (lambda raw: b"R" + raw[1:], "does not begin with 'ridgeline sums 1'"),
        (lambda raw: b"\n".join(raw.split(b"\n")[:3]) + b"\n", "is cut off from output step 2"),
        (lambda raw: b"\n".join(raw.split(b"\n")[:2] + raw.split(b"\n")[3:]), "from output step 1 on"),
    ],
    ids=["bit", "header", "cut", "a line left out"],
)
def test_damaged_checksums_of_zarr_are_named(zarr_path, change, words):
    sums = zarr_path / "ridgeline.sums"
    sums.write_bytes(change(sums.read_bytes()))
    with pytest.raises(OutputError, match=rf"ridgeline\.sums {words}|ridgeline\.sums is not .* {words}"):
        ridgeline.open(zarr_path)
    assert "ridgeline.sums" in check_data_set(zarr_path).damages[0]
    if "step 2" in words:
        with ridgeline.open(zarr_path, steps=2) as data:
            np.testing.assert_array_equal(data.V.values, [bits(1000), bits(1001)])


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_damaged_value_of_zarr_is_found_at_its_step(zarr_path, number):
    (file,) = (file for file in (zarr_path / "U" / "c" / str(number)).rglob("*") if file.is_file())
    zero(file, 8, 1 + 8 * SHAPE[2])
    (damage,) = check_data_set(zarr_path).damages
    assert damage.startswith(f"U is not as it was written at output step {number} (time step {10 * number})")


def test_a_lost_file_of_zarr_is_named_and_never_read_as_zeros(zarr_path):
    shutil.rmtree(zarr_path / "V" / "c" / "2")
    assert check_data_set(zarr_path).damages == ("V/c/2/0/0/0 is missing from output step 2 on",)
    with ridgeline.open(zarr_path) as data:
        np.testing.assert_array_equal(data.V.isel(step=1).values, bits(1001))
        with pytest.raises(OutputError, match=r"V/c/2/0/0/0 is missing \(output step 2 of 4\)"):
            data.V.load()
    with pytest.raises(
        OutputError, match=r"2 complete output steps \(V/c/2/0/0/0 is missing\), but .* written 3"
    ):
        writer(zarr_path, keep_steps=3)
    with writer(zarr_path, keep_steps=2) as out:
        put(out, 2, 3)
    assert_steps(zarr_path, 0, 1, 2, 3)
    assert not check_data_set(zarr_path).damages


@pytest.mark.parametrize("word", [b'"seed": 7', b'"shape"', b'"consolidated_metadata"'])
def test_damaged_metadata_of_zarr_are_named(zarr_path, word):
    file = zarr_path / "zarr.json"
    content = file.read_bytes()
    file.write_bytes(content.replace(word, word[:-1] + b"8" if word.endswith(b"7") else word.upper(), 1))
    with pytest.raises(OutputError, match=r"damaged: zarr\.json is not as it was written"):
        ridgeline.open(zarr_path)
    assert "zarr.json" in check_data_set(zarr_path).damages[0]
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(OutputError, match=r"damaged: zarr\.json is not as it was written"):
        ridgeline.open(zarr_path)


def test_a_damaged_time_of_zarr_is_found_when_it_is_opened(zarr_path):
    zero(zarr_path / "time" / "c" / "0", 8 * 2, 8)
    with pytest.raises(
        OutputError, match=r"time is not as it was written from output step 2 on\. .*steps=2\)"
    ):
        ridgeline.open(zarr_path)
    with ridgeline.open(zarr_path, steps=2) as data:
        assert data.time.values.tolist() == [0.0, 0.5]


def test_zarr_of_another_program_is_left_to_xarray(tmp_path):
    xr.Dataset({"a": ("x", [1.0, 2.0])}).to_zarr(tmp_path / "other.zarr")
    with pytest.raises(OutputError, match=r"not written by Ridgeline\. Open them with xarray\.open_zarr"):
        ridgeline.open(tmp_path / "other.zarr")
    with pytest.raises(OutputError, match="did not write it"):
        writer(tmp_path / "other.zarr")
