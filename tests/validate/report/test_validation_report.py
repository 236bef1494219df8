"""The report: one page that a browser opens without a network and that names the suspects, JSON, and nodes.good."""

import json
import re
import shutil
import subprocess
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser

import numpy as np
import pytest

from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.verdict import Drift, Warned
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity, Stage
from ridgeline.validate.report.page import make_page, write_report
from simulated_system import all_pairs, simulate

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def sick_system() -> Measurements:
    """Eight nodes: nid3 with a slow network, a slow link 1 - 6, wrong memory in a host with an odd name, a hang."""
    speed = np.full((8, 8), 2e10)
    speed[3, :] = speed[:, 3] = 1.5e10
    speed[1, 6] = speed[6, 1] = 1.2e10
    names = [f"nid{node}" for node in range(7)] + ["<b>nid7</b>&"]
    measurements = all_pairs(speed, names)
    share = np.full((8, 3), 0.995)
    share[5] = 0.61
    measurements.node_quantities = [NodeQuantity("cpu_share", "", True, share)]
    measurements.errors = {7: ["memory: 2 wrong words, the first at byte 81920"]}
    measurements.stages = [
        Stage("memory", "node", 2.0),
        Stage("all-to-all", "system", 60.0, "hung", "", [4], {0: 4}),
    ]
    measurements.counters = {"eth0/rx_errors": {"before": [0] * 8, "after": [0, 0, 0, 12, 0, 0, 0, 0]}}
    rows = [{"size": 8, "bandwidth": 1.25e8}, {"size": 64, "bandwidth": None}]
    columns = {"size": "B", "bandwidth": "MB/s"}
    measurements.system = [{"benchmark": "alltoall", "pattern": "all", "columns": columns, "rows": rows}]
    return measurements


class Cells(HTMLParser):
    """Collects the text of every table cell of one section."""

    def __init__(self, section: str) -> None:
        super().__init__()
        self.section, self.inside, self.open, self.cells = section, False, False, []

    def handle_starttag(self, tag, attrs):
        if tag == "section":
            self.inside = dict(attrs).get("id") == self.section
        if tag == "td" and self.inside:
            self.open = True
            self.cells.append("")

    def handle_endtag(self, tag):
        self.open = self.open and tag != "td"

    def handle_data(self, data):
        if self.open:
            self.cells[-1] += data


def cells_of(page: str, section: str) -> list[str]:
    parser = Cells(section)
    parser.feed(page)
    return parser.cells


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    measurements = sick_system()
    verdict = screen(measurements)
    return verdict, write_report(measurements, verdict, tmp_path_factory.mktemp("validation") / "report")


def test_a_browser_shows_the_suspects(report, tmp_path):
    if CHROMIUM is None:
        pytest.skip("no Chromium here")
    verdict, path = report
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--disable-dev-shm-usage", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    cells = cells_of(done.stdout, "suspects")
    parts = list(zip(cells[::4], cells[1::4]))
    assert parts == [(suspect.kind, suspect.name) for suspect in verdict.suspects]
    assert set(parts) == {
        ("node", "nid3"), ("node", "nid4"), ("node", "<b>nid7</b>&"), ("link", "nid1 - nid6"),
    }  # fmt: skip
    assert "nid5 is busy" in done.stdout
    # The browser drew the charts: a distribution and a map of bandwidth, and the processors' share.
    assert done.stdout.count("<svg") == 3
    assert "rank 4 did not answer in stage all-to-all" in "".join(cells)


def test_the_page_asks_no_network(report):
    page = report[1].read_text()
    references = re.findall(r"(?:src|href|action|data|poster)\s*=\s*[\"']([^\"']*)", page)
    references += re.findall(r"url\(([^)]*)\)", page) + re.findall(r"@import[^;]*", page)
    outside = [r for r in references if not r.startswith(("data:", "#"))]
    assert outside == []
    assert "<script" not in page


