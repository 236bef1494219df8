"""Time series as CSV: the bits come back, a resumed run cuts and goes on, damage and foreign files are named."""

import os
import resource
from itertools import pairwise

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.io.series import SeriesWriter, read_series
from ridgeline.runtime.errors import OutputError

COLUMNS = ("energy", "dissipation")
ODD = [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1 / 3, np.inf, -np.inf, np.nan, np.float32(0.1), 3]


def writer(path, columns=COLUMNS, **more):
    return SeriesWriter(path, MPI.COMM_SELF, columns, **more)


def put(series, *steps):
    for step in steps:
        series.write(step, 0.1 * step, {"energy": 1.0 / (1 + step), "dissipation": -float(step)})


@pytest.fixture
def path(tmp_path):
    """A series of the steps 0, 10, 20, 30."""
    path = tmp_path / "new" / "folder" / "series.csv"
    with writer(path) as series:
        put(series, 0, 10, 20, 30)
    return path


def test_every_number_reads_back_with_its_bits(tmp_path):
    path = tmp_path / "s.csv"
    random = np.random.default_rng(1).integers(0, 2**63, (50, 2), np.uint64).view(np.float64)
    rows = [(a, b) for a, b in [*random.tolist(), *pairwise(ODD)] if not (np.isnan(a) or np.isnan(b))]
    with writer(path) as series:
        for step, (a, b) in enumerate([*rows, (np.nan, 1.0)]):
            series.write(step, a, {"dissipation": b, "energy": a})
    read = read_series(path)
    assert list(read) == ["step", "time", "energy", "dissipation"]
    assert read["step"].dtype == np.int64
    assert read["step"].tolist() == list(range(len(rows) + 1))
    for name, expected in (("time", 0), ("energy", 0), ("dissipation", 1)):
        values = np.array([row[expected] for row in rows], np.float64)
        assert read[name][:-1].tobytes() == values.tobytes()
    assert np.isnan(read["energy"][-1])


def test_the_file_is_plain_csv_with_one_header(path):
    lines = path.read_text().splitlines()
    assert lines[0] == "step,time,energy,dissipation"
    assert lines[2] == "10,1.0,0.09090909090909091,-10.0"
    assert len(lines) == 5


def test_a_row_is_on_disk_when_write_returns(tmp_path):
    with writer(tmp_path / "s.csv") as series:
        for step in range(3):
            put(series, step)
            assert read_series(tmp_path / "s.csv")["step"].tolist() == list(range(step + 1))
            assert series.steps == step + 1


def test_a_series_without_rows_is_empty(tmp_path):
    writer(tmp_path / "s.csv").close()
    read = read_series(tmp_path / "s.csv")
    assert {name: values.shape for name, values in read.items()} == dict.fromkeys(
        ("step", "time", *COLUMNS), (0,)
    )


def test_a_fresh_run_starts_anew(path):
    with writer(path, ("other",)) as series:
        series.write(0, 0.0, {"other": 2.5})
    assert path.read_text() == "step,time,other\n0,0.0,2.5\n"


@pytest.mark.parametrize("tail", ["", "40,4.0,0.1", "40,", "what a bad disk wrote\n40"])
@pytest.mark.parametrize("keep", [1, 3, 4])
def test_a_resumed_run_cuts_what_came_after_and_goes_on(path, keep, tail):
    kept = path.read_bytes().splitlines(keepends=True)[: keep + 1]
    with path.open("a") as file:
        file.write(tail)
    with writer(path, keep_rows=keep) as series:
        assert path.read_bytes() == b"".join(kept)
        put(series, 50, 60)
        assert series.steps == keep + 2
    assert read_series(path)["step"].tolist() == [*[0, 10, 20, 30][:keep], 50, 60]


def test_a_run_resumed_before_the_first_row_starts_the_file(tmp_path, path):
    for place in (path, tmp_path / "absent.csv"):
        with writer(place, keep_rows=0) as series:
            put(series, 7)
        assert read_series(place)["step"].tolist() == [7]


def test_reading_leaves_out_a_row_that_is_not_complete(path):
    with path.open("a") as file:
        file.write("40,4.0,0.125,-4")
    assert read_series(path)["step"].tolist() == [0, 10, 20, 30]


@pytest.mark.parametrize("text", ["time,step\n", "import os\n", "\n", "step;time;energy\n", "step,tim"])
@pytest.mark.parametrize("keep", [None, 0, 2])
def test_a_foreign_file_is_left_alone(tmp_path, text, keep):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(OutputError, match="is not a time series" if keep else "did not write it"):
        writer(path, keep_rows=keep)
    assert path.read_text() == text
    with pytest.raises(OutputError, match="is not a time series"):
        read_series(path)


