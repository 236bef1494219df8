"""A rank that takes the tests of congestion, alone and beside background traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ridgeline.bench.congestion.congestion_options import CongestionOptions
from ridgeline.bench.congestion.figures import NetworkSummary, summarise
from ridgeline.bench.congestion.network_tests import (
    TESTS,
    Allreduces,
    NetworkTest,
    RandomRing,
    Times,
    run_test,
)
from ridgeline.parallel.communicator import wait_asleep
from ridgeline.parallel.payload import Memory
from ridgeline.runtime.errors import VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI

SAMPLES = 2000  # of a test that are kept for a picture


class Tester:
    """A rank that takes the tests, as one of `everyone` that does and one of its lane."""

    def __init__(
        self, everyone: MPI.Comm, lane: MPI.Comm, names: list[int], number: int, options: CongestionOptions
    ) -> None:
        self.everyone, self.lane, self.names, self.options = everyone, lane, names, options
        self.seed = (options.seed, number)
        self.figures: dict[tuple[str, str], NetworkSummary] = {}
        self.samples: dict[str, list[float]] = {}
        self.problem: VerificationError | None = None

    def run(self, signals: MPI.Comm, memory: Memory) -> None:
        """Take all tests twice; `background.send_until_over` says what signals mean. Collective over everyone."""
        for test in TESTS:
            self._keep("isolated", test, self._times(test, memory))
        wait_asleep(signals.Ibarrier())
        for test in TESTS:
            wait_asleep(signals.Ibarrier())  # the network is loaded
            rounds = self._times(test, memory)
            wait_asleep(signals.Ibarrier())  # now the background traffic may stop
            self._keep("congested", test, rounds)

    def _times(self, test: NetworkTest, memory: Memory) -> list[Times]:
        options = self.options
        pattern = (
            Allreduces(self.lane, self.names, memory)
            if test.key == "allreduce"
            else RandomRing(self.lane, self.names, test, self.seed, memory)
        )
        repetitions = test.iterations if options.iterations is None else options.iterations
        warm_up = min(test.warm_up, repetitions)
        rounds, problem = run_test(
            self.everyone, pattern, repetitions, warm_up, options.seconds, options.rings
        )
        self.problem = self.problem or problem
        return rounds

    def _keep(self, block: str, test: NetworkTest, rounds: list[Times]) -> None:
        self.figures[block, test.key] = summarise(self.everyone, test, rounds)
        mine = np.concatenate(rounds)
        every = max(1, mine.size * self.everyone.size // SAMPLES)
        some = self.everyone.gather(mine[::every].tolist())
        self.samples[f"{test.key}, {block}"] = [value for part in some or [] for value in part]
