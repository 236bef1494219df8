"""Cartesian blocks: which rank owns which cells of a [z, y, x] grid, and how ghost cells are exchanged.

Read block.py first, then halo.py.
"""
