"""The output of HPL 2.3: its table of results, its check of residuals and its last block, for scripts that read them.

Source: the formats of HPL 2.3, testing/ptest (HPL_pdinfo, HPL_pdtest, HPL_pddriver).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ridgeline.bench.hpl.hpl_dat import HplTest
from ridgeline.bench.hpl.hpl_options import HplOptions
from ridgeline.bench.hpl.record import THRESHOLD, HplNorms
from ridgeline.bench.result import Result
from ridgeline.io.output_files import GENERATOR, write_text

_WIDTH = 80
_DOUBLE, _SINGLE = "=" * _WIDTH, "-" * _WIDTH
_BROADCASTS = ("1ring", "1ringM", "2ring", "2ringM", "Blong", "BlongM")
_FACTORS = ("Left", "Crout", "Right")
_CHECK = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)="


@dataclass(frozen=True)
class HplOutcome:
    """The outcome of a test.

    test: as it ran; seconds, flops_per_second: of the solve; norms: of the official test; threshold: of the scaled
    residual, 0 or less for no check; skipped: why the test did not run, nothing if it did.
    """

    test: HplTest
    seconds: float = 0.0
    flops_per_second: float = 0.0
    norms: HplNorms | None = None
    threshold: float = THRESHOLD
    started: datetime | None = None
    ended: datetime | None = None
    skipped: str = ""

    @property
    def residual(self) -> float:
        """The scaled residual, NaN without norms."""
        return math.nan if self.norms is None else self.norms.scaled_residual(self.test.n)

    @property
    def checked(self) -> bool:
        """Whether the residual is looked at."""
        return self.threshold > 0

    @property
    def passed(self) -> bool:
        """Whether the residual is below the threshold, which a NaN is not, or is not checked."""
        return not self.checked or self.residual < self.threshold


def head_lines(tests: Sequence[HplTest], notes: Iterable[str] = ()) -> list[str]:
    """Return the lines before all results: the parameters as the official code lists them, and notes."""

    def values(label: str, parameters: Iterable[object]) -> str:
        words = [f"{value!s:>8}" for value in dict.fromkeys(parameters)]
        lines = [" ".join(words[at : at + 8]) for at in range(0, len(words), 8)]
        return f"{label:<7}:{f'{chr(10)}        '.join(lines)}"

    return [
        _DOUBLE,
        f"HPLinpack 2.3  --  the lines of High-Performance Linpack, written by {GENERATOR}",
        _DOUBLE,
        "",
        "The following parameter values will be used:",
        "",
        values("N", (test.n for test in tests)),
        values("NB", (test.nb for test in tests)),
        values("PMAP", ("Row-major" if test.row_major else "Column-major" for test in tests)),
        values("P", (test.p for test in tests)),
        values("Q", (test.q for test in tests)),
        values("PFACT", (_FACTORS[test.panel_factor] for test in tests)),
        values("NBMIN", (test.least_columns for test in tests)),
        values("NDIV", (test.divisions for test in tests)),
        values("RFACT", (_FACTORS[test.recursive_factor] for test in tests)),
        values("BCAST", (_BROADCASTS[test.broadcast] for test in tests)),
        values("DEPTH", (test.depth for test in tests)),
        *(f"- {note}" for note in notes),
        "",
        _SINGLE,
        "",
    ]


def test_lines(outcome: HplOutcome) -> list[str]:
    """Return the lines of one test: result, times of day, check."""
    test = outcome.test
    lines = [
        _DOUBLE,
        "T/V                N    NB     P     Q               Time                 Gflops",
        _SINGLE,
    ]
    if outcome.skipped:
        return [*lines, f"HPL WARNING from process 0: {test.code} N = {test.n}: {outcome.skipped}. Skip."]
    lines += [
        f"{test.code}{test.n:12d} {test.nb:5d} {test.p:5d} {test.q:5d} {outcome.seconds:18.2f}    "
        f"{outcome.flops_per_second / 1e9:19.4e}"
    ]
    for label, moment in (("start time", outcome.started), ("end time  ", outcome.ended)):
        if moment is not None:
            lines += [f"HPL_pdgesv() {label} {moment.ctime()}", ""]
    if outcome.checked:
        verdict = "PASSED" if outcome.passed else "FAILED"
        lines += [_SINGLE, f"{_CHECK} {outcome.residual:16.8e} ...... {verdict}"]
        if not outcome.passed and outcome.norms is not None:
            norms = outcome.norms
            named = {
                "||Ax-b||_oo": norms.residual,
                "||A||_oo": norms.a,
                "||A||_1": norms.a_one,
                "||x||_oo": norms.x,
                "||x||_1": norms.x_one,
                "||b||_oo": norms.b,
            }
            # Dots stand in every other column, whether a name has an odd or an even number of letters.
            for name, value in named.items():
                padded = name + " " * (len(name) % 2)
                lines.append(f"{padded}{' .' * ((46 - len(padded)) // 2)} = {value:18.6f}")
    return lines


def end_lines(outcomes: Sequence[HplOutcome]) -> list[str]:
    """Return the last block: how many tests ran, passed, failed and were skipped."""
    skipped = sum(1 for outcome in outcomes if outcome.skipped)
    failed = sum(1 for outcome in outcomes if not outcome.skipped and not outcome.passed)
    passed = len(outcomes) - skipped - failed
    counts = [(passed, "tests completed without checking,")]
    if any(outcome.checked for outcome in outcomes):
        counts = [
            (passed, "tests completed and passed residual checks,"),
            (failed, "tests completed and failed residual checks,"),
        ]
    counts.append((skipped, "tests skipped because of illegal input values."))
    return [
        _DOUBLE,
        "",
        f"Finished {len(outcomes):6d} tests with the following results:",
        *(f"         {count:6d} {words}" for count, words in counts),
        _SINGLE,
        "",
        "End of Tests.",
        _DOUBLE,
    ]


def output_lines(outcomes: Sequence[HplOutcome], notes: Iterable[str] = ()) -> list[str]:
    """Return the whole output for tests that have run, as the official code prints it. No communication."""
    lines = head_lines([outcome.test for outcome in outcomes], notes)
    for outcome in outcomes:
        lines += test_lines(outcome)
    return lines + end_lines(outcomes)


def write_lines(result: Result, options: HplOptions) -> list[str]:
    """Return the lines to print. Where HPL.dat names a file for them, write it and return its name. On rank 0."""
    lines: list[str] = result.extra["lines"]
    path = result.extra["output"]
    if path is None:
        return lines
    write_text(path, "\n".join([*lines, ""]), "output file of HPL.dat")
    return [f"HPL's output: {path}"]
