"""Spans of work: noted by regions, as events of a trace, and which share of some work other work hides."""

import pytest

from ridgeline.runtime.regions import HOST, Regions, Span, Timeline, hidden_share, trace_events


def test_regions_note_every_entry_while_there_is_a_timeline() -> None:
    regions = Regions()
    with regions("before"):
        pass
    timeline = regions.timeline = Timeline()
    for _ in range(2):
        with regions("outer"), regions("inner"):
            pass
    with pytest.raises(ZeroDivisionError), regions("failing"):
        raise ZeroDivisionError
    regions.timeline = None
    with regions("after"):
        pass
    spans = timeline.spans()
    assert [span.name for span in spans] == ["outer", "inner", "outer", "inner", "failing"]
    assert {span.lane for span in spans} == {HOST}
    outer, inner = spans[:2]
    assert outer.begin <= inner.begin <= inner.end <= outer.end
    assert regions.table["inner"].calls == 2


def test_sources_are_asked_at_the_end_and_pieces_are_in_order() -> None:
    timeline = Timeline()
    timeline.host.append(Span("compute", HOST, 2.0, 3.0))
    later = []
    timeline.sources.append(lambda: later)
    later.append(Span("sweep", "rest", 1.0, 4.0))
    assert [span.name for span in timeline.spans()] == ["sweep", "compute"]


def test_events_are_in_microseconds_since_the_origin_and_ranks_and_lanes_have_names() -> None:
    """Perfetto takes numbers as threads, and their names from events of metadata."""
    spans = [
        Span("sweep", "rest", 2.5, 2.75),
        Span("pack", "faces", 2.5, 2.6),
        Span("compute", HOST, 2.5, 3.0),
    ]
    *named, sweep, pack, compute = trace_events(spans, 3, 2.0)
    assert sweep == {"name": "sweep", "ph": "X", "pid": 3, "tid": 2, "ts": 5e5, "dur": 2.5e5}
    assert (pack["tid"], compute["tid"]) == (1, 0)
    assert [(event["ph"], event["pid"]) for event in named] == [("M", 3)] * 4
    assert [(event["name"], event["tid"], event["args"]["name"]) for event in named] == [
        ("process_name", 0, "rank 3"),
        ("thread_name", 0, HOST),
        ("thread_name", 1, "faces"),
        ("thread_name", 2, "rest"),
    ]


def test_the_share_that_is_hidden() -> None:
    rest = [Span("sweep", "rest", 10, 20), Span("sweep", "rest", 30, 40)]
    spans = [
        *rest,
        Span("pack", "faces", 0, 12),
        Span("exchange", HOST, 12, 36),
        Span("compute", HOST, 0, 40),
    ]
    # 2 of the 12 of packing, 8 + 6 of the 24 of the exchange
    assert hidden_share(spans, ("pack", "exchange"), "rest") == pytest.approx(16 / 36)
    assert hidden_share(spans, ("pack",), "rest") == pytest.approx(2 / 12)
    assert hidden_share(rest, ("pack", "exchange"), "rest") == 0
