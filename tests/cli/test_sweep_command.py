"""`ridgeline sweep`: a small real sweep, in which one case diverges, and the same one again."""

import csv

import pytest

import ridgeline as package

OVER = ("--over", "model.noise=0,1e25", "--over", "model.F=0.02:0.04:3")


@pytest.mark.full
@pytest.mark.parametrize("ranks", [1, 2])
def test_cases_share_processes_and_one_that_fails_stops_no_other(ridgeline, ranks):
    case = ridgeline.write(steps=40, every=20, shape="1, 12, 10", checkpoint=40)
    arguments = (case, *OVER, "-n", ranks, "--at-once", 2, "--picture", "V", "-o", "swept")
    done = ridgeline("sweep", *arguments)
    assert done.returncode == 1, done.stderr
    folder = ridgeline.path / "swept"
    rows = list(csv.DictReader((folder / "sweep.csv").read_text().splitlines()))
    assert [row["state"] for row in rows] == ["done"] * 3 + ["failed"] * 3
    assert [row["F"] for row in rows[:3]] == ["0.02", "0.03", "0.04"]
    assert "the fields stopped being finite between step 1 and step 20" in done.stdout
    for row in rows[:3]:
        point = folder / "points" / f"n{ranks}_noise-0_F-{row['F']}" / "1"
        with package.open(point / "gray_scott.bp") as data:
            assert data.step.values.tolist() == [20, 40]
            assert float(row["V_mean"]) == pytest.approx(float(data.V.sel(step=40).mean()), rel=1e-12)
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")
    files = ", ".join(str(folder / name) for name in ("sweep.md", "sweep.png", "sweep_figures.png"))
    assert files in "".join(done.stdout.split("\n"))
    assert "![contact sheet](sweep.png)" in (folder / "sweep.md").read_text()
    assert len(list((folder / "processes").glob("*.log"))) == 2
    whole = ridgeline("run", case, "--set", "model.noise=0", "--set", "model.F=0.03")
    assert whole.returncode == 0, whole.stderr
    with (
        package.open(ridgeline.path / "gray_scott.bp") as alone,
        package.open(folder / "points" / f"n{ranks}_noise-0_F-0.03" / "1" / "gray_scott.bp") as swept,
    ):
        assert alone.equals(swept)
    again = ridgeline("sweep", *arguments)
    assert again.returncode == 1
    assert "3 of 6 cases are done already" in again.stdout


@pytest.mark.full
def test_a_sweep_without_pictures_says_so(ridgeline):
    case = ridgeline.write(steps=2, every=0, shape="4, 4, 4")
    done = ridgeline("sweep", case, "--over", "model.F=0.02,0.03", "--at-once", 1)
    assert done.returncode == 0, done.stderr
    assert "no contact sheet: no case wrote a field. Set output.every." in done.stdout
    folder = ridgeline.path / "sweep_gray_scott"
    assert (folder / "sweep.csv").is_file()
    assert "![final values](sweep_figures.png)" in (folder / "sweep.md").read_text()
    written = (folder / "sweep_figures.png").read_bytes()
    assert written.startswith(b"\x89PNG")
    (folder / "sweep_figures.png").unlink()
    assert ridgeline("plot", folder / "sweep.json").returncode == 0
    assert (folder / "sweep_figures.png").read_bytes() == written
