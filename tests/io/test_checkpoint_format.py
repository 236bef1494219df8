"""Chunks, tables and manifests: exact round trips, and no damage goes unseen."""

import dataclasses
import math
from itertools import product

import numpy as np
import pytest

from ridgeline.io.checkpoint_format import (
    Chunk,
    DamagedError,
    DataFile,
    Manifest,
    bounding_boxes,
    compress,
    decode_table,
    decompress,
    differences,
    encode_table,
    intersect,
    is_leftover,
    normalized,
    split_box,
    step_of,
)
from ridgeline.runtime.errors import CheckpointError

MANIFEST = Manifest(
    sequence=3,
    step=700,
    time=0.1 + 0.2,
    written="2026-01-01T00:00:00+00:00",
    ranks=8,
    identity={"model": "toy", "grid": {"shape": [5, 6, 7]}, "Du": 0.2},
    settings={"run.steps": 1000, "name": "Grüße"},
    state={"outputs": 7, "dt": 1e-300, "unknown": None},
    fields={"U": ("<f8", (5, 6, 7)), "s": ("<c16", ())},
    files=[
        DataFile(
            "data_0000.bin", 1234, 1200, "0123456789abcdef", {"U": ((0, 0, 0), (5, 6, 7)), "s": ((), ())}
        )
    ],
)


def test_cut_tiles_the_block_in_pieces_under_the_limit():
    shapes = [(7, 5, 3), (1, 1, 40), (3, 1, 1), (2, 3, 2, 5), (9,), (), (4, 0, 2)]
    for shape, limit in product(shapes, [1, 8, 50, 130, 10**6]):
        case = f"{shape=}, {limit=}"
        seen = np.zeros(shape, int)
        pieces = list(split_box(shape, 8, limit))
        for offset, size in pieces:
            assert len(offset) == len(size) == len(shape), case
            assert math.prod(size) * 8 <= max(limit, 8), case
            seen[tuple(slice(o, o + n) for o, n in zip(offset, size))] += 1
        assert (seen == 1).all(), case
        if limit == 10**6:
            assert len(pieces) == (0 not in shape), case


def test_cut_splits_a_plane_of_several_gigabytes():
    pieces = list(split_box((2, 30000, 30000), 8, 1 << 28))
    assert max(math.prod(size) for _, size in pieces) * 8 <= 1 << 28
    assert sum(math.prod(size) for _, size in pieces) == 2 * 30000**2


def test_compressed_cells_come_back_bit_for_bit():
    dtypes = ["float32", "float64", "complex128", "int16", "uint8"]
    for dtype, kind in product(dtypes, ["noise", "constant"]):
        case = f"{dtype=}, {kind=}"
        random = np.random.default_rng(1)
        whole = np.zeros((6, 9, 11), dtype)
        if kind == "noise":
            whole.view(np.uint8)[...] = random.integers(0, 256, whole.view(np.uint8).shape, np.uint8)
        box = whole[1:5, 2:8, 1:10]  # strided
        codec, payload = compress(box, np.empty(box.nbytes, np.uint8))
        assert codec == ("none" if kind == "noise" else "lz4"), case
        assert len(payload) <= box.nbytes, case
        target = np.ones_like(whole)
        part = (slice(1, 3), slice(0, 6), slice(4, 9))
        decompress(codec, payload, box.shape, part, target[2:4, 3:9, 5:10])
        assert target[2:4, 3:9, 5:10].tobytes() == box[part].tobytes(), case
        target[2:4, 3:9, 5:10] = 1
        assert (target == 1).all(), case


def check_short_payload(codec):
    target = np.zeros(100)
    _, payload = compress(np.arange(100.0), np.empty(800, np.uint8))
    with pytest.raises(DamagedError):
        decompress(codec, payload[:-3], (100,), (slice(None),), target)


def test_payload_of_another_length_is_damage():
    check_short_payload("lz4")
    check_short_payload("none")


def test_boxes():
    assert intersect((0, 5), (3, 4), (2, 0), (9, 6)) == (slice(2, 3), slice(5, 6))
    assert intersect((0, 5), (3, 4), (3, 0), (9, 6)) is None
    assert intersect((), (), (), ()) == ()
    chunks = [
        Chunk("U", (2, 3), (1, 2), 16, 10, "lz4", "00"),
        Chunk("V", (0,), (4,), 26, 10, "none", "01"),
        Chunk("U", (1, 4), (1, 5), 36, 10, "lz4", "02"),
    ]
    assert bounding_boxes(chunks) == {"U": ((1, 3), (2, 6)), "V": ((0,), (4,))}
    assert decode_table(encode_table(chunks)) == chunks


def test_manifest_comes_back():
    assert Manifest.decode(MANIFEST.encode()) == MANIFEST


def test_every_bit_of_a_manifest_counts():
    data = MANIFEST.encode()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(DamagedError):
            Manifest.decode(bytes(damaged))
    for size in range(0, len(data), 7):
        with pytest.raises(DamagedError):
            Manifest.decode(data[:size])
    for other in (b"[]", b"3", b"\xff\xfe", data + b"\n", b" " + data):
        with pytest.raises(DamagedError):
            Manifest.decode(other)


def test_newer_format_is_not_damage(monkeypatch):
    monkeypatch.setattr("ridgeline.io.checkpoint_format.FORMAT", 2)
    data = MANIFEST.encode()
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="format 2") as caught:
        Manifest.decode(data)
    assert not isinstance(caught.value, DamagedError)


def test_manifest_of_an_exascale_run_is_small():
    """4,096 nodes of 8 ranks, a file per node."""
    files = [
        DataFile(
            f"data_{i:04d}.bin", 10**11, 10**11, "0" * 16, dict.fromkeys("UV", ((i, 0, 0), (1, 9999, 9999)))
        )
        for i in range(4096)
    ]
    assert len(dataclasses.replace(MANIFEST, files=files).encode()) < 4e6


def test_settings_and_state_hold_numpy_scalars_but_no_objects():
    plain = normalized({"a": np.float32(0.5), "b": (1, np.int64(2)), "c": np.arange(3)})
    assert plain == {"a": 0.5, "b": [1, 2], "c": [0, 1, 2]}
    with pytest.raises(TypeError, match="plain data, not object"):
        normalized({"a": object()})


def test_differences_name_key_and_both_values():
    saved = {"model": "toy", "grid": {"shape": [1, 2], "boundary": "fixed"}, "old": 1, "none": None}
    run = {"model": "toy", "grid": {"shape": [1, 3], "boundary": "fixed"}, "new": None, "none": None}
    assert differences(saved, saved) == []
    assert differences(saved, run) == [
        "grid.shape: the checkpoint has [1, 2], the run has [1, 3]",
        "old: the checkpoint has 1, the run has nothing",
        "new: the checkpoint has nothing, the run has None",
    ]


def test_names(tmp_path):
    assert step_of(tmp_path / "checkpoint_00000700") == 700
    assert step_of(tmp_path / "checkpoint_00000700_2") == 700
    assert step_of(tmp_path / "checkpoint_1234567890") == 1234567890
    assert step_of(tmp_path / "checkpoint_00000700.partial") is None


def test_a_leftover_has_the_name_and_the_files_of_a_checkpoint(tmp_path):
    names = (
        "checkpoint_00000700_2.partial",
        "checkpoint_00000700.removed",
        "precious.partial",
        "checkpoint_00000700",
    )
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "data_0000.bin").touch()
    assert [name for name in names if is_leftover(tmp_path / name)] == [*names[:2]]
    (tmp_path / names[0] / "notes.txt").touch()
    assert not is_leftover(tmp_path / names[0])
