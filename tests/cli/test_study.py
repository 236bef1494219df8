"""`ridgeline study`: a small real study from its plan to its page, a job that fails, help, and refusals."""

import csv
import json

import pytest

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.full
def test_a_study_of_two_points_one_of_which_fails(ridgeline):
    """On a machine without a GPU the second point fails; run again, the study does that one only."""
    ridgeline.write(steps=4, shape="8, 8, 8")
    asked = ("case.toml", "--vary", "run.device=cpu,cuda", "--repeat", 1, "-o", "devices")
    done = ridgeline("study", "run", *asked, env=NO_GPU)
    assert done.returncode == 1, done.stderr
    assert "2 points, 1 job of each, 2 jobs in random order (seed 1)" in done.stdout
    assert "n1_device-cuda/1 failed: exit code 8 error: " in done.stdout
    folder = ridgeline.path / "devices"
    (row,) = csv.DictReader((folder / "study.csv").read_text().splitlines())
    assert (row["device"], row["ranks"], row["efficiency"]) == ("cpu", "1", "1.0")
    assert float(row["points"]) / float(row["seconds"]) == pytest.approx(float(row["points_per_second"]))
    report = json.loads((folder / "points" / "n1_device-cpu" / "1" / "report.json").read_text())
    assert report["settings"]["output.every"] == 0
    assert {path.name for path in ridgeline.path.iterdir()} == {"case.toml", "devices"}
    page = (folder / "study.md").read_text()
    assert "failed: n1_device-cuda/1 (exit code 8 error: " in page
    again = ridgeline("study", "run", "devices", env=NO_GPU)
    assert again.returncode == 1
    assert "1 of 2 jobs are done already" in again.stdout
    assert "1 of 1: n1_device-cuda/1" in again.stdout
    shown = ridgeline("report", "devices/study.json")
    assert shown.returncode == 0, shown.stderr
    assert "gray_scott, strong scaling" in shown.stdout


def test_scripts_are_written_and_nothing_is_run(ridgeline):
    ridgeline.write()
    done = ridgeline(
        "study", "run", "case.toml", "--weak", "--ranks", "8,64", "--submit", "slurm", "--ranks-per-node", 8
    )
    assert done.returncode == 0, done.stderr
    folder = ridgeline.path / "study_gray_scott_weak"
    assert f"sbatch {folder}/submit/ranks_64.slurm" in done.stdout
    assert "--nodes=8" in (folder / "submit" / "ranks_64.slurm").read_text()
    assert not list(folder.glob("points/*/*/log.txt"))
    done = ridgeline("study", "collect", folder)
    assert done.returncode == 0
    assert "no job has finished yet" in done.stdout
    assert "missing: n8/1 (it has no report yet)" in done.stdout


def test_refusals_leave_nothing_behind(ridgeline):
    ridgeline.write()
    before = sorted(ridgeline.path.iterdir())
    for arguments, code, words in (
        (("run", "case.toml", "--ranks", "1;2"), 2, "--ranks 1;2 is not a list of numbers of ranks"),
        (("run", "case.toml", "--strong", "--ranks", "100000", "--submit", "slurm"), 3, "point n100000"),
        (("run", "case.toml", "--strong", "--ranks", "100000"), 2, "--oversubscribe"),
        (("compare", ".", "."), 6, "is not the folder of a study"),
    ):
        done = ridgeline("study", *arguments)
        assert done.returncode == code, (arguments, done.stderr)
        assert done.stderr.count("error:") == 1
        assert words in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr
    assert sorted(ridgeline.path.iterdir()) == before


def test_a_study_continues_from_a_checkpoint_on_any_number_of_ranks(ridgeline):
    case = ridgeline.write(steps=6, checkpoint=6, every=0)
    assert ridgeline("run", case).returncode == 0
    asked = ("--checkpoint", "checkpoints", "--strong", "--repeat", 1)
    done = ridgeline(
        "study", "run", "case.toml", *asked, "--ranks", "1,2", "--set", "run.steps=4", "-o", "developed"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for ranks in (1, 2):
        file = ridgeline.path / "developed" / "points" / f"n{ranks}" / "1" / "report.json"
        run = json.loads(file.read_text())["run"]
        assert (run["first_step"], run["last_step"]) == (6, 10)
    settings = (ridgeline.path / "developed" / "study.toml").read_text()
    assert f'checkpoint = "{ridgeline.path / "checkpoints"}"' in settings
    assert ridgeline("study", "run", "developed").returncode == 0
    for options, words in (
        (("--weak", "--ranks", "1,2"), "point n2: --checkpoint is of another case, because of grid.shape"),
        (("--set", "model.F=0.03"), "point n1: --checkpoint is of another case, because of model.F"),
    ):
        refused = ridgeline(
            "study", "run", "case.toml", "--checkpoint", "checkpoints", *options, "-o", "none"
        )
        assert refused.returncode == 2
        assert words in refused.stderr
        assert not (ridgeline.path / "none").exists()
    missing = ridgeline("study", "run", "case.toml", "--checkpoint", "nowhere", "-o", "none")
    assert (missing.returncode, missing.stderr) == (
        4,
        "error: --checkpoint nowhere: there is no checkpoint.\n",
    )
