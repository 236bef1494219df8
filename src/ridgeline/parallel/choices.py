"""The autotuner: of several candidates that compute one thing, which is fastest here.

All ranks time the candidates together, take the same one, and keep what they found for later runs. It is kept as
JSON in choices/choices.json of the user's cache (RIDGELINE_CACHE_DIR): by key, the candidate that was taken and the
seconds of each. The file is replaced whole, so that a run that reads while another writes sees the old or the new
one. A damaged file, or a folder that cannot be written, costs a warning and the time to measure again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.parallel.allreduce import allreduce_max, broadcast_decision
from ridgeline.parallel.layout import place_on_node
from ridgeline.runtime.files import DAMAGED
from ridgeline.runtime.kept_files import read_kept_table, write_kept
from ridgeline.runtime.machine import cpu_name, describe_machine
from ridgeline.runtime.private_folder import private_folder
from ridgeline.runtime.units import number
from ridgeline.version import VERSION

if TYPE_CHECKING:
    from mpi4py import MPI

Candidate = Callable[[], Mapping[str, float]]

ROUNDS = (3, 20)  # in which candidates are timed, at least and at most
SECONDS = 0.3  # to spend on rounds beyond the least number, about
CLEARLY_FASTER = 0.97  # of the time of a candidate that comes earlier
HOPELESS = 1.25  # times the fastest so far: such a candidate is not timed again
WINS, LOSSES = 5, 2  # rounds against the first candidate that end a duel: one slow moment does not decide it


@dataclass(frozen=True)
class Trial:
    """Candidates that were timed, and the one that is taken.

    seconds: of each candidate its "total" and those of its parts, where they are known: of the slowest rank, the
    shortest of several rounds. earlier_run: whether an earlier run measured them.
    """

    taken: str
    seconds: Mapping[str, Mapping[str, float]]
    earlier_run: bool = False

    @property
    def source(self) -> str:
        """When the candidates were timed, in words."""
        return "as timed in an earlier run" if self.earlier_run else "as timed now"

    def words(self) -> str:
        """Return the candidate that is taken, and the seconds of all."""
        times = [f"{name} {number(parts['total'], 's')}" for name, parts in self.seconds.items()]
        return f"{self.taken} ({', '.join(times)})" if times else self.taken


def choose(
    candidates: Mapping[str, Candidate],
    key: str,
    comm: MPI.Comm,
    work: Mapping[str, float] | None = None,
    believe: Callable[[], bool] | None = None,
) -> Trial:
    """Return which candidate is fastest, or was so in an earlier run, and the seconds of all. Collective.

    The first candidate is taken unless another is clearly faster, in the best of all rounds and then in a duel of
    further rounds between the two.

    Parameters
    ----------
    candidates : two or more, by name, in the same order on all ranks; they may communicate. In each of its turns a
        candidate is called twice. The first call is not counted: the candidate may compile, allocate or switch to
        itself. The second is timed, and takes as long as its slowest rank. Each call returns the seconds of its
        parts, under the same names on all ranks.
    key : names what is chosen, with all that the answer depends on beside the version, the machine and the number of
        ranks, such as shape and dtype; that of rank 0 counts
    comm : the ranks that agree
    work : what a call of each candidate does, in any unit, whose seconds the trial tells; without it each call is one
    believe : says afterwards, on all ranks, whether the times can be believed. If not, the first candidate is taken
        and nothing is kept. None: always
    """
    place = _place(key, comm)
    known = broadcast_decision(comm, lambda: _read(place))
    if known is not None and known.taken in candidates and candidates.keys() <= known.seconds.keys():
        return replace(known, seconds={name: known.seconds[name] for name in candidates})
    rounds = _Rounds(candidates, work or {}, comm)
    trial = Trial(rounds.winner(), rounds.found())
    if believe is not None and not believe():
        return replace(trial, taken=next(iter(candidates)))
    if comm.rank == 0:
        _write(place, trial)
    return trial


def recall(key: str, comm: MPI.Comm) -> Trial | None:
    """Return what `choose` found under this key in an earlier run, None if nothing. Collective."""
    place = _place(key, comm)
    return broadcast_decision(comm, lambda: _read(place))


class _Rounds:
    """Rounds in which candidates have a turn each, and the least seconds of one unit of their work so far.

    best: by candidate and part, of the slowest rank; spent: seconds of all calls after the first round.
    """

    def __init__(
        self, candidates: Mapping[str, Candidate], work: Mapping[str, float], comm: MPI.Comm
    ) -> None:
        self._candidates, self._work, self._comm = candidates, work, comm
        self._first = next(iter(candidates))
        self.best: dict[tuple[str, str], float] = {}
        self.spent = 0.0

    def turns(self, names: Iterable[str]) -> str:
        """Give some candidates a turn and return the fastest in it. Collective."""
        times: dict[tuple[str, str], float] = {}
        spent = 0.0
        for name in names:
            begin = time.perf_counter()
            self._candidates[name]()
            self._comm.Barrier()
            start = time.perf_counter()
            parts = self._candidates[name]()
            end = time.perf_counter()
            times[name, "total"] = end - start
            times.update({(name, part): each for part, each in parts.items()})
            spent += end - begin
        *slowest, spent = allreduce_max(self._comm, [*times.values(), spent]).tolist()
        self.spent += spent
        times = {(name, part): each / self._work.get(name, 1.0) for (name, part), each in zip(times, slowest)}
        self.best.update((key, min(self.best.get(key, each), each)) for key, each in times.items())
        return _fastest(names, times)

    def winner(self) -> str:
        """Time all candidates and return which is to be taken. Collective."""
        least, most = ROUNDS
        self.turns(self._candidates)
        self.spent = 0.0  # most of the first round went into compiling
        for n_rounds in range(1, most):
            if n_rounds >= least and self.spent >= SECONDS:
                break
            limit = HOPELESS * min(self.best[name, "total"] for name in self._candidates)
            hopeful = [name for name in self._candidates if self.best[name, "total"] <= limit]
            self.turns(dict.fromkeys([self._first, *hopeful]))
        challenger = _fastest(self._candidates, self.best)
        if challenger == self._first:
            return challenger
        pair = (self._first, challenger)
        won = lost = 0
        while won < WINS and lost < LOSSES:
            if self.turns(pair) == challenger:
                won += 1
            else:
                lost += 1
        return _fastest(pair, self.best) if won == WINS else self._first

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


def choices_file() -> Path:
    """Return where choices are kept; it need not exist."""
    return private_folder("choices") / "choices.json"


def _place(key: str, comm: MPI.Comm) -> str:
    """Return a key with the version, the machine and the ranks before it. Collective."""
    on_node = place_on_node(comm).ranks
    machine = f"{cpu_name()}, {describe_machine().cores} cores"
    return f"{VERSION}; {machine}; {comm.size} ranks of which {on_node} on a node; {key}"


def _read(key: str) -> Trial | None:
    """Return the trial that was kept last under a key, None if there is none."""
    found: Any = read_kept_table(choices_file()).get(key)
    try:
        seconds = {
            str(name): {str(part): float(each) for part, each in parts.items()}
            for name, parts in found["seconds"].items()
        }
        whole = all("total" in parts for parts in seconds.values())
        return Trial(str(found["taken"]), seconds, earlier_run=True) if whole else None
    except DAMAGED:
        return None


def _write(key: str, trial: Trial) -> None:
    """Keep the choice, and the seconds that it rests on, for later runs."""
    file = choices_file()
    choice = {"taken": trial.taken, "seconds": trial.seconds}
    write_kept(file, json.dumps(read_kept_table(file) | {key: choice}, indent=0, sort_keys=True).encode())
