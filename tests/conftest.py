"""Settings that every test shares: few threads, no windows, parallel tests only under an MPI launcher."""

import os

# Set before anything imports NumPy or Numba. Two threads at least, so that threaded kernels are tested
# everywhere; four at most, so that small tests do not fill a big node with threads.
_THREADS = str(max(2, min(4, len(os.sched_getaffinity(0)))))
for _name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, _THREADS)
os.environ.setdefault("MPLBACKEND", "Agg")

# Kernels are kept under a digest of all their sources; Numba's own key would miss a change in a helper's file.
from ridgeline.runtime.compile_cache import configure_kernel_cache  # noqa: E402

configure_kernel_cache()

_UNDER_MPI = any(name in os.environ for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"))

# Plain pytest starts the parallel files through test_parallel.py; ranks of a launcher run them themselves.
collect_ignore = ["test_parallel.py"] if _UNDER_MPI else ["parallel"]