def hostile(value):
    """Return a value with an element of HTML before each string in it, of keys too."""
    if isinstance(value, dict):
        return {hostile(key): hostile(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [hostile(entry) for entry in value]
    if is_dataclass(value):
        return replace(value, **{f.name: hostile(getattr(value, f.name)) for f in fields(value)})
    return f"<hr>{value}" if isinstance(value, str) else value


def test_nothing_that_was_measured_can_break_the_page(report, monkeypatch):
    """Hosts, groups and counters have names that others gave them."""
    measurements, verdict = sick_system(), deepcopy(report[0])
    measurements.machine, measurements.settings = {"cpu": "EPYC"}, {"level": "node"}
    measurements.system[0]["formula"] = "n (n - 1) / 2"
    measurements.counters = {"<hr>eth0": {"before": [0], "after": [1]}}
    verdict.warnings, verdict.notes = [Warned(0, "nid0", "a link went down")], ["a remark"]
    verdict.drifts = [Drift("bandwidth", "B/s", 0, "nid0", 1e9, 5e8, 1.0, True)]
    for values in (measurements, verdict):
        vars(values).update(
            {name: hostile(value) for name, value in vars(values).items() if name != "counters"}
        )
    charts = [("<hr>a title", "<svg></svg>")]
    monkeypatch.setattr("ridgeline.validate.report.page.quantity_charts", lambda *_: charts)
    page = make_page(measurements, verdict)
    assert page.count("<svg></svg>") == 1
    assert page.count("&lt;hr&gt;") > 50
    assert "<hr>" not in page


def test_every_part_of_the_page_is_there(report):
    page = report[1].read_text()
    assert cells_of(page, "counters") == ["eth0/rx_errors", "0", "12", "nid3 +12"]
    assert "hung" in cells_of(page, "stages")
    assert "1.25e+08" in cells_of(page, "system")
    nodes = cells_of(page, "nodes")
    assert dict(zip(nodes[::4], nodes[1::4])) | {"nid0": "healthy"} == dict(zip(nodes[::4], nodes[1::4]))
    assert any("Leave the node out" in cell for cell in cells_of(page, "advice"))


def test_the_head_and_the_figures_of_one_node_say_nothing_empty(tmp_path):
    one = Measurements(
        ["n0"], node_of_rank=[0], machine={"cpu": ["EPYC"], "ranks_per_node": 1, "quick": True}
    )
    one.settings = {
        "level": "node",
        "only": False,
        "stages": (),
        "phase": "",
        "rounds": None,
        "time_limit": 300.0,
    }
    one.settings |= {"serial": True}
    one.node_quantities = [NodeQuantity("compute", "operations/s", True, np.full((1, 3), 1.048e10))]
    stored = Measurements.from_dict(json.loads(json.dumps(one.to_dict())))
    for measurements in (one, stored):
        page = write_report(measurements, screen(measurements), tmp_path).read_text()
        assert '<p class="soft">level node, time limit 300.0, serial</p>' in page
        assert "cpu: EPYC · ranks per node: 1 · quick: True" in page
        cells = cells_of(page, "figures")
        assert cells[2:5] == ["10.48 billion operations/s", "", "10.48 billion operations/s"]
        assert cells[8:] == ["", ""]  # one node has no spread: neither deviation nor noise nor limit
    named = Measurements.from_dict(one.to_dict() | {"settings": {"stages": ["peak", "stream"]}})
    assert "stages peak, stream" in write_report(named, screen(named), tmp_path).read_text()


def test_maps_of_pairs_stand_together_after_the_distributions(report):
    page = report[1].read_text()
    heads = re.findall(r"<h3>(.*?)</h3>", page)
    assert heads == sorted(heads, key=lambda head: "map of pairs" in head)


def test_json_and_hostfile_say_the_same(report):
    verdict, path = report
    content = json.loads((path.parent / "report.json").read_text())
    assert content["verdict"]["exit_code"] == 1
    assert [s["name"] for s in content["verdict"]["suspects"]] == [s.name for s in verdict.suspects]
    assert Measurements.from_dict(content).nodes == sick_system().nodes
    good = (path.parent / "nodes.good").read_text().split()
    assert good == verdict.good_nodes() == ["nid0", "nid1", "nid2"]
    bad = (path.parent / "nodes.bad").read_text().split()
    assert sorted(good + bad) == sorted(sick_system().nodes)


def test_healthy_and_unmeasured_systems_have_a_report(tmp_path):
    healthy = all_pairs(np.full((4, 4), 1e10))
    page = write_report(healthy, screen(healthy), tmp_path / "a").read_text()
    assert 'class="healthy"' in page
    assert "4 of 4 nodes" in page
    nothing = Measurements(["a", "b"])
    page = write_report(nothing, screen(nothing), tmp_path / "b").read_text()
    assert 'class="unmeasured"' in page
    assert "no quantity was measured" in page


def test_a_report_of_ten_thousand_nodes_stays_small(tmp_path):
    system = simulate(rounds=4, repeats=3)
    path = write_report(system.measurements, screen(system.measurements), tmp_path)
    assert path.stat().st_size < 1_000_000
