"""Studies of benchmarks of messages: what is kept, the curves of a report, and axes that name the ranks."""

import pytest

from ridgeline.bench.message_scaling import HMEM, FixedMessages, message_figures
from ridgeline.runtime.errors import ConfigError
from ridgeline.study.plan import make_plan
from ridgeline.study.request import read_request


def report(rows, memory="host", environment=None, **settings):
    return {
        "ranks": 4,
        "rows": rows,
        "settings": {"memory": memory, **settings},
        "mpi": {"environment": environment or {}},
    }


def test_messages_keep_their_size():
    law = FixedMessages("sizes", total="total_messages")
    assert law.weak({"sizes": (1, 8), "total_messages": None}, 2, 8) == {}
    assert law.weak({"sizes": (1, 8), "total_messages": 100}, 2, 8) == {"total_messages": 400}
    assert law.strong({}, 2, 2) == {}
    with pytest.raises(ConfigError, match="no strong scaling"):
        law.strong({}, 2, 4)


def test_a_step_is_one_message_of_each_pair():
    (latency,) = message_figures(report([{"size": 8, "seconds": 2e-6}]))
    assert (latency.seconds, latency.points, latency.labels) == (2e-6, 4, {"size": 8, "buffers": "host"})
    row = {"size": 100, "message_rate": 1e6, "bandwidth": 1e8}
    (rate,) = message_figures(report([row], n_pairs=2))
    assert (rate.seconds, rate.bytes) == (2e-6, 1e8)
    sweep = [row | {"nodes": n, "ranks_per_node": "2", "pairs": n} for n in (1, 2)]
    assert [one.seconds for one in message_figures(report(sweep, n_pairs=2))] == [1e-6, 2e-6]
    assert [one.labels["nodes"] for one in message_figures(report(sweep))] == [1, 2]


def test_the_accesses_of_the_fast_multipole_method_are_points():
    row = {"operation": "get", "communicators": 9, "messages": 1000, "seconds": 0.5, "rate": 3e6}
    (figures,) = message_figures(report([row], "cuda", {HMEM: "1"}))
    assert (figures.points, figures.seconds, figures.bytes) == (1000, 0.5, 3e6)
    assert figures.labels == {"operation": "get", "communicators": 9, "buffers": "GPU, HMEM on"}
    (off,) = message_figures(report([row], "cuda-staged", {HMEM: "0"}))
    assert off.labels["buffers"] == "GPU through host, HMEM off"


def plan(*vary, **given):
    options = {"bench": "one-sided", "vary": vary, "settings": ("pattern=fmm",), **given}
    return make_plan(read_request(None, options), here=False)


def test_an_axis_names_ranks_beside_settings():
    """The rows of Table 4 of MPI on Aurora, one rank on each node."""
    found = plan("total_messages=1615459,19201665 & ranks=8,144 & communicators=1,9", "operations=get,put")
    assert [(point.ranks, point.axes["total_messages"]) for point in found.points] == [
        (8, 1615459), (8, 1615459), (144, 19201665), (144, 19201665),
    ]  # fmt: skip
    assert found.points[-1].command[-2:] == ("--op", "put")
    assert "--communicators" in found.points[-1].command
    for vary, given, words in (
        (("total_messages=1,2 & ranks=2,0",), {}, "numbers of ranks must be whole numbers from 1 on"),
        (("total_messages=1,2 & ranks=2,3",), {"ranks": (2, 3), "weak": True}, "an axis of ranks belongs to"),
    ):
        with pytest.raises(ConfigError, match=words):
            plan(*vary, **given)


def test_values_that_repeat_are_told_apart_by_the_other_keys():
    names = [point.axes for point in plan("device=cpu,cuda,cuda & hmem=default,on,off", settings=()).points]
    assert names == [
        {"device": "cpu", "hmem": "default"},
        {"device": "cuda", "hmem": "on"},
        {"device": "cuda", "hmem": "off"},
    ]
