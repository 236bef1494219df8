"""What lies at an output's path: ours is set aside, the rest is left alone."""

import json
import os

import numpy as np
import pytest
from matplotlib.figure import Figure
from mpi4py import MPI

from ridgeline.analysis.plot import save_figure
from ridgeline.bench.result import Column, Result, to_csv
from ridgeline.io import output_files
from ridgeline.io.bp import BPWriter, Variable
from ridgeline.io.series import SeriesWriter
from ridgeline.runtime.errors import OutputError


def write_data_set(path, value=1.0, steps=1):
    variable = Variable("u", np.float64, (3,), (0,), (3,))
    with BPWriter(path, MPI.COMM_SELF, [variable], {}) as out:
        for step in range(steps):
            out.write(step, float(step), {"u": np.full(3, value)})


def write_series(path, value=1.0, rows=1):
    with SeriesWriter(path, MPI.COMM_SELF, ("energy",)) as out:
        for step in range(rows):
            out.write(step, float(step), {"energy": value})


def write_csv(path, value=1.0):
    rows = [{"size": 8, "seconds": value}]
    figures = Result("latency", "", "", "", 1, [Column("size", "size"), Column("seconds", "s")], rows)
    output_files.write_text(path, to_csv(figures), "--csv")


def write_json(path, value=1.0):
    output_files.write_text(path, output_files.to_json({"value": value}), "--json")


def write_picture(path, value=1.0):
    figure = Figure(figsize=(1, 1))
    figure.subplots().plot([0, value])
    save_figure(figure, path)


WRITERS = {
    "gs.bp": write_data_set,
    "series.csv": write_series,
    "series.dat": write_series,
    "latency.csv": write_csv,
    "report.json": write_json,
    "plane.png": write_picture,
    "plane.svg": write_picture,
    "plane.pdf": write_picture,
}
BOTH = pytest.mark.parametrize(("name", "write"), WRITERS.items(), ids=list(WRITERS))


def content(path):
    if path.is_dir():
        return {file.name: file.read_bytes() for file in path.iterdir()}
    return path.read_bytes()


@BOTH
def test_what_we_wrote_is_set_aside_again_and_again(tmp_path, name, write, caplog):
    path = tmp_path / name
    stem, suffix = path.stem, path.suffix
    kept = {}
    for number, aside in enumerate([f"{stem}.previous{suffix}", f"{stem}.previous-2{suffix}"], start=1):
        write(path, float(number))
        kept[aside] = content(path)
    write(path, 3.0)
    last = f"{stem}.previous-2{suffix}"
    if suffix == ".json":  # of which one is kept
        kept = {f"{stem}.previous{suffix}": kept[last]}
        last = f"{stem}.previous{suffix}"
    assert sorted(os.listdir(tmp_path)) == sorted([name, *kept])
    assert {aside: content(tmp_path / aside) for aside in kept} == kept
    assert f"was renamed to {tmp_path / last}" in caplog.text


@BOTH
def test_what_we_did_not_write_stays(tmp_path, name, write):
    path = tmp_path / name
    path.write_text("precious\n")
    with pytest.raises(OutputError, match="Ridgeline did not write it"):
        write(path)
    path.unlink()
    path.mkdir()
    (path / "notes.txt").write_text("precious\n")
    with pytest.raises(OutputError, match=r"Ridgeline did not write it \(a folder with notes.txt\)"):
        write(path)
    assert os.listdir(tmp_path) == [name]
    assert (path / "notes.txt").read_text() == "precious\n"


@BOTH
def test_a_link_keeps_pointing_where_it_points(tmp_path, name, write):
    target = tmp_path / "disk" / f"real{os.path.splitext(name)[1]}"
    target.parent.mkdir()
    link = tmp_path / name
    link.symlink_to(target)
    for value in (1.0, 2.0):
        write(link, value)
        assert link.is_symlink()
    assert sorted(os.listdir(target.parent)) == sorted([target.name, f"real.previous{target.suffix}"])


