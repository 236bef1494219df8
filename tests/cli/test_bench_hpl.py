"""`ridgeline bench hpl` and `hpl-mxp`: lines of HPL 2.3, files, refusals, wrong answers, a rank that is killed."""

import json
import os
import re
import time

import pytest

TIMEOUT = 60
RESULT = re.compile(r"^W[RC]\S+\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+[\d.]+\s+[\d.]+e[+-]\d+$", re.MULTILINE)
VERDICT = re.compile(r"^\|\|Ax-b\|\|_oo/\(eps.*= +\S+ \.+ (\w+)$", re.MULTILINE)
BOTH = ("hpl", "hpl-mxp")

DAT = """\
HPLinpack benchmark input file
two sizes, two grids, what is not offered
lines.out    output file name (if any)
{device}     device out (6=stdout,7=stderr,file)
2            # of problems sizes (N)
30 50        Ns
1            # of NBs
16           NBs
1            PMAP process mapping (0=Row-,1=Column-major)
2            # of process grids (P x Q)
1 2          Ps
1 {q}        Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
5            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
2            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
"""

# What is done to updates of the trailing matrix, by the name of their function, in every process that Python starts.
FAULT = """\
import os, signal, time
from pathlib import Path
from ridgeline.bench.hpl import team

start, calls = team.{team}.start, 0

def faulty(self, action, tiles):
    global calls
    tiles = list(tiles)
    if getattr(action, "__name__", "") == "update":
        calls += 1
        match os.environ["FAULT"]:
            case "repeated":
                tiles = 30 * tiles
            case "killed" if calls == 5 and os.environ.get("PMI_RANK") == "1":
                Path("moment").write_text(str(time.time()))
                os.kill(os.getpid(), signal.SIGKILL)
    return start(self, action, tiles)

team.{team}.start = faulty
"""


@pytest.fixture
def faulty(ridgeline):
    """Run a command with a fault."""
    from ridgeline.bench.hpl import team

    name = next(name for name in vars(team) if name.endswith("Team"))
    (ridgeline.path / "sitecustomize.py").write_text(FAULT.replace("{team}", name))
    path = os.pathsep.join(filter(None, [str(ridgeline.path), os.environ.get("PYTHONPATH")]))

    def run(fault, *arguments):
        return ridgeline(*arguments, timeout=TIMEOUT, env={"PYTHONPATH": path, "FAULT": fault})

    return run


def test_the_lines_of_hpl(ridgeline):
    files = ("--json", "x.json", "--csv", "x.csv")
    done = ridgeline("bench", "hpl", "--n", 300, "--nb", 32, "--no-dgemm", *files)
    assert done.returncode == 0, done.stderr
    assert RESULT.findall(done.stdout) == [("300", "32", "1", "1")]
    assert VERDICT.findall(done.stdout) == ["PASSED"]
    assert "1 tests completed and passed residual checks," in done.stdout
    assert "The grid 1 x 1 was chosen" in done.stdout
    assert re.search(r"^hpl: The run takes at least .* products at .* N = 300$", done.stderr, re.MULTILINE)
    (solve,) = json.loads((ridgeline.path / "x.json").read_text())["extra"]["solves"]
    assert solve["passed"]
    rows = (ridgeline.path / "x.csv").read_text().splitlines()
    assert rows[0].startswith("benchmark,columns,seconds,flops_per_second")
    assert rows[-1].startswith("HPL,300,")


@pytest.mark.full
def test_a_file_as_hpl_dat(ridgeline):
    (ridgeline.path / "HPL.dat").write_text(DAT.format(device=8, q=1))
    done = ridgeline("bench", "hpl", "-n", 2, "--dat", "HPL.dat", "--no-dgemm", "--plot", "x.svg")
    assert done.returncode == 0, done.stderr
    assert "<svg" in (ridgeline.path / "x.svg").read_text()
    assert "lines of HPL: lines.out" in done.stdout
    text = (ridgeline.path / "lines.out").read_text()
    expected = [(n, "16", p, "1") for p in "12" for n in ("30", "50")]
    assert RESULT.findall(text) == expected
    assert VERDICT.findall(text) == 4 * ["PASSED"]
    assert text.count("WC15R2L4") == 4
    for words in (
        "DEPTH 2 runs as 1",
        "RFACT 1 runs as 2",
        "PFACT 2 is not available, and runs as 0",
    ):
        assert words in text


# The first one shows that a refusal ends the command. What each of the others is refused for, tests/bench/hpl holds.
REFUSALS = [
    (("hpl", "--dat", "HPL.dat"), 3, "HPL.dat: a 2 x 4 grid requires 8 ranks, but there is 1. Start them with -n 8."),
    (("hpl", "--dat", "short.dat"), 2, "short.dat:13: expected the threshold of the residual, but the file ends"),
    (("hpl", "--dat", "HPL.dat", "--order", "99"), 2, "--order cannot be used with --dat"),
    (("hpl", "--dat", "none.dat"), 6, "none.dat"),
    (("hpl", "--n", "many"), 2, "--order many: it must be auto, or a whole number"),
    (("hpl", "--p", "3"), 3, "a 3 x 1 grid requires 3 ranks, but there is 1. Possible grids: 1 x 1"),
    (("hpl", "--n", "10000000"), 2, "needs 800.1 TB a rank, and "),
    (("hpl-mxp", "--n", "10000000"), 2, "GB a rank are free; N = "),
    (("hpl", "--n", "20000", "--time-limit", "0.001"), 2, "--time-limit is 0.001 s; N = "),
    (("hpl-mxp", "--n", "20000", "--time-limit", "0.001"), 2, "--time-limit is 0.001 s; N = "),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [REFUSALS[0], *(pytest.param(*one, marks=pytest.mark.full) for one in REFUSALS[1:])],
)
def test_refusals(ridgeline, arguments, code, words):
    (ridgeline.path / "HPL.dat").write_text(DAT.format(device=6, q=4))
    (ridgeline.path / "short.dat").write_text("\n".join(DAT.format(device=6, q=4).splitlines()[:12]))
    done = ridgeline("bench", *arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert words in done.stderr


def test_mixed_precision(ridgeline):
    done = ridgeline("bench", "hpl-mxp", "--n", 300, "--storage", "float16", "--json", "-")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    (solve,) = facts["extra"]["solves"]
    assert solve["passed"]
    assert solve["storage"] == "float16"
    assert 1 <= solve["iterations"] <= 50
    assert any(note.endswith("...... PASSED") for note in facts["notes"])


@pytest.mark.full
@pytest.mark.parametrize("benchmark", BOTH)
def test_a_wrong_answer_fails(faulty, benchmark):
    done = faulty("repeated", "bench", benchmark, "--n", 400, "--nb", 32, "--csv", "x.csv")
    assert done.returncode == 9, done.stdout + done.stderr
    assert f"{benchmark.upper().replace('MXP', 'MxP')} FAILED: the scaled" in done.stderr
    assert "...... FAILED" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.full
@pytest.mark.parametrize("benchmark", BOTH)
def test_a_killed_rank_ends_the_job_which_says_so(faulty, ridgeline, benchmark):
    done = faulty("killed", "bench", benchmark, "-n", 2, "--n", 2000, "--nb", 64)
    seconds = time.time() - float((ridgeline.path / "moment").read_text())
    assert done.returncode != 0
    assert seconds < 10  # as the issue of HPL asks
    assert re.search(r"KILLED BY SIGNAL: 9|signal 9", done.stdout + done.stderr)
