"""Limits and meters over ranks: the same on all, one rank keeps what was measured, nodes are read once."""

import json

from decay_model import Decay, decay_case, run
from ridgeline.limits import messages, stream
from ridgeline.limits.stream import measure_caches
from ridgeline.parallel.payload import BYTES
from ridgeline.runtime.context import Context
from ridgeline.simulation import limits
from ridgeline.simulation.meters import Meters

RATES = {"rate": 2.0}


def shared_folder(comm, tmp_path_factory, monkeypatch):
    """One cache folder for all ranks, which are processes of their own."""
    folder = comm.bcast(str(tmp_path_factory.mktemp("cache")) if comm.rank == 0 else None)
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", folder)
    monkeypatch.setattr(limits, "busiest_share", lambda comm, since: 0.0)
    return folder


def test_one_rank_keeps_what_all_measured(comm, tmp_path_factory, monkeypatch):
    shared_folder(comm, tmp_path_factory, monkeypatch)
    written = []
    monkeypatch.setattr(limits, "write_kept", lambda file, content: written.append(json.loads(content)))
    found = limits.cached_rates(comm, {"of": "test"}, lambda: RATES, None)
    assert found.rates == RATES
    assert comm.allgather(len(written)) == [1] + [0] * (comm.size - 1)


def test_limits_are_the_same_on_all_ranks_and_come_from_the_cache_the_second_time(
    comm, tmp_path_factory, monkeypatch
):
    shared_folder(comm, tmp_path_factory, monkeypatch)
    calls = []
    monkeypatch.setattr(limits, "_bandwidth", lambda *_: {"best": 1e9, "best_name": "triad"})
    monkeypatch.setattr(
        limits, "_peak", lambda context: calls.append("peak") or {"float64": 1.0, "float32": 2.0}
    )
    monkeypatch.setattr(limits, "_caches", lambda context: {"capacity 3": 8.0, "rate 3": 4.0})
    first = limits.measure_limits(Context(comm), 100.0)
    second = limits.measure_limits(Context(comm), 100.0)
    assert calls == ["peak"]
    assert {key: first[key] for key in ("best", "peak", "caches")} == {
        "best": 1e9, "peak": {"float64": 1.0, "float32": 2.0},
        "caches": [{"level": 3, "capacity": 8.0, "rate": 4.0}],
    }  # fmt: skip
    assert set(first["ages"].values()) == {0.0}
    assert min(second["ages"].values()) > 0.0
    assert ("network" in first) == (comm.size > 1)
    assert second.get("network") == first.get("network")
    mine = {key: value for key, value in second.items() if key != "seconds_beside_stream"}
    assert comm.allgather(mine) == [mine] * comm.size


def test_the_rate_of_messages_counts_all_ranks(comm, monkeypatch):
    if comm.size == 1:
        return
    half, asked = comm.size // 2, []

    def times(comm, pairs, rounds, form, loop, window):
        asked.append((pairs, rounds, form, loop, window))
        return messages.PairTimes([[16 * 50 * 100 / 4.0]] * len(pairs), [])  # 4 B/s each way

    monkeypatch.setattr(messages, "time_pairs", times)
    assert limits._network(Context(comm), 100) == {"rate": 4.0 * comm.size}
    pairs = [(rank, rank + half) for rank in range(half)]
    assert asked == [(pairs, [(100, 50, 1)], BYTES, "both ways", 16)]


def test_caches_of_a_node_are_shared_by_its_ranks(comm, monkeypatch):
    MiB = 2**20
    levels = {1: {"0": 2**15}, 2: {f"{comm.rank}": MiB}, 3: {"all": 4 * MiB}}
    monkeypatch.setattr(stream, "caches_by_level", lambda cpus: levels)
    sizes = []
    monkeypatch.setattr(stream, "_best_cache_rate", lambda comm, n_bytes, *rest: sizes.append(n_bytes) or 7.0)
    found = measure_caches(comm, 1, "float64")
    assert [(cache.level, cache.capacity, cache.rate) for cache in found] == [
        (2, comm.size * MiB, 7.0),
        (3, 4 * MiB, 7.0),
    ]
    assert sizes == [MiB // 2, 2 * MiB // comm.size]


def test_the_caches_of_this_machine(comm):
    found = measure_caches(comm, 1, "float32")
    assert comm.allgather(found) == [found] * comm.size
    assert all(cache.level >= 2 and cache.capacity > 0 and cache.rate > 0 for cache in found)


def test_meters_report_the_same_on_all_ranks_and_read_each_node_once(comm):
    with Meters(comm) as meters:
        meters.sample()
        meters.stop()
    found = meters.report(points=100, steps=2, least_bytes=1e9)
    assert comm.allgather(found) == [found] * comm.size
    assert len(found["energy"]["nodes"]) == 1
    assert found["traffic"]["kind"] or found["traffic"]["unreadable"]


def test_a_run_is_metered_at_every_call_of_its_model(comm, folder, monkeypatch):
    samples = []
    monkeypatch.setattr(Meters, "sample", lambda self: samples.append(1))
    model = Decay()
    report = run(comm, monkeypatch, decay_case(folder), model)
    assert len(samples) == len(model.calls)
    assert set(report["energy"]) >= {"joules", "joules_per_step", "joules_per_rank", "nodes"}
    assert report["exchange"]["share"] is None
    assert (report["limit"], report["share_of_limit"]) == ("", None)
    assert comm.allgather(report["traffic"]) == [report["traffic"]] * comm.size
