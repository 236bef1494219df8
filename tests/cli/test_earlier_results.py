"""What earlier runs, other runs and the user have at the paths of a run is not lost."""

import os
import signal

import pytest

import ridgeline as package
from ridgeline.runtime.locks import PathLock


@pytest.fixture
def case(ridgeline):
    return ridgeline.write(steps=8, every=4, checkpoint=4)


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def steps_of(path):
    with package.open(path) as data:
        return data.step.values.tolist()


@pytest.mark.full
def test_three_runs_lose_nothing_of_each_other_nor_of_the_user(ridgeline, case):
    results = ridgeline.path / "results"
    (results / "checkpoints").mkdir(parents=True)
    notes = [
        results / "notes.txt",
        results / "checkpoints" / "notes.txt",
        ridgeline.path / "results.previous",
    ]
    for note in notes:
        note.write_text("precious")
    paths = ["--set", "output.path=results/gs.bp", "--set", "checkpoint.path=results/checkpoints"]
    paths += ["--set", "output.series_every=2", "--set", "output.series=results/s.csv"]
    for steps in (8, 12, 16):
        done = ridgeline("run", case, *paths, "--set", f"run.steps={steps}", "--json", "results/copy.json")
        assert done.returncode == 0, done.stderr
    assert [note.read_text() for note in notes] == ["precious"] * 3
    expected = {8: "gs.previous.bp", 12: "gs.previous-2.bp", 16: "gs.bp"}
    for steps, name in expected.items():
        assert steps_of(results / name)[-1] == steps
    folder = results / "checkpoints"
    assert names(folder) == ["checkpoint_00000012", "checkpoint_00000016", "notes.txt", "previous"]
    assert names(folder / "previous") == ["checkpoint_00000008", "checkpoint_00000012"], "one run is kept"
    found = {*names(results)}
    assert {"s.previous.csv", "s.previous-2.csv", "copy.previous.json", "gs.bp.run.previous.json"} <= found
    assert not found & {"copy.previous-2.json", "gs.bp.run.previous-2.json"}
    back = [*paths, "--set", "run.steps=20", "--resume", "results/checkpoints/previous"]
    refused = ridgeline("run", case, *back)  # in the data set of the third run
    assert refused.returncode == 6, refused.stderr
    assert not (folder / "previous-2").exists()
    again = ridgeline(
        "run", case, *back, "--set=output.path=results/a.bp", "--set=output.series=results/a.csv"
    )
    assert again.returncode == 0, again.stderr
    assert "previous/checkpoint_00000012 at step 12" in again.stderr
    assert names(folder / "previous") == ["checkpoint_00000008", "checkpoint_00000012"], "it began there"
    assert names(folder / "previous-2") == ["checkpoint_00000012", "checkpoint_00000016"]


def test_overwrite_deletes_what_is_ours_and_nothing_else(ridgeline, case):
    assert ridgeline("run", case).returncode == 0
    (ridgeline.path / "gray_scott.bp.txt").write_text("precious")
    done = ridgeline("run", case, "--overwrite")
    assert done.returncode == 0, done.stderr
    assert "gray_scott.previous.bp" not in names(ridgeline.path)
    too_large = ridgeline("run", case, "--overwrite", "--set", "grid.shape=[20000,20000,20000]")
    assert too_large.returncode == 2, too_large.stderr
    assert steps_of(ridgeline.path / "gray_scott.bp") == [4, 8]
    (ridgeline.path / "gray_scott.bp" / "notes.txt").write_text("precious")
    refused = ridgeline("run", case, "--overwrite")
    assert refused.returncode == 6
    assert "did not write it" in refused.stderr
    assert steps_of(ridgeline.path / "gray_scott.bp") == [4, 8]


