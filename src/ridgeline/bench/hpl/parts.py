"""Which local columns lie right of a panel, and in which parts they are updated. No communication."""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.bench.hpl.block_cyclic import Axis

RIGHT_SHARE = 0.5  # of the local columns, which the split update keeps as its right part


class ColumnParts(NamedTuple):
    """Local columns right of a panel: `start`, the end of the next panel's, the end of the left part, the end."""

    start: int
    ahead: int
    split: int
    stop: int


class PanelColumns:
    """The columns of panels on this process. columns: of A and b; divided: whether there are two parts to update."""

    def __init__(self, columns: Axis, divided: bool) -> None:
        self._columns, self._n, self._nb = columns, columns.n - 1, columns.nb
        count = columns.count()
        self._split = count - int(RIGHT_SHARE * count) if divided else count

    def after(self, first: int) -> int:
        """Return the global column behind the panel at global column `first`: N behind the last one."""
        return min(first + self._nb, self._n)

    def here(self, first: int) -> int:
        """Return how many columns of the panel at global column `first` lie here: all or none."""
        columns, left = self._columns, self._n - first
        return min(self._nb, left) if left > 0 and columns.owner(first) == columns.part else 0

    def right_of(self, first: int) -> ColumnParts:
        """Return the local columns right of the panel at global column `first`."""
        after = self.after(first)
        start, stop = self._columns.count(after), self._columns.count()
        ahead = start + self.here(after)
        # One part alone is left where the next panel's columns would lie in the right one.
        return ColumnParts(start, ahead, self._split if ahead <= self._split else stop, stop)
