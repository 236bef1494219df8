"""Checkpoints with damages placed at random: none is accepted with other values."""

import shutil

import numpy as np
import pytest
from mpi4py import MPI

from attack_cases import CASES
from ridgeline.io.checkpoint import load, read_manifest
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.errors import CheckpointError

KINDS = ("bit", "zeros", "cut", "grow", "swap", "delete", "of another step")


def damage(file, other, kind, random):
    """Damage a file; other: the same file of another checkpoint."""
    content = bytearray(file.read_bytes())
    size = len(content)
    start, length = int(random.integers(size)), int(random.integers(1, 65))
    if kind == "delete":
        file.unlink()
        return
    if kind == "bit":
        content[start] ^= 1 << int(random.integers(8))
    elif kind == "zeros":
        content[start : start + length] = bytes(len(content[start : start + length]))
    elif kind == "cut":
        del content[start:]
    elif kind == "grow":
        content[start:start] = random.bytes(length)
    elif kind == "swap":
        content = content[start:] + content[:start]
    else:
        content = bytearray(other.read_bytes())
    file.write_bytes(content)


def read(path, identity):
    """Return the fields of a checkpoint, or None if it is refused in words."""
    fields = {}
    for name, (dtype, shape) in identity.fields.items():
        fields[name] = DistributedArray(name, shape, (0,) * len(shape), np.zeros(shape, dtype))
    try:
        load(MPI.COMM_SELF, path, fields, identity.identity)
    except CheckpointError:
        return None
    return {name: array.local.tobytes() for name, array in fields.items()}


def attack(ridgeline, model, damages, seed):
    case = ridgeline.path / "case.toml"
    case.write_text(CASES[model][0].replace("steps = 60", "steps = 10"))
    done = ridgeline("run", case, "-n", 2, "--set", "checkpoint.ranks_per_file=1", timeout=300)
    assert done.returncode == 0, done.stderr
    before, whole = sorted((ridgeline.path / "checkpoints").glob("checkpoint_*"))
    manifest = read_manifest(whole)
    good = read(whole, manifest)
    assert good is not None
    random = np.random.default_rng(seed)
    names = sorted(file.name for file in whole.iterdir())
    assert len(names) == 3
    refused = 0
    for number in range(damages):
        name, kind = names[number % len(names)], KINDS[number % len(KINDS)]
        work = ridgeline.path / "work" / whole.name
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(whole, work)
        damage(work / name, before / name, kind, random)
        found = read(work, manifest)
        assert found is None or found == good, f"damage {number}, {kind} in {name}, was accepted"
        refused += found is None
    assert refused > 0.9 * damages


@pytest.mark.full
@pytest.mark.parametrize("model", ["gray_scott"])
def test_no_damaged_checkpoint_is_accepted(ridgeline, model):
    attack(ridgeline, model, damages=60, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("model", CASES)
def test_no_damaged_checkpoint_of_any_model_is_accepted(ridgeline, model):
    attack(ridgeline, model, damages=150, seed=4)
