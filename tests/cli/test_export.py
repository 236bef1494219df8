"""`ridgeline export` as a user calls it, beside the files for viewers that a run writes itself."""

from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name.partition("_0")[2]: path.read_bytes() for path in folder.glob("*.vti")}


def test_a_run_writes_the_files_that_an_export_writes(ridgeline):
    case = ridgeline.write(extra="\n")
    done = ridgeline("run", case, "-n", 2, "--set", "output.viewer=pvd", "--set", "output.path=gs.bp")
    assert done.returncode == 0, done.stderr
    done = ridgeline("export", "gs.bp", "all.pvd")
    assert (done.returncode, done.stderr) == (0, "wrote all.pvd\n")
    ours, theirs = contents(ridgeline.path / "gs_viewer"), contents(ridgeline.path / "all")
    assert len(ours) == 2
    assert ours == theirs
    listed = [(ridgeline.path / name).read_text() for name in ("gs_viewer/gs.pvd", "all.pvd")]
    assert listed[0].replace("gs_", "all/all_") == listed[1]

    for arguments, words in (
        (
            ("gs.bp", "all.pvd"),
            "error: 'all' exists already and is kept. Move it away, or choose another name.",
        ),
        (
            ("gs.bp", "gs.xyz"),
            "error: 'gs.bp' holds fields on a grid, which extended XYZ (.xyz) cannot hold.",
        ),
        (("none.bp", "a.vti"), "error: "),
    ):
        done = ridgeline("export", *arguments)
        assert done.returncode in (2, 6)
        assert done.stderr.startswith(words)
        assert done.stderr.count("\n") == 1
