"""Peers of HPL, HPCG and Nekbone: Debian's hpcc, and programs that are compiled from a user's checkout.

Each runs under the `mpirun` beside its program or compiler, and says its rate in FLOP/s.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.graph500_peers import PeerUnavailable, compile_peer
from harness.ranks import outside_mpi

FLAGS = ("-O3", "-march=native", "-ffast-math")
# The lines of hpccinf.txt, of which the program reads the first number.
HPCC_INPUT = """\
HPLinpack benchmark input file
made for a comparison
HPL.out
8
1
{n}
1
{nb}
0
1
{p}
{q}
16.0
1
2
1
4
1
2
1
1
1
1
1
1
2
64
0
0
1
8
0
0
0
0
0
"""


def _tool(name: str) -> str:
    """Return the path of a program. Raises PeerUnavailable."""
    found = shutil.which(name)
    if found is None:
        raise PeerUnavailable(f"there is no {name} on this machine")
    return found


def run_ranks(beside: str, ranks: int, command: Sequence[str], folder: Path) -> str:
    """Run a program of another MPI library on ranks with one thread; return what it says. Raises PeerUnavailable."""
    launcher = Path(beside).parent / "mpirun"
    variables = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}
    environment = outside_mpi() | variables | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(launcher), "-n", str(ranks), *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip(" -")]
        raise PeerUnavailable(f"{Path(command[0]).name} says {lines[-1] if lines else done.returncode}")
    return done.stdout


def _number(pattern: str, text: str, program: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise PeerUnavailable(f"{program} printed no result")
    return float(found[1])


class Hpcc:
    """HPL of Debian's hpcc, which runs its other tests as well. Raises PeerUnavailable."""

    def __init__(self, folder: Path) -> None:
        self._program, self._folder = _tool("hpcc"), folder

    @property
    def blas(self) -> str:
        """The library that it multiplies with, which is what Debian's alternatives choose."""
        libraries = subprocess.run(["ldd", self._program], capture_output=True, text=True, check=False).stdout
        found = re.search(r"libblas\S* => (\S+)", libraries)
        return str(Path(found[1]).resolve()) if found else "its own BLAS"

    def rate(self, ranks: int, n: int, nb: int) -> float:
        """Return the FLOP/s of a solve of n unknowns on a grid of 1 x ranks."""
        (self._folder / "hpccinf.txt").write_text(HPCC_INPUT.format(n=n, nb=nb, p=1, q=ranks))
        output = self._folder / "hpccoutf.txt"
        output.unlink(missing_ok=True)
        run_ranks(self._program, ranks, [self._program], self._folder)
        return 1e12 * _number(r"HPL_Tflops=(\S+)", output.read_text(), "hpcc")


class Hpcg:
    """The reference implementation of HPCG, from a checkout of hpcg-benchmark/hpcg. Raises PeerUnavailable."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self._compiler, self._folder = _tool("mpicxx"), folder
        sources = sorted((checkout.resolve() / "src").glob("*.cpp"))
        if not any(path.name == "ComputeSYMGS_ref.cpp" for path in sources):
            raise PeerUnavailable("the checkout has no src/ComputeSYMGS_ref.cpp")
        self._program = str(folder / "xhpcg")
        command = [self._compiler, *FLAGS, "-DHPCG_NO_OPENMP", f"-I{sources[0].parent}", *map(str, sources)]
        compile_peer([*command, "-o", self._program], folder)

    def rate(self, ranks: int, edge: int, seconds: int) -> float:
        """Return the rating in FLOP/s on boxes of edge^3 points."""
        for old in self._folder.glob("HPCG-Benchmark*.txt"):
            old.unlink()
        sizes = [f"--n{axis}={edge}" for axis in "xyz"]
        run_ranks(self._compiler, ranks, [self._program, *sizes, f"--rt={seconds}"], self._folder)
        reports = list(self._folder.glob("HPCG-Benchmark*.txt"))
        text = reports[0].read_text() if reports else ""
        return 1e9 * _number(r"HPCG result is VALID with a GFLOP/s rating of=(\S+)", text, "xhpcg")


class NekboneFortran:
    """Nekbone in Fortran, from a checkout of Nek5000/Nekbone. Raises PeerUnavailable."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self._compiler, self._folder, self._made = _tool("mpif77"), folder, (0, 0)
        _tool("gfortran")
        if not (checkout / "src" / "makenek.inc").exists():
            raise PeerUnavailable("the checkout has no src/makenek.inc")
        # Its makefile deletes a file of the sources.
        self._source = shutil.copytree(checkout / "src", folder.resolve() / "nekbone-src", dirs_exist_ok=True)
        self._example = checkout / "test" / "example1"

    def _make(self, nx1: int, elements: int) -> None:
        """Compile for elements of nx1^3 points: both are constants of the program."""
        place = self._folder / f"nekbone{nx1}"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self._example, place)
        size = (place / "SIZE").read_text()
        size = re.sub(r"lx1=\d+", f"lx1={nx1}", size)
        (place / "SIZE").write_text(re.sub(r"lelt=\d+", f"lelt={elements}", size))
        lines = (
            ".true. = ifbrick",
            f"{elements} {elements} 1 = iel0,ielN(per proc),stride",
            f"{nx1} {nx1} 1 = nx0,nxN,stride",
            "0 0 0 = npx,npy,npz",
            "0 0 0 = mx,my,mz",
        )
        (place / "data.rea").write_text("\n".join(lines) + "\n")
        script = (place / "makenek").read_text()
        # Since version 10, gfortran refuses calls whose arguments differ in type, as this program has them. Its
        # makefile makes all reals 8 bytes long, and MPI_Wtime must not become longer than that.
        more = "-fallow-argument-mismatch -fdefault-double-8 -mcmodel=large"
        flags = f'OPT_FLAGS_STD="{" ".join(FLAGS[:2])} {more}"'
        script = re.sub(r"(?m)^#OPT_FLAGS_STD=.*$", flags, script)
        # Both compilers must be of one MPI library.
        script = re.sub(r'(?m)^(F77|CC)="(\w+)"', rf'\1="{Path(self._compiler).parent}/\2"', script)
        (place / "makenek").write_text(re.sub(r"(?m)^#USR_LFLAGS=.*$", 'USR_LFLAGS="-mcmodel=large"', script))
        compile_peer(["bash", "./makenek", "", str(self._source)], place)
        if not (place / "nekbone").exists():
            raise PeerUnavailable("makenek made no program; compiler.out in its folder says why")
        self._made = nx1, elements

    def rate(self, ranks: int, nx1: int, elements: int) -> float:
        """Return the FLOP/s of all ranks together."""
        if self._made != (nx1, elements):
            self._make(nx1, elements)
        place = self._folder / f"nekbone{nx1}"
        text = run_ranks(self._compiler, ranks, ["./nekbone"], place)
        return 1e6 * _number(r"Avg MFlops =\s*(\S+)", text, "nekbone")
