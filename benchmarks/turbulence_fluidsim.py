"""Steps of FluidSim's solver ns3d, for benchmarks/turbulence.py: run by a Python that has fluidsim and pyfftw.

    python -m venv peer && peer/bin/pip install fluidsim fluidfft pyfftw
    peer/bin/python benchmarks/turbulence_fluidsim.py N SCHEME ...

One rank, one thread, float64, N^3 points, 2/3 rule, forced by nothing. Says its versions when ready; then reads the
name of a scheme from each line of its input, takes one step and answers with the seconds.
"""

import os
import sys
import tempfile
import time
from importlib.metadata import version


def simulation(n: int, scheme: str) -> object:
    """Return FluidSim's simulation, planned and initialised with random fields."""
    from fluidsim.solvers.ns3d.solver import Simul

    params = Simul.create_default_params()
    params.short_name_type_run = "benchmark"
    params.oper.nx = params.oper.ny = params.oper.nz = n
    params.oper.coef_dealiasing = 2 / 3
    params.oper.type_fft = "fft3d.with_pyfftw"
    params.nu_2 = 1e-3
    params.init_fields.type = "noise"
    params.time_stepping.type_time_scheme = scheme
    params.time_stepping.USE_CFL = False
    params.time_stepping.deltat0 = 1e-3
    params.time_stepping.USE_T_END = False
    params.time_stepping.it_end = 10**9
    params.output.HAS_TO_SAVE = False
    return Simul(params)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # FluidSim talks on stdout
    n, schemes = int(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="fluidsim-") as folder:
        os.environ.update({"OMP_NUM_THREADS": "1", "FLUIDSIM_PATH": folder})
        step = {}
        for scheme in schemes:
            step[scheme] = simulation(n, scheme).time_stepping.one_time_step_computation
            step[scheme]()
        print(
            ", ".join(f"{name} {version(name)}" for name in ("fluidsim", "fluidfft", "pyfftw")), file=answers
        )
        for line in sys.stdin:
            start = time.perf_counter()
            step[line.strip()]()
            print(time.perf_counter() - start, file=answers)


if __name__ == "__main__":
    main()