def test_an_empty_file_may_be_written_to(tmp_path):
    (tmp_path / "s.csv").touch()
    with writer(tmp_path / "s.csv") as series:
        put(series, 0)
    assert read_series(tmp_path / "s.csv")["step"].tolist() == [0]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (2, b"0,0.0,1.0\n"),
        (3, b"10,1.0,0.09,-10.0,5\n"),
        (3, b"10,1.0,0.09,\n"),
        (3, b"0,1.0,0.09,-10.0\n"),
        (4, b"20,2.0,0.0x,-20.0\n"),
        (4, b"\n"),
        (4, b"\xff\xfe\x00\n"),
        (4, b"2.5,2.0,0.1,-20.0\n"),
    ],
)
def test_a_damaged_row_is_named(path, line, text):
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = text
    path.write_bytes(b"".join(lines))
    expected = f"{path}:{line}: the time series is damaged, because this line is not a row of 4 numbers"
    with pytest.raises(OutputError, match=expected):
        read_series(path)
    with pytest.raises(OutputError, match=expected):
        writer(path, keep_rows=4)
    assert path.read_bytes() == b"".join(lines)
    with writer(path, keep_rows=line - 2) if line > 2 else writer(path) as series:  # before the damage
        put(series, 99)


def test_missing_rows_a_missing_file_and_other_columns_are_named(path, tmp_path):
    before = path.read_bytes()
    with pytest.raises(OutputError, match=r"holds 4 complete rows, but the run had written 5"):
        writer(path, keep_rows=5)
    with pytest.raises(OutputError, match=r"there is no time series .*absent\.csv.* 3 rows"):
        writer(tmp_path / "absent.csv", keep_rows=3)
    with pytest.raises(
        OutputError, match=r"has the columns step,time,energy,diss.* writes step,time,energy\."
    ):
        writer(path, ("energy",), keep_rows=2)
    assert path.read_bytes() == before


def test_a_place_where_nothing_can_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        OutputError, match=r"cannot write the time series .*file/s\.csv: File exists\. Set output\.series"
    ):
        writer(tmp_path / "file" / "s.csv")
    with pytest.raises(OutputError, match="did not write it"):
        writer(tmp_path)
    with pytest.raises(OutputError, match=r"cannot read the time series .*absent\.csv: No such file"):
        read_series(tmp_path / "absent.csv")


def test_a_full_disk_is_an_error_and_leaves_whole_rows(path):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    with writer(path, keep_rows=4) as series:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, limit[1]))
        try:
            with pytest.raises(
                OutputError, match=r"cannot write the row of step \d+ .*: File too large\. Free"
            ):
                put(series, 40, 50, 60)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert read_series(path)["step"].tolist()[:5] == [0, 10, 20, 30, 40]
    assert path.read_bytes().endswith(b"\n"), "half a number reads as another one"
    with writer(path, keep_rows=4) as series:
        put(series, 40, 50)
    assert read_series(path)["step"].tolist() == [0, 10, 20, 30, 40, 50]


@pytest.mark.parametrize("change", ["removed", "renamed", "replaced", "its folder"])
@pytest.mark.parametrize("moment", ["row", "end"])
def test_a_series_that_is_no_longer_at_its_path_is_an_error(path, change, moment):
    series = writer(path, keep_rows=4)
    if change == "removed":
        path.unlink()
    elif change == "its folder":
        path.parent.rename(path.parent.with_name("elsewhere"))
    else:
        path.rename(path.with_name("other.csv"))
        if change == "replaced":
            path.write_bytes(path.with_name("other.csv").read_bytes())
    with pytest.raises(OutputError, match=r"series\.csv was removed, renamed or replaced .* after 4 rows"):
        put(series, 40) if moment == "row" else series.close()


def test_a_series_that_is_not_regular_is_not_read(tmp_path):
    for name in ("pipe.csv", "/dev/zero"):
        if name == "pipe.csv":
            os.mkfifo(tmp_path / name)
        with pytest.raises(OutputError, match="this is not a regular file"):
            read_series(tmp_path / name)


def test_columns_are_checked(tmp_path, path):
    for columns in (("a,b",), ("time",), ("",), ('"a"',), ("a\nb",)):
        with pytest.raises(ValueError, match="Not all of these can be columns"):
            writer(tmp_path / "s.csv", columns)
    with (
        writer(path) as series,
        pytest.raises(ValueError, match=r"has the columns \['dissipation', 'energy'\], not \['energy'\]"),
    ):
        series.write(0, 0.0, {"energy": 1.0})
