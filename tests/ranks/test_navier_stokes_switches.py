"""Switches that the duct paper's studies compare with: exchanges without overlap, and plain matrix products."""

from dataclasses import replace

import numpy as np
import pytest

from navier_stokes_flows import TIGHT, advance, begin
from navier_stokes_tools import EVERYTHING

RANKS = (1, 2, 3)
QUICK_RANKS = ()  # compiles a second set of kernels
TIMEOUT = 300


@pytest.mark.parametrize("name", ["channel", "duct"])  # curved elements and boxes
def test_switches_of_the_papers_studies_change_rounding_at_most(comm, name):
    whole, problem = EVERYTHING[name](**TIGHT)
    usual, waiting, plain = (
        begin(comm, whole, replace(problem, **switch))
        for switch in ({}, {"overlap": False}, {"products": "plain"})
    )
    for engine in (usual, waiting, plain):
        advance(engine, 3)
    np.testing.assert_array_equal(waiting.fields, usual.fields)
    np.testing.assert_array_equal(waiting.p, usual.p)
    np.testing.assert_allclose(plain.fields, usual.fields, rtol=0, atol=1e-11)
    np.testing.assert_allclose(plain.p, usual.p, rtol=0, atol=1e-9)
    assert (plain.fields != usual.fields).any()  # no fused multiply-add
