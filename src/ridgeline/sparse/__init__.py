"""Sparse matrices in rows: distributed matrices, their halo, and fast Gauss-Seidel sweeps with threads.

Read first: `distributed` (matrices of solvers) and `halo` (vectors); `row_strips` and `sweeps` begin HPCG's fast
path.
"""
