"""Which rank measures which GPU, and what a stage makes of what the processes say; without any GPU."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from fake_nvml import FakeGpu, FakeNvml
from ridgeline.config.machine_file import check_machine
from ridgeline.parallel.layout import Layout
from ridgeline.validate.judge.history import make_entry
from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.thresholds import Thresholds, limits_of_machine
from ridgeline.validate.measure import gpu_stages
from ridgeline.validate.measure.measurements import Measurements, PartQuantity
from ridgeline.validate.measure.node_gpus import Gpus, NodeGpu, deal_gpus
from ridgeline.validate.measure.nvml_readings import opened
from ridgeline.validate.measure.session import Session
from ridgeline.validate.report.prometheus import write_textfile
from ridgeline.validate.validation_options import ValidationOptions

USERS = gpu_stages.users_of_gpus
A, B, C, D = (f"0000:{bus}:00.0" for bus in ("18", "3b", "86", "af"))


def test_one_rank_sees_all_and_four_ranks_share_them():
    four = [(address, address, index) for index, address in enumerate((B, A, D, C))]
    alone = deal_gpus(Layout((0,), (0,), ("n",)), [four])
    assert [(g.number, g.address, g.rank, g.index) for g in alone.all] == [
        (0, A, 0, 1),
        (1, B, 0, 0),
        (2, C, 0, 3),
        (3, D, 0, 2),
    ]
    assert alone.names() == {0: [f"GPU {n} ({address})" for n, address in enumerate((A, B, C, D))]}
    shared = deal_gpus(Layout((0,) * 4, tuple(range(4)), ("n",)), [four] * 4)
    assert [g.rank for g in shared.all] == [0, 1, 2, 3]
    assert [g.name for g in shared.of_rank(2)] == [f"GPU 2 ({C})"]


def test_launchers_that_show_each_rank_its_own():
    own = [[(A, "a", 0)], [(B, "b", 0)], [(A, "a", 0)], []]
    gpus = deal_gpus(Layout((0, 0, 1, 1), (0, 1, 0, 1), ("m", "n")), own, "a rank sees none")
    assert [(g.node, g.number, g.address, g.rank) for g in gpus.all] == [
        (0, 0, A, 0),
        (0, 1, B, 1),
        (1, 0, A, 2),
    ]
    assert gpus.missing == ""
    nothing = deal_gpus(Layout((0,), (0,), ("n",)), [[]], "no driver")
    assert (nothing.all, nothing.missing) == ([], "no driver")


def stage(monkeypatch, answers, busy=(), broken=()):
    """Return the verdict of the stage on one node of four GPUs, from what the processes print."""
    monkeypatch.setattr(gpu_stages, "users_of_gpus", lambda: dict(busy))
    monkeypatch.setattr(gpu_stages, "unusable_gpus", lambda: dict(broken))
    there = FakeNvml(*(FakeGpu(f"0000{address}") for address in (A, B, C, D, "0000:d8:00.0")))
    monkeypatch.setattr(gpu_stages, "opened", lambda nvml=None: opened(nvml or there))
    monkeypatch.setattr(
        gpu_stages, "run_check", lambda what, chosen, *_: answers(what, [g.index for g in chosen])
    )
    measurements = Measurements(["n1"], node_of_rank=[0])
    gpus = Gpus([NodeGpu(0, n, address, 0, n) for n, address in enumerate((A, B, C, D))])
    session = Session(
        SimpleNamespace(rank=0),
        Layout((0,), (0,), ("n1",)),
        ValidationOptions(prolog=True).plan(),
        None,
        measurements,
        None,
        None,
        gpus=gpus,
    )
    monkeypatch.setattr(Session, "on_nodes", lambda self, setup, repeats: [[setup()()]])
    gpu_stages.gpus(session)
    again = Measurements.from_dict(json.loads(json.dumps(measurements.to_dict())))
    return screen(again)


def healthy(what, indices, **changes):
    """What processes print of healthy GPUs, with other lines for some."""
    lines = []
    for n in indices:
        if what == "compute":
            lines.append({"index": n, "bytes": 1 << 30, "wrong": 0, "detail": ""})
            lines += [
                {"index": n, "quantity": "GPU triad", "values": [2.9e12, 3.0e12, 3.01e12]},
                {
                    "index": n,
                    "quantity": "GPU DGEMM",
                    "values": [5.1e13, 5.2e13, 5.2e13],
                    "wrong_products": 0,
                },
            ]
        else:
            lines += [
                {"index": n, "quantity": name, "values": [5.4e10, 5.5e10, 5.5e10]}
                for name in ("GPU host to device", "GPU device to host")
            ]
    if what == "copies":
        lines += [
            {"index": a, "peer": b, "quantity": "GPU to GPU", "values": [4e11] * 3}
            for a in indices
            for b in indices
            if a < b
        ]
    for line in lines:
        line.update(changes.get(f"gpu{line['index']}", {}).get(line.get("quantity", "memory"), {}))
    return lines


def test_healthy_gpus_are_acquitted(monkeypatch):
    verdict = stage(monkeypatch, healthy)
    assert (verdict.suspects, verdict.exit_code, verdict.good_nodes()) == ([], 0, ["n1"])
    assert "n1: this job does not see GPU 4 (0000:d8:00.0), which is therefore not measured." in verdict.notes
    assert [(summary.name, summary.count, summary.over) for summary in verdict.summaries] == [
        (name, 4, "GPUs") for name in ("GPU triad", "GPU DGEMM", "GPU host to device", "GPU device to host")
    ]


def test_a_gpu_of_a_node_is_compared_with_the_others(monkeypatch):
    slow = {"GPU triad": {"values": [2.1e12, 2.2e12, 2.2e12]}}
    verdict = stage(monkeypatch, lambda what, indices: healthy(what, indices, gpu2=slow))
    (suspect,) = verdict.suspects
    assert (suspect.kind, suspect.name, suspect.nodes) == ("GPU", f"n1 GPU 2 ({C})", [0])
    assert suspect.reasons[0].startswith("GPU triad: 2.2 TB/s where 3")
    assert verdict.good_nodes() == []
    assert verdict.nodes[0].reasons[0].startswith(f"n1 GPU 2 ({C}): GPU triad")


def test_wrong_memory_products_and_copies_and_states_without_hope(monkeypatch):
    memory = {"memory": {"wrong": 3, "detail": "the first at offset 64"}}
    products = {"GPU DGEMM": {"wrong_products": 5}}
    verdict = stage(
        monkeypatch,
        lambda what, indices: healthy(what, indices, gpu0=memory, gpu1=products),
        broken={D: "a faulty row of its memory could not be remapped, according to NVML"},
    )
    assert {s.name: s.reasons for s in verdict.suspects} == {
        f"n1 GPU 0 ({A})": ["3 words of its memory are wrong, the first at offset 64"],
        f"n1 GPU 1 ({B})": ["5 numbers of a product of matrices are wrong"],
        f"n1 GPU 3 ({D})": ["a faulty row of its memory could not be remapped, according to NVML"],
    }


def test_a_gpu_that_another_process_uses_is_busy(monkeypatch):
    asked = []

    def answers(what, indices):
        asked.extend(indices)
        return healthy(what, indices)

    verdict = stage(monkeypatch, answers, busy={B: "process 4711"})
    assert verdict.suspects == []
    assert [busy.reasons for busy in verdict.busy] == [[f"GPU 1 ({B}) is used by process 4711"]]
    assert 1 not in asked
    nvml = FakeNvml(FakeGpu(), FakeGpu("00000000:86:00.0", processes=(7, 8)))
    assert USERS(nvml) == {C: "process 7, process 8"}


def test_a_process_that_hangs_or_dies_is_a_fault_of_its_gpu(monkeypatch, tmp_path):
    gpus = [NodeGpu(0, n, "", 0, n) for n in range(3)]
    program = tmp_path / "python"
    monkeypatch.setattr(gpu_stages.sys, "executable", str(program))

    def run(script, what="compute", chosen=gpus[:1], seconds=30.0):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return gpu_stages.run_check(what, chosen, True, 3, seconds)

    assert run("exec tail -f /dev/null", seconds=0.5) == [
        {"index": 0, "fault": "it did not finish its check within 0.5 s"}
    ]
    died = run("echo '{\"index\": 0, \"wrong\": 0}'; echo 'bus error' >&2; exit 135")
    fault = "the process that checked it ended with exit code 135: bus error"
    assert died == [{"index": 0, "wrong": 0}, {"index": 0, "fault": fault}]
    # Copies are made one GPU after the other: the one without a figure is at fault.
    lines = run("echo '{\"index\": 0}'; exit 1", "copies", gpus)
    assert lines[-1] == {"index": 1, "fault": "the process that checked it ended with exit code 1"}
    assert run("echo '{warning}'; echo '{\"index\": 0}'") == [{"index": 0}]
    assert run("exit 0")[0]["fault"] == "the process that checked it ended with exit code 0"


def machine(seed, slow=1.0):
    """Return one healthy node of four GPUs, with triad of GPU 2 slowed."""
    random = np.random.default_rng(seed)
    measurements = Measurements(["n1"], node_of_rank=[0], gpus={0: [f"GPU {n} ({A})" for n in range(4)]})
    places = np.array([(0, n, -1) for n in range(4)])
    values = 3e12 * (1 + 0.005 * random.standard_normal((4, 3)))
    values[2] *= slow
    measurements.part_quantities = [PartQuantity("GPU triad", "B/s", True, *places.T, values)]
    return measurements


def test_a_gpu_drifts_from_its_baseline_and_from_its_history():
    loose = Thresholds(slowdown=0.9, z=500)
    history = [make_entry(one, screen(one)) for one in map(machine, range(4))]
    assert history[0]["values"]["GPU triad, GPU 2"]["n1"] > 2.9e12
    for how in ({"baseline": machine(9)}, {"history": history}):
        assert screen(machine(10), loose, **how).suspects == []
        (suspect,) = screen(machine(10, slow=0.8), loose, **how).suspects
        assert (suspect.kind, suspect.name) == ("GPU", f"n1 GPU 2 ({A})")
        assert next(iter(how)) in suspect.reasons[0]


def test_figures_of_gpus_are_in_the_textfile(tmp_path):
    measurements = machine(0)
    write_textfile(measurements, screen(measurements), tmp_path / "x.prom")
    assert 'quantity="GPU triad, GPU 2",unit="B/s"} 3' in (tmp_path / "x.prom").read_text()


def test_the_machine_file_limits_a_gpu():
    text = '[machine]\nname = "x"\n[device]\nmemory_bandwidth = {value = 4.0, unit = "TB/s", source = "s"}\n'
    limits = limits_of_machine(check_machine(Path("x.toml"), text), 0.9, 1, 1)
    assert limits["GPU triad"] == 0.9 * 4e12
    verdict = screen(machine(0), Thresholds(machine_limits=limits))
    assert len(verdict.suspects) == 4
    assert all("at least 3.6 TB/s is required" in s.reasons[0] for s in verdict.suspects)


def test_gpus_that_differ_by_their_place_are_compared_with_their_like():
    random = np.random.default_rng(0)
    places = np.array([(node, number, -1) for node in range(4) for number in range(4)])
    by_place = np.array([1.0, 1.0, 0.5, 0.7])[places[:, 1]]
    for slow, expected in ((1.0, []), (0.8, ["n3 GPU 2"])):
        values = 5e10 * by_place[:, None] * (1 + 0.01 * random.standard_normal((16, 3)))
        values[14] *= slow
        measurements = Measurements([f"n{n}" for n in range(4)], node_of_rank=[*range(4)])
        measurements.part_quantities = [PartQuantity("GPU host to device", "B/s", True, *places.T, values)]
        assert [s.name for s in screen(measurements).suspects] == expected
