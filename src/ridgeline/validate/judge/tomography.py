"""Which elements of a fabric explain the slow pairs of nodes: network tomography.

The extra times y of pairs are explained by few slow elements, y = A x + noise with the routing matrix A and x >= 0.
Elements are added one after the other, each time the one that raises the posterior probability most (a greedy maximum
a posteriori estimate, as SCFS for Boolean tomography), and exchanged for better ones afterwards. docs/theory-links.md
has the model and its literature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ridgeline.validate.fabric.routes import KINDS, RoutingMatrix
from ridgeline.validate.judge.statistics import Floats, Integers

CONSISTENT = 0.9  # of the pairs that cross a slow element are slowed down by at least half of what it costs
COVERED = 1 / 3  # of the pairs that cross an element must be bad; chance keeps others from being counted
WEAK = 0.5  # share of the cut from which an element explains its pairs, though it is no suspect
LEAST_PAIRS = 2  # that cross an element: with one alone, it is not told from the rest of the route
FALSE_ALARMS = 0.05  # elements that noise may make suspect, in all of one quantity
PURE_PAIRS = 5  # that cross an element and no suspect, if there are so many, are enough to judge it
PENALTY = {"node": 0.0, "fabric link": 0.0, "switch": 1.0, "group": 2.0}  # of the logarithm of the prior
ODDS = 3.0  # difference of logarithms of probabilities below which the data do not decide
_TRIED = 64  # candidates that are looked at closely
_SWEEPS = 2
_EXCHANGED = 48  # most suspects for which exchanges are tried


@dataclass
class SlowElement:
    """An element that explains slow pairs.

    extra: of a message that crosses it, in units of the usual time; pairs: rows that cross it and no other suspect;
    slow: how many of them are slowed down; alternatives: elements that the measurements cannot tell from it.
    """

    element: int
    extra: float
    pairs: Integers
    slow: int
    alternatives: list[int] = field(default_factory=list)


@dataclass
class Explanation:
    """elements: that are slow; left: rows of pairs that are slow and cross none of them; crossing: whether
    messages of a pair cross one of them, bool [n_pairs].
    """

    elements: list[SlowElement]
    left: list[int]
    crossing: NDArray[np.bool_]


@dataclass
class _State:
    """What a set of suspects explains. left: share of each pair's messages that cross no suspect; rest: extra time
    that is not explained; weight: of each pair, one over its variance, times `left`.
    """

    left: Floats
    rest: Floats
    weight: Floats


@dataclass
class _SlowCandidate:
    """A candidate. gain: of the logarithm of the posterior probability."""

    element: int
    extra: float
    gain: float


class _Search:
    """The greedy search for slow elements."""

    def __init__(self, routes: RoutingMatrix, extra: Floats, sigma: Floats, cut: float) -> None:
        self.matrix = routes.matrix
        self.squares = self.matrix.multiply(self.matrix).tocsc()
        self.extra, self.precision, self.cut = extra, 1.0 / sigma**2, cut
        count = np.diff(self.matrix.indptr)
        largest = np.zeros(len(count))
        filled = np.flatnonzero(count)
        largest[filled] = np.maximum.reduceat(self.matrix.data, self.matrix.indptr[filled])
        self.largest = largest
        kinds = np.searchsorted(routes.start, np.arange(len(count)), "right") - 1
        self.penalty = np.array([PENALTY[kind] for kind in KINDS])[kinds]
        self.penalty += math.log(max(filled.size, 2) / FALSE_ALARMS)

    def column(self, element: int) -> tuple[Integers, Floats]:
        """Return the pairs that cross an element, and in which share."""
        some = slice(self.matrix.indptr[element], self.matrix.indptr[element + 1])
        return self.matrix.indices[some], self.matrix.data[some]

    def state(self, chosen: dict[int, float]) -> _State:
        """Return what suspects explain, the slowest first: a message meets the slowest part of its route."""
        left, rest = np.ones_like(self.extra), self.extra.copy()
        for element, extra in sorted(chosen.items(), key=lambda item: -item[1]):
            rows, share = self.column(element)
            rest[rows] -= share * extra * left[rows]
            left[rows] *= 1.0 - share
        return _State(left, rest, self.precision * left)

    def gains(self, state: _State) -> Floats:
        """Return the most that each element can gain, by weighted least squares."""
        slope = self.matrix.T @ (state.weight * state.rest)
        norm = self.squares.T @ state.weight
        gain = np.where(slope > 0, slope**2 / np.maximum(2.0 * norm, 1e-300), 0.0)
        return np.asarray(gain - self.penalty)

    def telling(self, element: int, state: _State) -> NDArray[np.bool_]:
        """Return which pairs of a column say how slow the element is: those that cross no suspect, if there are some.

        What a suspect with a share of a pair explains may be wrong by a part of what is looked for.
        """
        rows, share = self.column(element)
        most = share >= 0.5 * self.largest[element]
        pure = most & (state.left[rows] > 1.0 - 1e-9)
        enough = bool(pure.sum() >= PURE_PAIRS)
        return np.asarray(pure if enough else most & (state.left[rows] > 0.5), np.bool_)

    def examine(self, element: int, state: _State) -> _SlowCandidate | None:
        """Return an element as a suspect, None if its pairs are not consistently slow."""
        rows, share = self.column(element)
        telling = self.telling(element, state)
        if telling.sum() < LEAST_PAIRS:
            return None
        values = state.rest[rows[telling]] / share[telling]
        extra = float(np.median(values))
        quick = int((values < 0.5 * extra).sum())
        # One of five pairs or more may have been measured wrongly.
        allowed = max((1.0 - CONSISTENT) * len(values), float(len(values) >= 5))
        if extra * self.largest[element] < WEAK * self.cut or quick > allowed:
            return None
        rest, weight = state.rest[rows], state.weight[rows]
        gain = 0.5 * float((weight * (rest**2 - (rest - share * extra) ** 2)).sum())
        return _SlowCandidate(element, extra, gain - float(self.penalty[element]))

    def best(self, chosen: dict[int, float]) -> _SlowCandidate | None:
        """Return what explains most beside the chosen elements, the first of equal ones; None if nothing does."""
        state = self.state(chosen)
        bound = self.gains(state)
        bound[list(chosen)] = -np.inf
        best: _SlowCandidate | None = None
        most = min(_TRIED, len(bound) - 1)
        likely = np.argpartition(-bound, most)[: most + 1]
        for element in likely[np.lexsort((likely, -bound[likely]))].tolist():
            least = 0.0 if best is None else best.gain
            if bound[element] < least - 1e-6 * abs(least) or bound[element] <= 0:
                break
            choice = self.examine(element, state)
            if choice is None or choice.gain <= 0:
                continue
            near = best is not None and abs(choice.gain - best.gain) <= 1e-6 * abs(best.gain)
            if best is None or (choice.gain > best.gain and not near) or (near and element < best.element):
                best = choice
        return best

    def alternatives(self, chosen: dict[int, float], element: int) -> list[int]:
        """Return the elements that could replace a suspect with nearly the same probability."""
        state = self.state({e: x for e, x in chosen.items() if e != element})
        here = self.examine(element, state)
        if here is None:
            return []
        bound = self.gains(state)
        near = np.flatnonzero(bound >= here.gain - ODDS)
        near = near[np.argsort(-bound[near], kind="stable")][: 4 * _TRIED]
        found = [(other, self.examine(int(other), state)) for other in near.tolist() if other not in chosen]
        return [other for other, choice in found if choice is not None and choice.gain >= here.gain - ODDS]


def explain(routes: RoutingMatrix, extra: Floats, sigma: Floats, cut: float, link_cut: Floats) -> Explanation:
    """Return the slow elements of a fabric.

    Parameters
    ----------
    routes
        The routing matrix of the pairs.
    extra
        Extra time of each pair in units of the usual time, float64 [n_pairs].
    sigma
        Its standard deviation from noise, float64 [n_pairs].
    cut
        Extra time of a pair below which no element is a suspect.
    link_cut
        Extra time from which a pair that crosses no suspect is left over as slow, float64 [n_pairs].
    """
    search = _Search(routes, extra, sigma, cut)
    chosen: dict[int, float] = {}
    _add_all(search, chosen)
    for _ in range(_SWEEPS):
        if not _exchange(search, chosen):
            break
        _add_all(search, chosen)
    state = search.state(chosen)
    elements = []
    for element, x in chosen.items():
        if x * search.largest[element] < cut:
            continue
        rows, share = search.column(element)
        without = search.state({e: value for e, value in chosen.items() if e != element})
        clear = search.telling(element, without)
        slow = int((without.rest[rows[clear]] >= 0.5 * share[clear] * x).sum())
        others = search.alternatives(chosen, element)
        elements.append(SlowElement(element, x, rows[clear].astype(np.int64), slow, others))
    # The noise of a pair is a share of its time, which the suspects have made longer.
    longer = 1.0 + np.maximum(extra - state.rest, 0.0)
    left = np.flatnonzero((state.rest >= link_cut * longer) & (state.left > 0.5))
    return Explanation(elements, left.tolist(), state.left < 1.0)


def _add_all(search: _Search, chosen: dict[int, float]) -> None:
    """Add elements while they explain something."""
    while True:
        choice = search.best(chosen)
        if choice is None:
            return
        chosen[choice.element] = choice.extra


def _exchange(search: _Search, chosen: dict[int, float]) -> bool:
    """Take each suspect out and put in what explains its pairs best, if anything; return whether one changed."""
    changed = False
    for element in list(chosen) if len(chosen) <= _EXCHANGED else []:
        others = {e: x for e, x in chosen.items() if e != element}
        choice = search.best(others)
        stays = search.examine(element, search.state(others))
        if stays is not None and (choice is None or choice.gain <= stays.gain + 1e-6 * abs(stays.gain)):
            chosen[element] = stays.extra
            continue
        del chosen[element]
        changed = True
        if choice is not None:
            chosen[choice.element] = choice.extra
    return changed


def expected_noise(extra: Floats, sigma: float) -> Floats:
    """Return the standard deviation of each pair's extra time: the noise is a share of the whole time."""
    return np.asarray(sigma * (1.0 + np.maximum(extra, 0.0)), np.float64)


def cover(
    routes: RoutingMatrix, rows: Integers, others: NDArray[np.bool_]
) -> tuple[dict[int, Integers], Integers]:
    """Return the fewest elements that cover bad pairs, with the rows of each, and the rows that none covers.

    rows: of the bad pairs; others: pairs that say nothing, bool [n_pairs]. Boolean tomography by the greedy SCFS: an
    element may be bad if at least a third of the telling pairs that cross it are, and at least two.
    """
    bad = np.zeros(len(others), bool)
    bad[rows] = True
    telling = ~others
    found: dict[int, Integers] = {}
    crossed = (routes.matrix >= CONSISTENT).astype(np.float64).T.tocsr()
    while bad.any():
        hits, all_ = crossed @ bad.astype(float), crossed @ telling.astype(float)
        hits[hits < COVERED * all_] = 0.0
        element = int(
            np.argmax(hits + hits / np.maximum(all_, 1.0))
        )  # of equal ones that with fewest other pairs
        if hits[element] < LEAST_PAIRS:
            break
        pairs = crossed[[element]].indices
        found[element] = pairs[bad[pairs]].astype(np.int64)
        bad[pairs] = telling[pairs] = False
    return found, np.flatnonzero(bad)
