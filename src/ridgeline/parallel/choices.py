"""Several ways to compute one thing: which is fastest here, timed by all ranks together and kept for later runs.

What was timed is kept as JSON: by key, the way that is taken and the seconds of each. The file is replaced whole, so
that a run that reads while another writes sees the old or the new one. A damaged file, or a folder that cannot be
written, costs a remark and the time to measure anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.parallel.reduce import decide, global_max
from ridgeline.runtime.files import DAMAGED
from ridgeline.runtime.kept_files import read_kept_table, write_kept
from ridgeline.runtime.units import number

if TYPE_CHECKING:
    from mpi4py import MPI

Candidate = Callable[[], Mapping[str, float]]

ROUNDS = (3, 40)  # of measuring candidates, at least and at most
SECONDS = 0.3  # for measuring them all, about
CLEARLY_FASTER = 0.97  # of the time of a candidate that comes earlier
HOPELESS = 1.25  # times the fastest so far: such a candidate is not timed again
DUEL = 6  # rounds of the fastest against the first, of which it may lose one: a slow moment is no defeat


@dataclass(frozen=True)
class Trial:
    """Ways to compute one thing that were timed, and the one that is taken.

    seconds: of each way its "total" and those of its parts, where they are known: of the slowest rank, the shortest
    of several rounds. earlier_run: whether an earlier run measured them; of older versions only the choice is kept.
    """

    taken: str
    seconds: Mapping[str, Mapping[str, float]]
    earlier_run: bool = False

    def words(self) -> str:
        """Return the way that is taken, and the seconds of all."""
        times = [
            f"{way} {number(parts['total'], 's')}" for way, parts in self.seconds.items() if "total" in parts
        ]
        return f"{self.taken} ({', '.join(times)})" if times else self.taken


def choose(
    candidates: Mapping[str, Candidate],
    key: str,
    comm: MPI.Comm,
    file: Path,
    work: Mapping[str, float] | None = None,
    seconds: float = SECONDS,
    believe: Callable[[], bool] | None = None,
) -> Trial:
    """Return which candidate is fastest, or was so in an earlier run, and the seconds of all. Collective.

    candidates: two or more ways to do one thing. They are called repeatedly on all ranks in the same order, so they
    may communicate. They return the seconds of their parts, under the same names on all ranks. The time of a call is
    that of the slowest rank, and the shortest of several calls counts; of each part too. A candidate replaces an
    earlier one only if it is clearly faster. It replaces the first one only if it is so again in further rounds.

    key: names what is chosen with all that the answer depends on (shape, dtype, ranks, process grid). The answer is
    remembered under it in `file`, which rank 0 reads and writes. work: what a call of each does, in any unit; the
    trial's seconds are those of one unit. Without it each call is one. seconds: to spend, about, after three rounds.
    believe: says afterwards, on all ranks, whether times can be believed. If not, the first candidate is taken and
    nothing is remembered. None: always.
    """
    known = decide(comm, lambda: remembered_trial(file, key))
    if known is not None and known.taken in candidates and candidates.keys() <= known.seconds.keys():
        return Trial(known.taken, {name: known.seconds[name] for name in candidates}, known.earlier_run)
    rounds = _Rounds(candidates, work or {}, comm)
    best = rounds.winner(seconds)
    if known is not None and known.taken in candidates:
        best = known.taken  # results of the runs before depend on it in their last bits
    trial = Trial(best, rounds.found())
    if believe is not None and not believe():
        return replace(trial, taken=next(iter(candidates)))
    if comm.rank == 0:
        remember_trial(file, key, trial)
    return trial


class _Rounds:
    """Rounds in which candidates are called, and the least seconds of one unit of their work so far.

    best: by candidate and part, of the slowest rank; spent: seconds of all calls since the first round.
    """

    def __init__(
        self, candidates: Mapping[str, Candidate], work: Mapping[str, float], comm: MPI.Comm
    ) -> None:
        """Call all of them once, which compiles and touches memory, and once again. Collective."""
        self._candidates, self._work, self._comm = candidates, work, comm
        self._first = next(iter(candidates))
        for _ in range(2):
            self.best: dict[tuple[str, str], float] = {}
            self.spent = 0.0
            self.again(candidates)

    def again(self, names: Iterable[str]) -> str:
        """Call some candidates once and return the fastest. Collective."""
        times = {}
        for name in names:
            self._comm.Barrier()
            start = time.perf_counter()
            parts = self._candidates[name]()
            times[name, "total"] = time.perf_counter() - start
            times.update({(name, part): each for part, each in parts.items()})
        slowest = dict(zip(times, global_max(self._comm, list(times.values())).tolist()))
        self.spent += sum(each for (_, part), each in slowest.items() if part == "total")
        slowest = {(name, part): each / self._work.get(name, 1.0) for (name, part), each in slowest.items()}
        self.best.update((key, min(self.best.get(key, each), each)) for key, each in slowest.items())
        return _fastest(names, slowest)

    def winner(self, seconds: float) -> str:
        """Go on until about so many seconds are spent, and return which is to be taken. Collective."""
        least, most = ROUNDS
        for n_rounds in range(1, most):
            if n_rounds >= least and self.spent >= seconds:
                break
            limit = HOPELESS * min(self.best[name, "total"] for name in self._candidates)
            hopeful = [name for name in self._candidates if self.best[name, "total"] <= limit]
            self.again(dict.fromkeys([self._first, *hopeful]))
        challenger = _fastest(self._candidates, self.best)
        if challenger == self._first:
            return challenger
        pair = (self._first, challenger)
        won = sum(self.again(pair) == challenger for _ in range(DUEL))
        return _fastest(pair, self.best) if won >= DUEL - 1 else self._first

    def found(self) -> dict[str, dict[str, float]]:
        """Return the least seconds of each candidate and its parts."""
        found: dict[str, dict[str, float]] = {name: {} for name in self._candidates}
        for (name, part), each in self.best.items():
            found[name][part] = each
        return found


def _fastest(names: Iterable[str], times: Mapping[tuple[str, str], float]) -> str:
    """Return the fastest of them; one that comes earlier unless another is clearly faster."""
    taken, *others = names
    for name in others:
        if times[name, "total"] < CLEARLY_FASTER * times[taken, "total"]:
            taken = name
    return taken


def remembered_trial(file: Path, key: str) -> Trial | None:
    """Return what `remember_trial` was last told about `key`, None if nothing."""
    found: Any = read_kept_table(file).get(key)
    if isinstance(found, str):  # as kept by versions that did not keep the seconds
        return Trial(found, {}, earlier_run=True)
    try:
        seconds = {
            str(way): {str(part): float(each) for part, each in parts.items()}
            for way, parts in found["seconds"].items()
        }
        return Trial(str(found["taken"]), seconds, earlier_run=True)
    except DAMAGED:
        return None


def remember_trial(file: Path, key: str, trial: Trial) -> None:
    """Keep the choice, and the seconds that it rests on, for later runs."""
    choice = {"taken": trial.taken, "seconds": trial.seconds}
    write_kept(file, json.dumps(read_kept_table(file) | {key: choice}, indent=0, sort_keys=True).encode())
