"""The lines of HPL 2.3, read back as common scripts read them."""

import re
from datetime import datetime

import pytest

from ridgeline.bench.hpl.hpl_dat import HplTest
from ridgeline.bench.hpl.hpl_output import HplOutcome, output_lines
from ridgeline.bench.hpl.record import EPSILON, HplNorms

TEST = HplTest(n=20000, nb=192, p=1, q=2, least_columns=4, recursive_factor=1, panel_factor=2)
# Spack's and ReFrame's way: fields of a line that begins with W; EasyBuild's and others': named groups.
FIELDS = re.compile(r"^W[RC]\S+\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+e[+-]\d+)$", re.MULTILINE)
CHECK = re.compile(r"^\|\|Ax-b\|\|_oo/\(eps.*\)\*N\)=\s*(\S+) \.+ (PASSED|FAILED)$", re.MULTILINE)
COUNT = re.compile(r"^\s+(\d+) tests (completed and passed|completed and failed|skipped)", re.MULTILINE)


def outcome(residual=3.0e-3, **changes):
    moment = datetime(2026, 11, 2, 3, 4, 5)
    scale = EPSILON * (5000.0 * 3.5 + 0.5) * TEST.n
    norms = HplNorms(residual * scale, 5000.0, 3.5, 0.5, 5001.0, 7000.0)
    return HplOutcome(TEST, 30.054, 1.7749e11, norms, started=moment, ended=moment, **changes)


def test_a_passed_test_reads_as_the_official_code_prints_it():
    text = "\n".join(output_lines([outcome()]))
    assert (
        "T/V                N    NB     P     Q               Time                 Gflops\n"
        + "-" * 80
        + "\nWR11C2R4       20000   192     1     2              30.05             1.7749e+02\n"
        + "HPL_pdgesv() start time Mon Nov  2 03:04:05 2026\n"
    ) in text
    assert (
        "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   3.00000000e-03 ...... PASSED\n" + "=" * 80
    ) in text
    assert "||x||_1" not in text
    assert FIELDS.findall(text) == [("20000", "192", "1", "2", "30.05", "1.7749e+02")]
    assert CHECK.findall(text) == [("3.00000000e-03", "PASSED")]
    assert re.findall(r"Finished +(\d+) tests", text) == ["1"]
    assert text.endswith("\nEnd of Tests.\n" + "=" * 80)
    assert "ridgeline-output/" in text  # what marks files as ours


@pytest.mark.parametrize("residual", [16.1, float("nan"), float("inf")])
def test_a_failed_test_says_so_with_its_norms(residual):
    text = "\n".join(output_lines([outcome(residual)]))
    assert [verdict for _, verdict in CHECK.findall(text)] == ["FAILED"]
    assert "||Ax-b||_oo  . . . . . . . . . . . . . . . . . = " in text
    assert "||x||_1  . . . . . . . . . . . . . . . . . . . =        7000.000000\n" in text
    assert [int(count) for count, _ in COUNT.findall(text)] == [0, 1, 0]


def test_counts_of_several_tests():
    skipped = HplOutcome(TEST, skipped="a grid of 2 x 2 needs 4 ranks, and there are 2")
    text = "\n".join(output_lines([outcome(), outcome(20.0), skipped, outcome(1.0)], ["depth 2 runs as 1"]))
    assert [int(count) for count, _ in COUNT.findall(text)] == [2, 1, 1]
    assert len(FIELDS.findall(text)) == 3
    assert "a grid of 2 x 2 needs 4 ranks" in text
    assert "- depth 2 runs as 1" in text


def test_without_a_check():
    text = "\n".join(output_lines([outcome(99.0, threshold=0.0)]))
    assert "     1 tests completed without checking,\n" in text
    assert not CHECK.search(text)


def test_the_list_of_parameters():
    tests = [HplTest(n, 64, 2, 3, row_major=False) for n in range(100, 1100, 100)]
    text = "\n".join(output_lines([HplOutcome(one, 1.0, 1e9) for one in tests]))
    assert "N      :     100      200      300      400      500      600      700      800\n" in text
    assert "\n             900     1000\n" in text
    assert "PMAP   :Column-major" in text
    assert text.count("WC11R2L8") == 10
