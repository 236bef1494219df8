"""Graph500's edge list: hashes of what the specification's reference generator makes, on any number of ranks."""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.bench.graph500.generator import generate, seed_state

# SHA-256 of what the reference implementation, compiled, writes for seeds 2 and 3: pairs of int64, then float32.
REFERENCE = {
    1: (
        "8c8d1e6f46857b315eb7de8307c88801afa636e348e82c65e09ebffa3fc8260d",
        "63ec102beb9e0f90a16c4eb6e14729eba7a40455c8bed4a0af7fc78177817247",
    ),
    5: (
        "31327463fce229722d4c4eec1e957ca0b698810de1e8aaded365aab3197d3260",
        "a202ef2dd137a2134608e79af241fd83342d048f39b397093a5e6c31886c8b6b",
    ),
    10: (
        "959f7be6382c69afe8fbc4f78b0d1d86569a38ab429e02d9c26b968ede6255ec",
        "199971e6332f459fe9980a9824b2961e9ec6c724118e24549a1c3880d28616b4",
    ),
    16: (
        "60fdcae512298fef2cc2206e5c0816e769ad50378576cdfb2b1ec0df63acffe7",
        "a81bf9d9ef5300b830ae7c7b801560cee4f3ec71840717bd28fd67b14756f0a0",
    ),
}


def sha256(values):
    return hashlib.sha256(values.tobytes()).hexdigest()


@pytest.mark.parametrize("scale", REFERENCE)
def test_the_list_is_that_of_the_reference_generator(scale):
    edges = generate(MPI.COMM_SELF, scale)
    pairs = np.stack([edges.start, edges.end], axis=1).astype("<i8")
    assert (sha256(pairs), sha256(edges.weight.astype("<f4"))) == REFERENCE[scale]


@pytest.mark.parametrize("ranks", [2, 3, 7, 500])
def test_every_rank_makes_its_share_of_the_same_list(ranks):
    whole = generate(MPI.COMM_SELF, 4, edge_factor=13)
    shares = [generate(SimpleNamespace(size=ranks, rank=rank), 4, edge_factor=13) for rank in range(ranks)]
    assert whole.total == 13 << 4 == sum(share.start.size for share in shares)
    for name in ("start", "end", "weight"):
        np.testing.assert_array_equal(
            np.concatenate([getattr(each, name) for each in shares]), getattr(whole, name)
        )
    assert [share.first for share in shares] == list(
        np.cumsum([0] + [share.start.size for share in shares])[:-1]
    )


def test_a_share_far_in_a_long_list_does_not_need_the_edges_before_it():
    ranks = 1 << 24
    last = generate(SimpleNamespace(size=ranks, rank=ranks - 1), 30)
    assert last.first == (16 << 30) - (16 << 30) // ranks
    both = generate(SimpleNamespace(size=ranks // 2, rank=ranks // 2 - 1), 30)
    np.testing.assert_array_equal(both.start[-last.start.size :], last.start)
    assert both.end.max() < 1 << 30


def test_edges_without_weights_are_the_same():
    bare, full = generate(MPI.COMM_SELF, 6, weights=False), generate(MPI.COMM_SELF, 6)
    assert bare.weight is None
    np.testing.assert_array_equal(bare.start, full.start)


def test_seeds_of_64_bits_fill_all_words():
    np.testing.assert_array_equal(seed_state(2, 3), [3, 1, 4, 1, 1])
    np.testing.assert_array_equal(seed_state(2**64 - 1, 2**64 - 1), [2**30] * 4 + [256])
