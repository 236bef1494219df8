"""Which share of some work other work hides, and the file of a trace."""

import json

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from ridgeline.models.gray_scott.device.stream_trace import HOST, hidden_share, write_trace


def piece(lane, begin, end):
    return {"name": lane, "ph": "X", "pid": 0, "tid": lane, "ts": begin, "dur": end - begin}


def test_the_share_that_is_hidden() -> None:
    events = [piece("rest", 10, 20), piece("rest", 30, 40), piece("faces", 0, 12), piece(HOST, 12, 36)]
    # 2 of the 12 on faces, 8 + 6 of the host's 24
    assert hidden_share(events, ("faces", HOST), "rest") == pytest.approx(16 / 36)
    assert hidden_share(events, ("faces",), "rest") == pytest.approx(2 / 12)
    assert hidden_share(events[:2], ("faces", HOST), "rest") == 0


def test_a_trace_is_a_file_for_viewers(tmp_path) -> None:
    write_trace(tmp_path / "trace.json", [piece("rest", 10, 20)])
    read = json.loads((tmp_path / "trace.json").read_text())
    assert read["traceEvents"] == [piece("rest", 10, 20)]
