"""Sparse matrices in rows: dependency levels, runs, sweeps, their halo."""
