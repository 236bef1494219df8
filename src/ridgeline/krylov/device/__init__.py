"""Solvers' passes over vectors in the memory of NVIDIA GPUs."""
