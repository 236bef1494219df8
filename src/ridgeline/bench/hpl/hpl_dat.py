"""HPL.dat, the input file of the official HPL 2.3: lists of sizes, grids and variants, run in every combination.

A line holds values first; what follows them is comment. After two lines of comment come the name of the output file
and the device, then pairs of a count and a list. Source: HPL 2.3, testing/ptest (HPL.dat, HPL_pdinfo).

`make_plan` returns the tests of a run, from such a file or from options, with notes on variants that run differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import NoReturn, TypeVar

from mpi4py import MPI

from ridgeline.bench.hpl.hpl_options import HplOptions
from ridgeline.bench.hpl.record import BROADCASTS, HplSettings
from ridgeline.bench.hpl.sizes import (
    FreeMemory,
    choose_sizes,
    free_memory,
    hpl_block,
    hpl_bytes,
    hpl_device_parts,
    require_fit,
)
from ridgeline.parallel.allreduce import broadcast_decision
from ridgeline.runtime.errors import ConfigError, DecompositionError
from ridgeline.runtime.files import output_errors, read_regular

NAME = "HPL.dat"
MOST_VALUES = 20  # longest list, as in the official code
Number = TypeVar("Number", int, float)
MOST_BROADCAST = 7  # BCAST 6 and 7 exist in vendors' versions alone; HPL 2.3 runs 1 (1ringM) for them
_STDOUT, _STDERR = 6, 7
_WITHOUT_EFFECT = (
    "SWAP, its threshold, the forms of L1 and U, equilibration and alignment have no effect here."
)
FACTORS = "LCR"  # 0 left-looking, 1 Crout, 2 right-looking


@dataclass(frozen=True)
class HplTest:
    """One combination: order, block, process grid, and the variant that its code T/V names."""

    n: int
    nb: int
    p: int
    q: int
    row_major: bool = True
    depth: int = 1
    broadcast: int = 1
    recursive_factor: int = 2
    divisions: int = 2
    panel_factor: int = 0
    least_columns: int = 8

    @property
    def code(self) -> str:
        """Return T/V as the official code prints it, such as WR11C2R4."""
        mapping = "R" if self.row_major else "C"
        recursion = f"{FACTORS[self.recursive_factor]}{self.divisions}"
        return f"W{mapping}{self.depth}{self.broadcast}{recursion}{FACTORS[self.panel_factor]}{self.least_columns}"


@dataclass(frozen=True)
class HplDat:
    """What the file says. Lists are in the file's order; grids are pairs (P, Q).

    device: 6 standard output, 7 standard error, another number the file `output`; threshold: of the scaled residual,
    0 or less for no check. equilibrate and the forms of L1 and U choose between implementations of one result.
    """

    output: str
    device: int
    sizes: tuple[int, ...]
    blocks: tuple[int, ...]
    row_major: bool
    grids: tuple[tuple[int, int], ...]
    threshold: float
    panel_factors: tuple[int, ...]
    least_columns: tuple[int, ...]
    divisions: tuple[int, ...]
    recursive_factors: tuple[int, ...]
    broadcasts: tuple[int, ...]
    depths: tuple[int, ...]
    swap: int
    swap_threshold: int
    plain_lower: bool
    plain_upper: bool
    equilibrate: bool
    alignment: int

    def tests(self) -> Iterator[HplTest]:
        """Yield every combination in the order of the official code."""
        for (p, q), n, nb, depth, broadcast, recursive, panel, least, divisions in product(
            self.grids,
            self.sizes,
            self.blocks,
            self.depths,
            self.broadcasts,
            self.recursive_factors,
            self.panel_factors,
            self.least_columns,
            self.divisions,
        ):
            yield HplTest(n, nb, p, q, self.row_major, depth, broadcast, recursive, divisions, panel, least)


def read_hpl_dat(path: str | Path) -> HplDat:
    """Read the file; no communication.

    Raises OutputError if it cannot be read, ConfigError that names the line and what it must hold.
    """
    with output_errors(f"read {path}", f"give --dat a file in the format of HPL's {NAME}"):
        lines = read_regular(path).decode(errors="replace").splitlines()
    file = _DatLines(path, lines)
    output = file.words("the name of the output file", 1)[0]
    device = file.whole("the device (6, 7 or another number)")
    sizes = file.numbers("N", 0)
    blocks = file.numbers("NB", 1)
    row_major = file.whole("the process mapping (0 or 1)") != 1
    count = file.count("process grids")
    rows, columns = file.listed("P", count, 1), file.listed("Q", count, 1)
    return HplDat(
        output,
        device,
        sizes,
        blocks,
        row_major,
        tuple(zip(rows, columns)),
        file.real("the threshold of the residual"),
        panel_factors=file.numbers("PFACT", 0, 2),
        least_columns=file.numbers("NBMIN", 1),
        divisions=file.numbers("NDIV", 2),
        recursive_factors=file.numbers("RFACT", 0, 2),
        broadcasts=file.numbers("BCAST", 0, MOST_BROADCAST),
        depths=file.numbers("DEPTH", 0),
        swap=file.whole("the swapping algorithm (0, 1 or 2)"),
        swap_threshold=file.whole("the swapping threshold"),
        plain_lower=file.whole("the form of L1 (0 or 1)") == 1,
        plain_upper=file.whole("the form of U (0 or 1)") == 1,
        equilibrate=file.whole("equilibration (0 or 1)") != 0,
        alignment=file.whole("the memory alignment in doubles"),
    )


class _DatLines:
    """The lines of the file after the two of comment, read one after the other."""

    def __init__(self, path: str | Path, lines: list[str]) -> None:
        self._path, self._lines = path, lines
        self._number = 2  # of the line read last, counted from 1

    def words(self, what: str, least: int) -> list[str]:
        """Return the words of the next line. Raises ConfigError if they are fewer than `least`."""
        self._number += 1
        if self._number > len(self._lines):
            self._refuse(f"expected {what}, but the file ends before it.")
        words = self._lines[self._number - 1].split()
        if len(words) < least:
            self._refuse(f"expected {what}, but found {len(words)} value{'s' * (len(words) != 1)}.")
        return words

    def whole(self, what: str) -> int:
        """Return the whole number that the next line begins with."""
        return self._as(int, self.words(what, 1)[0], what)

    def real(self, what: str) -> float:
        """Return the number that the next line begins with."""
        value = self._as(float, self.words(what, 1)[0], what)
        if not math.isfinite(value):
            self._refuse(f"expected {what}, a finite number, but found {value}.")
        return value

    def count(self, what: str) -> int:
        """Return how many values the list on the next line has."""
        name = f"the number of {what}"
        count = self.whole(name)
        if not 1 <= count <= MOST_VALUES:
            self._refuse(f"{name} is {count}, but it must be 1 to {MOST_VALUES}.")
        return count

    def numbers(self, what: str, minimum: int, maximum: int | None = None) -> tuple[int, ...]:
        """Return a list: a line with its count, a line with its values."""
        return self.listed(what, self.count(f"values of {what}"), minimum, maximum)

    def listed(self, what: str, count: int, minimum: int, maximum: int | None = None) -> tuple[int, ...]:
        """Return the first `count` values of the next line."""
        name = f"a list of {count} value{'s' * (count != 1)} of {what}"
        values = tuple(self._as(int, word, name) for word in self.words(name, count)[:count])
        for value in values:
            if value < minimum or (maximum is not None and value > maximum):
                allowed = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"
                self._refuse(f"{what} is {value}, but it must be {allowed}.")
        return values

    def _as(self, kind: Callable[[str], Number], word: str, what: str) -> Number:
        try:
            return kind(word)
        except ValueError:
            self._refuse(f"expected {what}, but found {word[:40]!r}.")

    def _refuse(self, words: str) -> NoReturn:
        raise ConfigError(f"{self._path}:{self._number}: {words}") from None


@dataclass(frozen=True)
class HplPlan:
    """The tests in their order, the threshold of the residual, the file for the lines, and notes for the reader.

    output: a file for the lines, None for standard output; try_broadcasts: whether to choose the broadcast by a
    trial.
    """

    tests: tuple[HplTest, ...]
    threshold: float
    notes: tuple[str, ...] = ()
    output: str | None = None
    try_broadcasts: bool = False

    def settings(self, test: HplTest, options: HplOptions) -> HplSettings:
        """Return the settings of a run for one test."""
        return HplSettings(
            n=test.n,
            nb=test.nb,
            p=test.p,
            q=test.q,
            threads=options.threads,
            order="row" if test.row_major else "column",
            broadcast=None if self.try_broadcasts else BROADCASTS[test.broadcast],
            nbmin=test.least_columns,
            ndiv=test.divisions,
            threshold=self.threshold,
            seed=options.seed,
            device=options.device,
        )


def make_plan(comm: MPI.Comm, options: HplOptions) -> HplPlan:
    """Return the tests of a run. Collective over comm, the same on all ranks.

    Raises
    ------
    ConfigError : for a damaged file or sizes that do not fit
    OutputError : for a file that cannot be read
    DecompositionError : for a grid that does not have the ranks of comm
    DeviceError : if a rank has no GPU
    """
    memory = free_memory(
        comm, options.device, hpl_bytes, lambda n, nb, p, q: int(sum(hpl_device_parts(n, nb, p, q).values()))
    )
    if options.dat is not None:
        path = options.dat
        dat = broadcast_decision(comm, lambda: read_hpl_dat(path))
        return plan_of(comm, dat, path, memory)
    sizes = choose_sizes(comm, options, memory, hpl_block)
    try_broadcasts = options.broadcast == "fastest"  # the result says which broadcast it is
    test = HplTest(
        sizes.n,
        sizes.nb,
        sizes.p,
        sizes.q,
        row_major=options.numbering == "row",
        broadcast=0 if try_broadcasts else BROADCASTS.index(options.broadcast),
        divisions=options.ndiv,
        least_columns=options.nbmin,
    )
    return HplPlan((test,), options.threshold, sizes.notes, try_broadcasts=try_broadcasts)


def plan_of(comm: MPI.Comm, dat: HplDat, path: str, memory: FreeMemory) -> HplPlan:
    """Return the tests of a file as they run here. No communication.

    Raises DecompositionError if a grid has more processes than there are ranks, and ConfigError for a test that does
    not fit into memory.
    """
    for p, q in dat.grids:
        if p * q > comm.size:
            raise DecompositionError(
                f"{path}: a {p} x {q} grid requires {p * q} ranks, but there "
                f"{'is 1' if comm.size == 1 else f'are {comm.size}'}. Start them with -n {p * q}."
            )
    tests = tuple(replace_unsupported(test) for test in dat.tests())
    for test in tests:
        require_fit(test.n, test.nb, (test.p, test.q), memory)
    notes = [f"The tests are those of {path}."]
    for values, offered, name, instead in (
        (dat.depths, (1,), "DEPTH", "1"),
        (dat.recursive_factors, (2,), "RFACT", "2 (right-looking)"),
        (dat.panel_factors, (0,), "PFACT", "0 (left-looking)"),
        (dat.broadcasts, range(len(BROADCASTS)), "BCAST", "1 (1ringM)"),
    ):
        others = [value for value in dict.fromkeys(values) if value not in offered]
        if others:
            notes.append(
                f"{name} {', '.join(map(str, others))} is not available, and runs as {instead} instead."
            )
    notes.append(_WITHOUT_EFFECT)
    output = None if dat.device in (_STDOUT, _STDERR) else dat.output
    return HplPlan(tests, dat.threshold, tuple(notes), output)


def replace_unsupported(test: HplTest) -> HplTest:
    """Return a test as it runs here: look-ahead 1, right-looking recursion, left-looking columns.

    A broadcast that HPL 2.3 does not know runs as 1ringM, as it does in HPL 2.3.
    """
    broadcast = test.broadcast if test.broadcast < len(BROADCASTS) else BROADCASTS.index("1ringM")
    return replace(test, depth=1, recursive_factor=2, panel_factor=0, broadcast=broadcast)
