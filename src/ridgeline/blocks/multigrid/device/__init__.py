"""Geometric multigrid on NVIDIA GPUs: fine levels in device memory, small and agglomerated ones on the host.

Read cells_cuda.py first; cells.py, one folder up, has the order in which a V-cycle visits the levels.
"""
