"""hpcg.dat as the official code ships it, with less in it, and with what cannot be read."""

from pathlib import Path

import pytest

from bench_tools import options_for
from ridgeline.bench.hpcg.hpcg_report import write_report
from ridgeline.bench.hpcg.hpcg_settings import (
    HpcgDat,
    HpcgSettings,
    choose_settings,
    read_hpcg_dat,
)
from ridgeline.bench.result import Result
from ridgeline.runtime.errors import ConfigError, OutputError

HEAD = "HPCG benchmark input file\nSandia National Laboratories; University of Tennessee, Knoxville\n"


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ("104 104 104\n60\n", HpcgDat(104, 104, 104, 60)),
        ("16 24 32  nx ny nz\n0 seconds\n", HpcgDat(16, 24, 32, 0)),
        ("16\r\n24 32\r\n\r\n7", HpcgDat(16, 24, 32, 7)),
        ("64 64 64\n", HpcgDat(64, 64, 64, 1800)),
    ],
)
def test_read(tmp_path, body, content):
    (tmp_path / "a.dat").write_bytes((HEAD + body).encode())
    assert read_hpcg_dat(tmp_path / "a.dat") == content


def test_the_file_that_is_supplied_is_as_its_page_says(monkeypatch):
    folder = Path(__file__).parents[3] / "examples" / "hpcg"
    assert read_hpcg_dat(folder / "hpcg.dat") == HpcgDat(104, 104, 104, 60)
    monkeypatch.chdir(folder)
    assert choose_settings(options_for("hpcg")) == HpcgSettings((104, 104, 104), 60.0, "hpcg.dat")
    page = (folder.parents[1] / "docs" / "hpcg.md").read_text()
    assert (folder / "hpcg.dat").read_text() in page
    assert "--dat examples/hpcg/hpcg.dat" in page


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD, "there are 0 sizes"),
        (HEAD + "104 104\n", "there are 2 sizes"),
        (HEAD + "104 1o4 104\n60\n", "one of the sizes is '1o4'"),
        (HEAD + "16 16 16\nsoon\n", "the number of seconds is 'soon'"),
        (HEAD + "16 16 16\n-1\n", "the seconds are -1"),
    ],
)
def test_refuse(tmp_path, text, words):
    (tmp_path / "a.dat").write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_hpcg_dat(tmp_path / "a.dat")


def test_missing(tmp_path):
    with pytest.raises(OutputError, match="No such file"):
        read_hpcg_dat(tmp_path / "none.dat")


NONE = (None, None, None)


def test_settings_come_from_the_command_line_the_file_or_the_rules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def chosen(sizes, seconds, dat):
        nx, ny, nz = sizes
        settings = choose_settings(options_for("hpcg", nx=nx, ny=ny, nz=nz, seconds=seconds, dat=dat))
        return settings.box, settings.seconds, settings.source

    assert chosen(NONE, None, None) == ((104, 104, 104), 60.0, None)
    assert chosen((32, None, 16), 5.0, None) == ((32, 32, 16), 5.0, None)
    (tmp_path / "hpcg.dat").write_text(HEAD + "16 24 32\n9\n")
    assert chosen(NONE, None, None) == ((16, 24, 32), 9.0, "hpcg.dat")
    assert chosen(NONE, 3.0, None) == ((16, 24, 32), 3.0, "hpcg.dat")
    assert chosen((48, None, None), None, None) == ((48, 48, 48), 60.0, None)
    assert chosen((48, None, None), None, "hpcg.dat") == ((48, 24, 32), 9.0, "hpcg.dat")


def test_report_goes_into_a_new_folder(tmp_path):
    result = Result("HPCG 3.1", "", "", "", 1, (), [], extra={"text": "text\n"})
    (said,) = write_report(result, options_for("hpcg", output=str(tmp_path / "new" / "folder")))
    path = Path(said.removeprefix("report: "))
    assert path.parent == tmp_path / "new" / "folder"
    assert path.read_text() == "text\n"
    with pytest.raises(OutputError, match="Choose another --output"):
        write_report(result, options_for("hpcg", output=str(path)))
