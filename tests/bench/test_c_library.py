"""C compiled on the spot: done once, done anew when the source changes, and a reason where it cannot be done."""

import ctypes
import shutil

import pytest
from mpi4py import MPI

from ridgeline.bench import c_library as c_baseline
from ridgeline.bench.c_library import SOURCES, address_of, load_c

ANSWER = {"answer": (ctypes.c_int, ctypes.c_int)}
needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on this machine"
)


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Write the text of answer.c, where the sources are looked for; the cache is empty."""
    monkeypatch.setattr(c_baseline, "SOURCES", tmp_path)
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("MPICC", raising=False)
    return (tmp_path / "answer.c").write_text


@needs_compiler
def test_a_source_is_compiled_once_and_again_when_it_changes(source, tmp_path, monkeypatch):
    source("int answer(int x) { return x + 1; }")
    library, how = load_c(None, "answer", ANSWER)
    assert library is not None, how
    assert library["answer"](41) == 42
    assert "-O3" in how
    assert library.command in how
    assert library.compiler in how
    assert library.path.parent == tmp_path / "cache" / "c"
    made = library.path.stat().st_mtime_ns
    with monkeypatch.context() as only_versions:
        run = c_baseline._run
        only_versions.setattr(c_baseline, "_run", lambda command: run(command[:1] + command[-1:]))
        again, how_again = load_c(None, "answer", ANSWER)  # compiling would fail
    assert again is not None
    assert (again.path, again.path.stat().st_mtime_ns, how_again) == (library.path, made, how)
    source("int answer(int x) { return x + 2; }")
    changed, _ = load_c(None, "answer", ANSWER)
    assert changed is not None
    assert changed.path != library.path
    assert changed["answer"](41) == 43
    assert sorted(path.suffix for path in library.path.parent.iterdir()) == [".so", ".so", ".txt", ".txt"]


@needs_compiler
def test_options_that_the_compiler_lacks_are_done_without(source, monkeypatch):
    source("int answer(int x) { return x + 1; }")
    monkeypatch.setattr(c_baseline, "OPTIONAL", (("-fno-such-option", "-O1"), ("-O2",)))
    library, how = load_c(None, "answer", ANSWER)
    assert library is not None, how
    assert "-O2" in how
    assert "-fno-such-option" not in how


@needs_compiler
def test_the_compiler_can_be_chosen(source, monkeypatch):
    source("int answer(int x) { return x + OFFSET; }")
    monkeypatch.setenv("CC", f"{shutil.which('cc') or shutil.which('gcc')} -DOFFSET=5")
    library, how = load_c(None, "answer", ANSWER)
    assert library is not None, how
    assert library["answer"](1) == 6
    assert "-DOFFSET=5" in library.command


@needs_compiler
def test_a_source_that_is_wrong_gives_the_compilers_words(source):
    source("int answer(int x) { return y; }")
    library, reason = load_c(None, "answer", ANSWER)
    assert library is None
    assert "cannot compile answer.c" in reason
    assert "undeclared" in reason


@needs_compiler
def test_a_cache_that_cannot_be_written_is_replaced(source, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(c_baseline.tempfile, "tempdir", str(tmp_path))
    source("int answer(int x) { return x + 1; }")
    library, how = load_c(None, "answer", ANSWER)
    assert library is not None, how
    assert library.path.is_relative_to(tmp_path)
    assert library["answer"](1) == 2


@needs_compiler
def test_a_full_cache_is_a_reason(source, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    source("int answer(int x) { return x + 1; }")
    monkeypatch.setattr(c_baseline.tempfile, "TemporaryDirectory", full)
    library, reason = load_c(None, "answer", ANSWER)
    assert library is None
    assert "cannot compile answer.c: " in reason
    assert reason.endswith("/c: No space left on device")


def test_without_a_compiler_there_is_a_reason(source, tmp_path, monkeypatch):
    source("int answer(int x) { return x + 1; }")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert load_c(None, "answer", ANSWER) == (None, "no C compiler: there is no cc on PATH or in CC")
    library, reason = load_c(MPI.COMM_SELF, "answer", ANSWER)  # mpicc may be there, what it calls is not
    assert library is None
    assert reason.startswith("no C compiler: ")
    monkeypatch.setenv("MPICC", "no-such-mpicc")
    _, reason = load_c(MPI.COMM_SELF, "answer", ANSWER)
    assert (
        reason == "no C compiler: there is no mpicc beside the interpreter, on PATH, or in the variable MPICC"
    )


@needs_compiler
def test_another_mpi_is_refused(source, monkeypatch):
    source(
        "int MPI_Get_library_version(char *v, int *n) { v[0] = *n = 0; return 0; }\nint answer(int x) { return x; }"
    )
    monkeypatch.setenv("MPICC", shutil.which("cc") or shutil.which("gcc") or "")
    library, reason = load_c(MPI.COMM_SELF, "answer", ANSWER)
    assert library is None
    assert "a different MPI library" in reason


@needs_compiler
def test_c_sees_the_communicator(source):
    source("#include <mpi.h>\nint answer(MPI_Comm *c) { int n = 0; MPI_Comm_size(*c, &n); return n; }")
    library, reason = load_c(MPI.COMM_SELF, "answer", {"answer": (ctypes.c_int, ctypes.c_void_p)})
    if library is None:
        pytest.skip(reason)
    assert library["answer"](address_of(MPI.COMM_SELF)) == 1


def test_sources_are_part_of_the_package():
    assert (SOURCES / "mpi_patterns.c").is_file()
