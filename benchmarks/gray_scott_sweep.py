"""The sweep by itself, on one rank: against memory bandwidth, against C, and what noise and size cost."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numba

from gray_scott_ours import ours
from gray_scott_peers import Y_BLOCKS, Fields, c_plain, c_plain_noise, c_tuned, check, check_c
from harness.c_library import CUnavailable
from harness.table import Row
from harness.timing import Timings, interleave
from ridgeline.limits.stream import KERNELS, StreamArrays

STEPS = (2, 3, 4)  # of temporally blocked sweeps that are tried
NOISE = 0.01
STREAM_BYTES = 2**27  # of one array
BATCH_SECONDS = 0.01  # a timed sample repeats short sweeps until it takes about this long
RATE = 4e10  # B/s, only to guess that


@dataclass(frozen=True)
class Settings:
    """What a run of the benchmarks covers; `seconds` for each interleaved comparison."""

    sizes: tuple[int, ...] = (128, 256, 512)
    dtypes: tuple[str, ...] = ("float64", "float32")
    threads: tuple[int, ...] = (1, 2)
    seconds: float = 5.0

    def cases(self) -> Iterator[tuple[str, int]]:
        """Yield dtype and number of threads, with Numba set to it."""
        for dtype in self.dtypes:
            for n_threads in self.threads:
                numba.set_num_threads(n_threads)
                yield dtype, n_threads


class Contest:
    """Candidates that sweep one set of fields, and STREAM beside them, timed in turn."""

    def __init__(self, n: int, dtype: str, n_threads: int, ghost: int = 1) -> None:
        self.n, self.n_threads = n, n_threads
        self.fields = Fields.allocate((n, n, n), dtype, ghost)
        self.least_bytes = 4 * self.fields.dtype.itemsize * n**3  # per step: u and v, once in, once out
        self.candidates: dict[str, Callable[[], None]] = {}
        self.steps: dict[str, int] = {}

    def enter(self, name: str, sweep: Callable[[Fields], None], steps: int = 1) -> None:
        """Add a sweep; a sample repeats it back and forth between old and new fields."""
        sweeps = max(1, round(BATCH_SECONDS * RATE / self.least_bytes))
        ends = self.fields, self.fields.swapped()

        def batch() -> None:
            for i in range(sweeps):
                sweep(ends[i % 2])

        self.candidates[name] = batch
        self.steps[name] = steps * sweeps

    def enter_stream(self) -> None:
        """Add the four kernels of STREAM with both kinds of stores."""
        self._stream = StreamArrays(STREAM_BYTES, self.n_threads, self.fields.dtype)
        for kernel in KERNELS:
            for streaming in (False, True):
                name = f"{kernel}, {'streaming' if streaming else 'ordinary'} stores"
                self.candidates[name] = partial(self._stream.run, kernel, streaming)

    def run(self, seconds: float) -> "Outcome":
        """Time all candidates in turn."""
        return Outcome(self, interleave(self.candidates, seconds))


@dataclass(frozen=True)
class Outcome:
    """Times of a contest."""

    contest: Contest
    timings: Timings

    def rate(self, name: str) -> float:
        """Return least bytes per second of a sweep, by its best time."""
        return self.contest.least_bytes * self.contest.steps[name] / self.timings.best(name)

    def best_of(self, names: list[str]) -> str:
        """Return the fastest of several sweeps."""
        return max(names, key=self.rate)

    def best_stream(self) -> tuple[str, float]:
        """Return the name and rate of the fastest STREAM kernel."""
        arrays = self.contest._stream
        rates = {
            name: arrays.bytes_moved(name.split(",")[0]) / self.timings.best(name)
            for name in self.timings.samples
            if name.split(",")[0] in KERNELS
        }
        name = max(rates, key=rates.__getitem__)
        return name, rates[name]

    def speed_up(self, name: str, over: str) -> tuple[float, float]:
        """Return the speed of `name` over that of `over`, per step: of best times, and the median of rounds."""
        steps = self.contest.steps[name] / self.contest.steps[over]
        return (
            steps * self.timings.ratio(over, name),
            steps * self.timings.median_ratio(over, name),
        )

    def fraction_of_stream(self, name: str) -> tuple[float, float]:
        """Return the rate of a sweep over the best STREAM rate: of best times, and the median of rounds."""
        stream, rate = self.best_stream()
        bytes_stream = self.contest._stream.bytes_moved(stream.split(",")[0])
        bytes_sweep = self.contest.least_bytes * self.contest.steps[name]
        median = self.timings.median_ratio(stream, name) * bytes_sweep / bytes_stream
        return self.rate(name) / rate, median


def label(n: int, dtype: str, n_threads: int) -> str:
    """Name a case in a row."""
    return f"{n}^3 {dtype}, {n_threads} thread{'s' * (n_threads > 1)}"


def check_ours(dtype: str) -> None:
    """Check our sweep against NumPy, with and without noise."""
    fields = Fields.allocate((9, 13, 37), dtype)
    for noise in (0.0, NOISE):
        check(ours(fields, 2, noise=noise), "our sweep", dtype, noise)


def fraction(settings: Settings) -> Iterator[Row]:
    """Least bytes over time over the best STREAM rate, for one step a sweep and for several."""
    for dtype, n_threads in settings.cases():
        check_ours(dtype)
        for n in settings.sizes:
            gc.collect()
            contest = Contest(n, dtype, n_threads, ghost=max(STEPS))
            contest.enter_stream()
            for steps in (1, *STEPS):
                contest.enter(f"{steps} steps", ours(contest.fields, n_threads, steps), steps)
            outcome = contest.run(settings.seconds)
            stream, rate = outcome.best_stream()
            target = ">= 0.75" if n_threads == 2 and n >= 256 else ""
            blocked = outcome.best_of([f"{steps} steps" for steps in STEPS])
            for name, wanted in (("1 steps", target), (blocked, "")):
                best, median = outcome.fraction_of_stream(name)
                note = f"{outcome.rate(name) / 1e9:.1f} of {rate / 1e9:.1f} GB/s ({stream})"
                title = "1 step a sweep" if name == "1 steps" else "several steps a sweep"
                if name != "1 steps":
                    note = f"{name}; {note}"
                yield Row(
                    f"fraction of STREAM, {title}: {label(n, dtype, n_threads)}", best, wanted, median, note
                )
            del contest, outcome


def noise(settings: Settings) -> Iterator[Row]:
    """Time with noise over time without."""
    n = min(256, max(settings.sizes))
    for dtype, n_threads in settings.cases():
        check_ours(dtype)
        for steps in (1, 2):
            contest = Contest(n, dtype, n_threads, ghost=steps)
            contest.enter("quiet", ours(contest.fields, n_threads, steps), steps)
            contest.enter("noisy", ours(contest.fields, n_threads, steps, NOISE), steps)
            outcome = contest.run(settings.seconds)
            best, median = outcome.speed_up("quiet", "noisy")
            title = f"noise, {steps} step{'s' * (steps > 1)} a sweep"
            target = "<= 1.1" if dtype == "float64" else "<= 1.2"
            yield Row(
                f"{title}: {label(n, dtype, n_threads)}", best, target, median, "time over time without"
            )


def size(settings: Settings) -> Iterator[Row]:
    """Time per cell of the largest grid over that of the smallest."""
    small, large = min(settings.sizes), max(settings.sizes)
    for dtype, n_threads in settings.cases():
        gc.collect()
        contests = [Contest(n, dtype, n_threads) for n in (small, large)]
        for contest in contests:
            contest.enter("sweep", ours(contest.fields, n_threads))
        timings = interleave({str(c.n): c.candidates["sweep"] for c in contests}, settings.seconds)
        cells = [c.n**3 * c.steps["sweep"] for c in contests]
        best, median = (
            ratio(str(large), str(small)) * cells[0] / cells[1]
            for ratio in (timings.ratio, timings.median_ratio)
        )
        name = f"{large}^3 against {small}^3: {dtype}, {n_threads} thread{'s' * (n_threads > 1)}"
        yield Row(name, best, "<= 1.05", median, "time per cell over time per cell")


def c_peers(settings: Settings) -> Iterator[Row]:
    """Our speed over that of C: plain loops, plain loops with noise, and tuned by hand with intrinsics."""
    n = min(256, max(settings.sizes))
    for dtype, n_threads in settings.cases():
        where = label(n, dtype, n_threads)
        contest = Contest(n, dtype, n_threads)
        contest.enter("ours", ours(contest.fields, n_threads))
        contest.enter("ours, noise", ours(contest.fields, n_threads, noise=NOISE))
        tuned = []
        missing = ""
        try:
            contest.enter("plain C", c_plain(dtype, n_threads, False))
            contest.enter("plain C, omp simd", c_plain(dtype, n_threads, True))
            contest.enter("plain C, noise", c_plain_noise(dtype, n_threads, NOISE))
            for y_block in Y_BLOCKS:
                name = f"tuned C, strips of {y_block} rows"
                contest.enter(name, c_tuned(dtype, n_threads, y_block))
                tuned.append(name)
            check_c(dtype)
        except CUnavailable as reason:
            missing = str(reason)
        check_ours(dtype)
        outcome = contest.run(settings.seconds)
        pairs = [("ours", "plain C", ">= 1.5"), ("ours", "plain C, omp simd", ">= 1.5")]
        pairs.append(("ours, noise", "plain C, noise", ""))
        pairs.append(("ours", outcome.best_of(tuned) if tuned else "tuned C", ">= 0.97"))
        for mine, theirs, target in pairs:
            name = f"{mine} over {theirs}: {where}"
            if theirs not in contest.candidates:
                yield Row(name, None, target, note=missing)
                continue
            best, median = outcome.speed_up(mine, theirs)
            note = f"{outcome.rate(mine) / 1e9:.1f} against {outcome.rate(theirs) / 1e9:.1f} GB/s"
            yield Row(name, best, target, median, note)
