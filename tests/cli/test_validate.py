"""`ridgeline validate` on this machine as one node: stages, files, and one sentence for bad input."""

import json


def thresholds(ridgeline) -> str:
    # The tests share their cores with whatever else runs: what is judged here is not this machine's health.
    (ridgeline.path / "limits.toml").write_text("[thresholds]\ncpu_share = 0.01\nothers_share = 1\n")
    return "limits.toml"


def test_a_healthy_node_its_report_and_its_baseline(ridgeline):
    options = ("-n", 2, "--quick", "--level", "node", "--stage", "compute", "--stage", "on-node")
    limits = ("--thresholds", thresholds(ridgeline))
    done = ridgeline("validate", *options, *limits, "--report", "health", "--save-baseline", "march.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on-node" in done.stdout
    report = json.loads((ridgeline.path / "health" / "report.json").read_text())
    names = {quantity["name"] for quantity in report["node_quantities"]}
    assert {"cpu_share", "on-node latency", "on-node bandwidth"} <= names
    assert (ridgeline.path / "health" / "nodes.good").read_text().split() == report["nodes"]
    assert [set(rank) for rank in report["ranks"]] == [{"interface", "source", "gpu"}] * 2
    assert report["mpi"]["mpi_library"]
    assert report["mpi"]["environment"] is not None
    page = (ridgeline.path / "health" / "report.html").read_text()
    assert report["nodes"][0] in page
    assert "http" not in page.replace("http://www.w3.org", "")

    stored = json.loads((ridgeline.path / "march.json").read_text())
    stored["machine"]["cpu"] = ["another"]
    (ridgeline.path / "other.json").write_text(json.dumps(stored))
    other = ridgeline("validate", *options, *limits, "--baseline", "other.json")
    assert other.returncode == 2
    assert "another" in other.stderr
    assert other.stderr.count("error:") == 1


def test_loopback_needs_messages_that_leave_the_node(ridgeline):
    options = ("-n", 4, "--quick", "--level", "node", "--stage", "loopback", "--report", "r")
    limits = ("--thresholds", thresholds(ridgeline))
    done = ridgeline("validate", *options, *limits)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "skipped: messages inside a node go through shared memory" in " ".join(done.stdout.split())
    through_network = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"}
    done = ridgeline("validate", *options, *limits, env=through_network)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((ridgeline.path / "r" / "report.json").read_text())
    assert len(report["nodes"]) == 1
    assert [quantity["name"] for quantity in report["node_quantities"]] == [
        "loopback latency",
        "loopback bandwidth",
    ]


def test_a_day_that_was_not_well_is_no_baseline(ridgeline):
    (ridgeline.path / "limits.toml").write_text(
        "[thresholds]\ncpu_share = 0.01\nothers_share = 1\n[thresholds.limits]\ncompute = 1e30\n"
    )
    options = ("--quick", "--level", "node", "--stage", "compute", "--thresholds", "limits.toml")
    done = ridgeline("validate", *options, "--save-baseline", "march.json")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "error: --save-baseline march.json: nothing was stored, because" in done.stderr
    assert not (ridgeline.path / "march.json").exists()


def test_bad_input_ends_with_one_sentence(ridgeline):
    (ridgeline.path / "hosts").write_text("nowhere\n")
    (ridgeline.path / "file").write_text("")
    for options, words in (
        (("--stage", "warp"), "--stage warp: level system has no such stage"),
        (("--hostlist", "hosts"), "host nowhere has no rank in this job"),
        (("--report", "file/below"), "file/below"),
        (("--baseline", "none.json"), "cannot read none.json"),
        (("--prolog", "--epilog"), "--prolog cannot be used with --epilog"),
        (("--job-output", "out.txt"), "--job-output requires --prolog or --epilog"),
    ):
        done = ridgeline("validate", "--quick", *options)
        assert done.returncode != 0, options
        assert words in done.stderr
        assert done.stderr.count("error:") == 1
        assert "Traceback" not in done.stderr


def test_a_prolog_measures_this_node_alone(ridgeline):
    done = ridgeline("validate", "--prolog", "--thresholds", thresholds(ridgeline), "--report", "prolog")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((ridgeline.path / "prolog" / "report.json").read_text())
    done_stages = {stage["name"] for stage in report["stages"] if stage["outcome"] == "done"}
    assert {"memory", "compute", "peak", "stream"} <= done_stages
    assert {stage["level"] for stage in report["stages"]} == {"node"}


def test_an_epilog_looks_at_what_a_job_may_have_left(ridgeline):
    done = ridgeline("validate", "--epilog", "--thresholds", thresholds(ridgeline), "--report", "epilog")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((ridgeline.path / "epilog" / "report.json").read_text())
    assert [stage["name"] for stage in report["stages"]] == ["prepare", "memory", "compute"]
    assert {stage["outcome"] for stage in report["stages"]} == {"done"}
    assert report["settings"]["phase"] == "epilog"
    assert "Only their growth during the epilog is known" in report["remarks"][0]
    assert report["remarks"][0] in done.stdout