@pytest.mark.full
def test_linked_folders_stay_links(ridgeline, case):
    for name in ("checkpoints", "gray_scott.bp"):
        target = ridgeline.path / "scratch" / name
        target.mkdir(parents=True)
        (ridgeline.path / name).symlink_to(target)
    for _ in range(3):
        done = ridgeline("run", case)
        assert done.returncode == 0, done.stderr
    assert (ridgeline.path / "checkpoints").is_symlink()
    assert (ridgeline.path / "gray_scott.bp").is_symlink()
    scratch = names(ridgeline.path / "scratch")
    assert scratch == ["checkpoints", "gray_scott.bp", "gray_scott.previous-2.bp", "gray_scott.previous.bp"]
    assert names(ridgeline.path / "scratch" / "checkpoints")[-1:] == ["previous"]


@pytest.mark.parametrize(
    ("paths", "key", "rule"),
    [
        ({"checkpoint.path": "."}, "checkpoint.path", "a path that does not contain output.path"),
        (
            {"checkpoint.path": "gs.bp", "output.path": "gs.bp"},
            "checkpoint.path",
            "a path that differs from output.path",
        ),
        ({"output.path": "c/gs.bp", "checkpoint.path": "c"}, "output.path", "a path outside checkpoint.path"),
        (
            {"checkpoint.path": "gs.bp/c", "output.path": "gs.bp"},
            "checkpoint.path",
            "a path outside output.path",
        ),
        ({"output.series": "checkpoints/s.csv"}, "output.series", "a path outside checkpoint.path"),
        ({"output.series": "gray_scott.bp/s.csv"}, "output.series", "a path outside output.path"),
        ({"output.series": "./x/../gray_scott.bp"}, "output.series", "a path that differs from output.path"),
        (
            {"output.series": "gray_scott.bp.run.json"},
            "output.path",
            "a path whose report, gray_scott.bp.run.json, is outside output.series",
        ),
        ({"output.series": "link/s.csv"}, "output.series", "a path outside checkpoint.path"),
    ],
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_paths_inside_one_another_are_refused(ridgeline, case, command, paths, key, rule):
    (ridgeline.path / "link").symlink_to(ridgeline.path / "checkpoints")
    settings = [f"--set={key}={value}" for key, value in ({"output.series_every": 4} | paths).items()]
    done = ridgeline(command, case, *settings)
    assert done.returncode == 2, done.stderr
    assert key in done.stderr
    assert f"it must be {rule}" in done.stderr
    assert names(ridgeline.path) == ["case.toml", "link"]


@pytest.mark.full
@pytest.mark.parametrize("key", ["output.path", "output.series", "checkpoint.path"])
def test_a_path_in_use_is_refused_and_the_run_that_uses_it_goes_on(ridgeline, key):
    case = ridgeline.write(steps=1_000_000, every=100_000)
    paths = {"output.path": "a.bp", "output.series": "a.csv", "checkpoint.path": "a"}
    settings = [f"--set={name}={value}" for name, value in paths.items()]
    settings += ["--set=output.series_every=1000", "--set=output.initial=true"]
    first = ridgeline.start("run", case, "-n", 2, *settings, start_new_session=True)
    try:
        while "block" not in (line := first.stderr.readline()):
            assert line, first.communicate()
        others = {name: value.replace("a", "b") for name, value in paths.items() if name != key}
        settings = [f"--set={name}={value}" for name, value in ({key: paths[key]} | others).items()]
        second = ridgeline("run", case, *settings, "--set=output.series_every=1000", "--set=run.steps=4")
        assert second.returncode == 6, second.stderr
        assert second.stderr.count("error:") == 1
        assert f"{key} = {paths[key]} is in use by process " in second.stderr
        assert "Traceback" not in second.stderr
        first.send_signal(signal.SIGTERM)
        _, errors = first.communicate(timeout=60)
        assert first.returncode == 0, errors
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
            first.communicate()
    assert steps_of(ridgeline.path / "a.bp") is not None
    assert not list(ridgeline.path.rglob("*.lock"))


def test_a_lock_of_a_killed_run_does_not_stop_the_next(ridgeline):
    case = ridgeline.write(steps=1_000_000, every=100_000)
    first = ridgeline.start("run", case, start_new_session=True)
    lock = PathLock.beside(ridgeline.path / "gray_scott.bp", "").file
    while "method" not in (line := first.stderr.readline()) and not lock.exists():
        assert line, first.communicate()
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert lock.exists()
    done = ridgeline("run", case, "--set", "run.steps=4")
    assert done.returncode == 0, done.stderr
    assert "That run has ended, so this run uses it." in done.stderr
    assert not lock.exists()


def test_checkpoints_that_cannot_be_written_are_refused_before_the_first_step(ridgeline):
    case = ridgeline.write(steps=1_000_000, every=0)
    (ridgeline.path / "taken").write_text("a file")
    for place in ("taken", "taken/below", "/proc/checkpoints"):
        done = ridgeline("run", case, "--set", f"checkpoint.path={place}", timeout=60)
        assert done.returncode == 4, done.stderr
        assert f"cannot write checkpoints to {place}" in done.stderr
        assert "Set checkpoint.path" in done.stderr
    assert (ridgeline.path / "taken").read_text() == "a file"


def test_a_run_without_checkpoints_leaves_no_folder_for_them(ridgeline):
    case = ridgeline.write(steps=4, every=0)
    assert ridgeline("run", case).returncode == 0
    assert names(ridgeline.path) == ["case.toml", "gray_scott.bp.run.json"]


@pytest.mark.parametrize("copy", ["case.toml", "gray_scott.bp/x.json", "checkpoints/x.json", "."])
def test_the_report_replaces_no_file_of_the_user(ridgeline, case, copy):
    before = case.read_text()
    done = ridgeline("run", case, "--json", copy)
    assert done.returncode == 6, done.stderr
    assert "hoose another --json" in done.stderr
    assert case.read_text() == before


@pytest.mark.full
def test_pictures_have_names_of_their_own_and_are_set_aside(ridgeline, case):
    assert (
        ridgeline("run", case, "--set=output.series_every=2", "--set=output.series=gray_scott.csv").returncode
        == 0
    )
    for _ in range(2):
        for name in ("gray_scott.bp", "gray_scott.csv"):
            done = ridgeline("plot", name)
            assert done.returncode == 0, done.stderr
    pictures = [name for name in names(ridgeline.path) if name.endswith(".png")]
    assert pictures == sorted(
        [
            "gray_scott.csv.png",
            "gray_scott.csv.previous.png",
            "gray_scott.png",
            "gray_scott.previous.png",
        ]
    )
    (ridgeline.path / "mine.png").write_bytes(b"\x89PNG")
    refused = ridgeline("plot", "gray_scott.bp", "-o", "mine.png")
    assert refused.returncode == 6
    assert (ridgeline.path / "mine.png").read_bytes() == b"\x89PNG"


@pytest.mark.full
@pytest.mark.parametrize("output", ["data set", "series"])
def test_a_run_does_not_go_on_in_what_another_run_wrote(ridgeline, output):
    case = ridgeline.write(steps=8, every=2, checkpoint=4)
    series = ["--set=output.series_every=1", "--set=output.series=first.csv"]
    first = ["--set=output.path=first.bp", "--set=checkpoint.path=first"]
    assert ridgeline("run", case, *first, *series).returncode == 0
    shared = {"data set": ["--set=output.path=first.bp"], "series": series}[output]
    other = ridgeline("run", case, *shared, "--set=model.F=0.03")
    assert other.returncode == 0, other.stderr
    resumed = ridgeline("run", case, *first, *series, "--resume", "auto", "--set=run.steps=12")
    assert resumed.returncode == 6, resumed.stderr
    assert f"the {output} first." in resumed.stderr
    assert "another run has written to it since" in resumed.stderr
    assert steps_of(ridgeline.path / "first.bp") == [2, 4, 6, 8]