def test_what_holds_nothing_is_replaced(tmp_path):
    write_data_set(tmp_path / "gs.bp", steps=0)
    write_series(tmp_path / "s.csv", rows=0)
    (tmp_path / "report.json").touch()
    (tmp_path / "empty.bp").mkdir()
    for name, write in (
        ("gs.bp", write_data_set),
        ("s.csv", write_series),
        ("report.json", write_json),
        ("empty.bp", write_data_set),
    ):
        write(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["empty.bp", "gs.bp", "report.json", "s.csv"]


def test_a_data_set_with_a_file_of_the_user_is_not_ours(tmp_path):
    write_data_set(tmp_path / "gs.bp")
    (tmp_path / "gs.bp" / "notes.txt").write_text("precious")
    with pytest.raises(OutputError, match="did not write it"):
        write_data_set(tmp_path / "gs.bp")
    with pytest.raises(OutputError, match="did not write it"):
        output_files.delete_output(tmp_path / "gs.bp", "output.path")
    assert (tmp_path / "gs.bp" / "notes.txt").read_text() == "precious"


@BOTH
def test_discarding_deletes_what_is_ours(tmp_path, name, write):
    write(tmp_path / name)
    output_files.delete_output(tmp_path / name, "output.path")
    write(tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_a_file_is_never_half_written(tmp_path):
    path = tmp_path / "report.json"
    write_json(path)
    before = path.read_text()

    def fail():
        with output_files.atomic_output(path, "--json") as new:
            new.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert os.listdir(tmp_path) == ["report.json"]
    assert path.read_text() == before
    assert json.loads(before)["generator"] == output_files.GENERATOR


def test_a_list_of_numbers_is_one_line_of_json():
    content = {
        "counts": [1, 2, 3], "rows": [[1.5, None], [float("nan"), -2e-9]], "texts": ["[\n1,\n2\n]", "a"], "none": [],
        "mixed": [1, {"a": [1]}, "[", 2],
    }  # fmt: skip
    text = output_files.to_json(content)
    assert {'  "counts": [1, 2, 3],', "    [1.5, null],", "    [NaN, -2e-09]"} <= set(text.splitlines())
    assert str(json.loads(text)) == str(
        {"generator": output_files.GENERATOR} | content
    )  # nan is unequal to itself


def test_devices_and_pipes_are_written_as_they_are(tmp_path, capsys):
    output_files.write_text("/dev/null", "{}", "--json")
    output_files.check_writable("/dev/null", "--json")
    output_files.write_text("-", "{}", "--json")
    assert capsys.readouterr().out == "{}"


def test_a_pipe_gets_all_of_a_file_and_one_without_a_reader_is_not_waited_for(tmp_path):
    pipe = tmp_path / "report.json"
    os.mkfifo(pipe)
    output_files.check_writable(pipe, "--json")
    with pytest.raises(
        OutputError, match=r"cannot write .*report.json: no process reads this pipe. .*--json"
    ):
        output_files.write_text(pipe, "{}", "--json")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    output_files.write_text(pipe, "{}", "--json")
    assert os.read(reader, 100) == b"{}"
    os.close(reader)
    reading, writing = os.pipe()
    output_files.check_writable(f"/dev/fd/{writing}", "--json")
    output_files.write_text(f"/dev/fd/{writing}", "[]", "--json")
    assert os.read(reading, 100) == b"[]"
    os.close(reading)
    os.close(writing)


def test_a_full_device_is_a_sentence():
    with pytest.raises(OutputError, match=r"cannot write /dev/full: No space left on device\. .*--trace"):
        output_files.write_text("/dev/full", "{}", "--trace")


@pytest.mark.parametrize(("name", "write"), [("gs.bp", write_data_set), ("series.csv", write_series)])
@pytest.mark.parametrize("kind", ["/dev/full", "a pipe"])
def test_what_is_continued_or_renamed_is_no_device_and_no_pipe(tmp_path, name, write, kind):
    """Their first bytes are not looked for: a device has no end, and a pipe perhaps no writer."""
    path = tmp_path / name
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(kind)
    with pytest.raises(OutputError, match=r"= .* is a device, a pipe or a socket, but it must be a file"):
        write(path)
    assert not output_files.is_output(path)


def test_whether_a_file_can_be_written_is_known_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_json("old.json")
    for file in ("old.json", "new.json", tmp_path / "new.json", "-", None):
        output_files.check_writable(file, "--json")
    assert os.listdir(tmp_path) == ["old.json"]
    (tmp_path / "file").write_text("x")
    for file in (tmp_path / "no" / "x.json", tmp_path / "file" / "x.json"):
        with pytest.raises(OutputError, match=r"cannot write .*: .*[Cc]hoose another --json"):
            output_files.check_writable(file, "--json")
    (tmp_path / "case.toml").write_text("[run]\n")
    for file in (tmp_path, "case.toml"):
        with pytest.raises(OutputError, match=r"did not write it .*choose another --json"):
            output_files.check_writable(file, "--json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_protected_folder_is_said(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match="Permission denied"):
            output_files.check_writable(tmp_path / "x.json", "--json")
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_that_is_missing_is_named(tmp_path):
    for check in (output_files.check_writable, output_files.check_appendable):
        with pytest.raises(OutputError) as error:
            check(tmp_path / "a" / "b" / "x.json", "--json")
        assert str(error.value) == (
            f"cannot write {tmp_path}/a/b/x.json: the folder {tmp_path}/a does not exist. Create it, or choose "
            "another --json."
        )
