"""Figures as people read them: prefixes for symbols, words for what is counted."""

import math

from ridgeline.runtime.units import number, scale_of

FIGURES = [
    (2.31e10, "B/s", "23.1 GB/s"),
    (4e18, "B/s", "4 EB/s"),
    (3.2e-6, "s", "3.2 us"),
    (3e-10, "s", "0.3 ns"),
    (120.0, "s", "120 s"),
    (2.5e9, "FLOP/s", "2.5 GFLOP/s"),
    (1.048e10, "operations/s", "10.48 billion operations/s"),
    (2.5e6, "messages/s", "2.5 million messages/s"),
    (1.048e10, "1/s", "10.48 billion per second"),
    (12.0, "1/s", "12 per second"),
    (0.0, "operations/s", "0 operations/s"),
    (0.0, "1/s", "0 per second"),
    (0.0, "s", "0 s"),
    (0.0, "B/s", "0 B/s"),
    (0.995, "1", "0.995"),
    (1536.0, "B", "1.536 kB"),
    (2.5e9, "B/s", "2.5 GB/s"),
    (0.0125, "s", "12.5 ms"),
    (3e-6, "s", "3 us"),
    (2.0, "s", "2 s"),
    (2.91e12, "points/s", "2.91e+12 points/s"),
    (0.302, "", "0.302"),
    (0, "B", "0 B"),
    (999, "B", "999 B"),
    (1000, "B", "1 kB"),
    (2.5e15, "B", "2.5 PB"),
    (1e22, "B", "1e+04 EB"),
    (0.995, "", "0.995"),
]


def test_figures():
    for value, unit, text in FIGURES:
        assert number(value, unit) == text, f"{value} {unit}"


def test_no_figure_has_no_prefix():
    assert number(math.nan, "B/s") == "nan B/s"
    assert scale_of(math.inf, "s") == (1.0, "s")
