"""The time of collective operations of MPI: see collective_benchmark.py, which measures collective_calls.py."""
