"""HPL.dat as the official code ships it, and with what cannot be read."""

from pathlib import Path

import pytest
from mpi4py import MPI

from ridgeline.bench.hpl.hpl_dat import HplTest, plan_of, read_hpl_dat
from ridgeline.bench.hpl.sizes import FreeMemory, hpl_bytes
from ridgeline.runtime.errors import ConfigError, OutputError

LINES = (Path(__file__).parents[3] / "examples" / "hpl" / "HPL.dat").read_text().splitlines()


def read(tmp_path, lines):
    (tmp_path / "HPL.dat").write_text("\n".join(lines))
    return read_hpl_dat(tmp_path / "HPL.dat")


def test_the_file_of_the_official_code(tmp_path):
    dat = read(tmp_path, LINES)
    assert (dat.output, dat.device, dat.threshold, dat.row_major) == ("HPL.out", 6, 16.0, True)
    assert dat.sizes == (29, 30, 34, 35)
    assert dat.grids == ((2, 2), (1, 4), (4, 1))
    assert (dat.swap, dat.swap_threshold, dat.equilibrate, dat.alignment) == (2, 64, True, 8)
    tests = list(dat.tests())
    assert len(tests) == 864  # as "Finished 864 tests" of the official code with this file
    assert len(set(tests)) == 864
    assert tests[0] == HplTest(29, 1, 2, 2, True, 0, 0, 0, 2, 0, 2)
    assert [one.code for one in tests[:4]] == ["WR00L2L2", "WR00L2L4", "WR00L2C2", "WR00L2C4"]
    assert tests[-1].code == "WR00R2R4"


def test_broadcasts_of_vendors_run_as_in_hpl_2_3(tmp_path):
    lines = [*LINES]
    lines[10], lines[11] = "1 1 1        Ps", "1 1 1        Qs"
    lines[21:23] = ["3            # of broadcast", "0 6 7        BCASTs (0=1rg,1=1rM,...,6=Psh,7=Psh2)"]
    dat = read(tmp_path, lines)
    assert dat.broadcasts == (0, 6, 7)
    plan = plan_of(MPI.COMM_SELF, dat, "HPL.dat", FreeMemory(2**30, hpl_bytes))
    assert "BCAST 6, 7 is not available, and runs as 1 (1ringM) instead." in plan.notes
    assert {test.code[3] for test in plan.tests} == {"0", "1"}


def test_lines_of_later_versions_and_other_line_ends_are_read(tmp_path):
    (tmp_path / "HPL.dat").write_bytes("\r\n".join([*LINES, "##### This line (no. 32) is ignored"]).encode())
    assert len(read_hpl_dat(tmp_path / "HPL.dat").sizes) == 4


@pytest.mark.parametrize(
    ("line", "text", "words"),
    [
        (5, "0", ":5: the number of values of N is 0, but it must be 1 to 20."),
        (5, "21", ":5: the number of values of N is 21, but"),
        (5, "Ns", ":5: expected the number of values of N, but found 'Ns'."),
        (6, "29 30 34", ":6: expected a list of 4 values of N, but found 3 values."),
        (6, "29 30 34 Ns", ":6: expected a list of 4 values of N, but found 'Ns'."),
        (6, "29 30 34 -1", ":6: N is -1, but it must be 0 or more."),
        (8, "1 2 0 4", ":8: NB is 0, but it must be 1 or more."),
        (11, "2 1 0", ":11: P is 0, but it must be 1 or more."),
        (13, "nan", ":13: expected the threshold of the residual, a finite number, but found nan."),
        (15, "0 1 3", ":15: PFACT is 3, but it must be 0 to 2."),
        (19, "1", ":19: NDIV is 1, but it must be 2 or more."),
        (23, "8", ":23: BCAST is 8, but it must be 0 to 7."),
        (31, "   ", ":31: expected the memory alignment in doubles, but found 0 values."),
    ],
)
def test_a_damaged_file_names_the_line(tmp_path, line, text, words):
    lines = [*LINES]
    lines[line - 1] = text
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, lines)
    assert words in str(caught.value)


def test_every_shorter_file_is_refused_where_it_ends(tmp_path):
    for kept in range(len(LINES)):
        with pytest.raises(
            ConfigError, match=rf":{max(kept, 2) + 1}: expected .*, but the file ends before it"
        ):
            read(tmp_path, LINES[:kept])


def test_no_file(tmp_path):
    with pytest.raises(OutputError, match="No such file"):
        read_hpl_dat(tmp_path / "none.dat")
