"""Is a figure better or worse than the one that was recorded, by more than the noise of repeated runs?"""

import statistics
from collections.abc import Sequence

BETTER, SAME, WORSE = "better", "same", "worse"
NO_RECORD, NOT_JUDGED = "no record", "not judged"


def spread(repeats: Sequence[float]) -> float | None:
    """Return the largest less the smallest of repeated measurements; None for a single one."""
    return max(repeats) - min(repeats) if len(repeats) > 1 else None


def noise(now: Sequence[float], before: Sequence[float]) -> float | None:
    """Return the difference that repeated runs explain: the spread of now and that of the record together.

    A side that was measured once is taken to be as noisy as the other. None: both were measured once.
    """
    spreads = [spread(now), spread(before)]
    known = [value for value in spreads if value is not None]
    return None if not known else sum(known) * len(spreads) / len(known)


def change(now: Sequence[float], before: Sequence[float] | None, goal: str) -> str:
    """Return how the median of `now` compares with that of `before`: one of the words of this module.

    goal: '>= x' for a figure of which more is better, '<= x' for one of which less is better; '' is not judged.
    """
    if before is None:
        return NO_RECORD
    allowed = noise(now, before)
    if allowed is None or not goal:
        return NOT_JUDGED
    gain = statistics.median(now) - statistics.median(before)
    if goal.startswith("<="):
        gain = -gain
    if abs(gain) <= allowed:
        return SAME
    return BETTER if gain > 0 else WORSE
