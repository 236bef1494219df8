"""`ridgeline predict` and the line of `ridgeline check` as a user calls them."""

import json

import pytest


def test_a_prediction_is_printed_written_and_drawn(ridgeline) -> None:
    ridgeline.write(shape="64, 64, 64")
    done = ridgeline(
        "predict", "case.toml", "--machine", "frontier", "--nodes", "2", "--json", "p.json", "--plot", "p.svg"
    )
    assert done.returncode == 0, done.stderr
    assert "prediction for Frontier, 16 ranks on 2 nodes: gray_scott" in done.stdout
    assert "halo exchange" in done.stdout
    (found,) = json.loads((ridgeline.path / "p.json").read_text())["predictions"]
    assert found["seconds"] == pytest.approx(sum(found["parts"].values()))
    assert (ridgeline.path / "p.svg").stat().st_size > 0


@pytest.mark.full
def test_a_sweep_of_hpcg_on_a_users_machine(ridgeline) -> None:
    (ridgeline.path / "toy.toml").write_text(
        '[machine]\nname = "toy"\n[node]\nmemory_bandwidth = { value = 40, unit = "GB/s", source = "STREAM" }\n'
    )
    done = ridgeline(
        "predict", "hpcg", "--machine", "toy.toml", "--sweep", "1,2", "--set", "nx=20", "--json", "-"
    )
    assert done.returncode == 2
    assert "nx = 20" in done.stderr
    sizes = [word for name in ("nx", "ny", "nz") for word in ("--set", f"{name}=32")]
    done = ridgeline("predict", "hpcg", "--machine", "toy.toml", "--sweep", "1,2", *sizes, "--json", "-")
    assert done.returncode == 0, done.stderr
    one, two = json.loads(done.stdout)["predictions"]
    assert one["lacks"] == {}
    assert two["lacks"]["halo exchange"] == "network.injection"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("case.toml", "--machine", "frontir"), "Did you mean 'frontier'?"),
        (
            ("case.toml", "--machine", "frontier", "--nodes", "0"),
            "the number of nodes is 0, but it must be 1 to 9408",
        ),
        (("case.toml", "--machine", "frontier", "--sweep", "1,x"), "--sweep 1,x"),
        (("hpcg", "--machine", "frontier", "--iterations", "pressure=3"), "--iterations"),
        (("cas.toml", "--machine", "frontier"), "Did you mean 'case.toml'?"),
    ],
)
def test_mistakes_are_one_sentence(ridgeline, words, said) -> None:
    ridgeline.write()
    done = ridgeline("predict", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_check_predicts_for_a_machine(ridgeline) -> None:
    ridgeline.write()
    done = ridgeline("check", "case.toml", "--machine", "frontier")
    assert done.returncode == 0, done.stderr
    assert "predicted for 1 node of Frontier" in done.stdout


def test_check_and_predict_say_how_far_off_they_were_in_earlier_runs(ridgeline, tmp_path):
    case = ridgeline.write(steps=6000, shape="40, 30, 32", every=0)
    cache = {"RIDGELINE_CACHE_DIR": str(tmp_path / "cache")}
    assert "earlier run" not in ridgeline("check", case, env=cache).stdout
    done = ridgeline("run", case, env=cache)
    assert done.returncode == 0, done.stderr
    fraction = json.loads((ridgeline.path / "gray_scott.bp.run.json").read_text())["fraction_of_stream"]
    said = ridgeline("check", case, env=cache).stdout
    factor = f"{1 / fraction:.2g}"
    assert f"the steps of an earlier run on this machine took {factor} times that, so expect about " in said
