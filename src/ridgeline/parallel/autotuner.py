"""The autotuner: which of several candidates that compute the same is the fastest on this machine.

All ranks time the candidates at the same time, choose the same one, and keep the result for later runs. It is kept as
JSON in choices/choices.json of the user's cache (RIDGELINE_CACHE_DIR): by key, the candidate that was chosen and the
seconds of each. The file is replaced atomically, so a run that reads while another writes sees the old or the new
file. A damaged file, or a folder that cannot be written, costs a warning and the time to measure again.
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
from ridgeline.runtime.machine import cpu_name, describe_machine
from ridgeline.runtime.units import number
from ridgeline.runtime.user_cache import private_folder, read_kept_table, write_kept
from ridgeline.version import VERSION

if TYPE_CHECKING:
    from mpi4py import MPI

Candidate = Callable[[], Mapping[str, float]]

ROUNDS = (3, 20)  # the least and the largest number of rounds in which candidates are timed
SECONDS = 0.3  # to spend, roughly, on rounds beyond the least number
CLEARLY_FASTER = 0.97  # share of the time of an earlier candidate below which a later one is preferred
HOPELESS = 1.25  # a candidate that takes this many times the fastest time so far is not timed again
WINS, LOSSES = (
    5,
    2,
)  # rounds against the first candidate that end a duel, so that one slow moment does not decide it


@dataclass(frozen=True)
class TuningResult:
    """The candidate that was chosen, and the times of all.

    seconds: the "total" of each candidate and those of its parts, where they are known: on the slowest rank, in the
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
        """Return the chosen candidate and the times of all, for people."""
        times = [f"{name} {number(parts['total'], 's')}" for name, parts in self.seconds.items()]
        return f"{self.taken} ({', '.join(times)})" if times else self.taken


def choose(
    candidates: Mapping[str, Candidate],
    key: str,
    comm: MPI.Comm,
    work: Mapping[str, float] | None = None,
    believe: Callable[[], bool] | None = None,
) -> TuningResult:
    """Time candidates and return the fastest, or return the result of an earlier run. Collective.

    The first candidate is chosen unless another one is clearly faster, in the best of all rounds and then in a duel
    of further rounds between the two.

    Parameters
    ----------
    candidates : two or more, by name, in the same order on all ranks; they may communicate. In each of its turns a
        candidate is called twice. The first call is not counted, because the candidate may compile, allocate or
        switch to itself. The second is timed, and takes as long as its slowest rank. Each call returns the seconds of
        its parts, under the same names on all ranks.
    key : names what is chosen, with everything that the answer depends on beside the version, the machine and the
        number of ranks, such as shape and dtype; the key of rank 0 counts
    comm : the ranks that agree
    work : the work of a call of each candidate, in any unit; the result then has the seconds of one unit. Without it,
        a call is one unit
    believe : tells afterwards, on all ranks, whether the times are reliable. If they are not, the first candidate is
        chosen and nothing is kept. None means that they are
    """
    full_key = _full_key(key, comm)
    known = broadcast_decision(comm, lambda: _read(full_key))
    if known is not None and known.taken in candidates and candidates.keys() <= known.seconds.keys():
        return replace(known, seconds={name: known.seconds[name] for name in candidates})
    rounds = _Rounds(candidates, work or {}, comm)
    result = TuningResult(rounds.winner(), rounds.seconds())
    if believe is not None and not believe():
        return replace(result, taken=next(iter(candidates)))
    if comm.rank == 0:
        table = read_kept_table(choices_file())
        table[full_key] = {"taken": result.taken, "seconds": result.seconds}
        write_kept(choices_file(), json.dumps(table, indent=0, sort_keys=True).encode())
    return result


def recall(key: str, comm: MPI.Comm) -> TuningResult | None:
    """Return the result that `choose` kept under this key in an earlier run, None if there is none. Collective."""
    full_key = _full_key(key, comm)
    return broadcast_decision(comm, lambda: _read(full_key))


class _Rounds:
    """Rounds in which each candidate has a turn, and the least seconds of one unit of their work so far.

    best: by candidate and part, on the slowest rank. spent: seconds of all calls after the first round.
    """

    def __init__(
        self, candidates: Mapping[str, Candidate], work: Mapping[str, float], comm: MPI.Comm
    ) -> None:
        self._candidates, self._work, self._comm = candidates, work, comm
        self._first = next(iter(candidates))
        self.best: dict[tuple[str, str], float] = {}
        self.spent = 0.0

    def turns(self, names: Iterable[str]) -> str:
        """Give each of these candidates a turn and return the fastest of this round. Collective."""
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
        """Time all candidates and return the one to choose. Collective."""
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

    def seconds(self) -> dict[str, dict[str, float]]:
        """Return the least seconds of each candidate and its parts."""
        table: dict[str, dict[str, float]] = {name: {} for name in self._candidates}
        for (name, part), seconds in self.best.items():
            table[name][part] = seconds
        return table


def _fastest(names: Iterable[str], times: Mapping[tuple[str, str], float]) -> str:
    """Return the fastest candidate, where an earlier one is preferred unless a later one is clearly faster."""
    fastest, *others = names
    for name in others:
        if times[name, "total"] < CLEARLY_FASTER * times[fastest, "total"]:
            fastest = name
    return fastest


def choices_file() -> Path:
    """Return the file in which results are kept; it need not exist."""
    return private_folder("choices") / "choices.json"


def _full_key(key: str, comm: MPI.Comm) -> str:
    """Return a key preceded by the version, the machine and the ranks. Collective."""
    on_node = place_on_node(comm).ranks
    machine = f"{cpu_name()}, {describe_machine().cores} cores"
    return f"{VERSION}; {machine}; {comm.size} ranks of which {on_node} on a node; {key}"


def _read(key: str) -> TuningResult | None:
    """Return the result that was kept last under a key, None if there is none."""
    entry: Any = read_kept_table(choices_file()).get(key)
    try:
        seconds = {
            str(name): {str(part): float(each) for part, each in parts.items()}
            for name, parts in entry["seconds"].items()
        }
        whole = all("total" in parts for parts in seconds.values())
        return TuningResult(str(entry["taken"]), seconds, earlier_run=True) if whole else None
    except DAMAGED:
        return None
