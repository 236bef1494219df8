"""Spectral elements: meshes, geometry, operators, gather-scatter and multigrid on hexahedra.

Read `mesh` for who owns what, then `operator`; `tensor` and `point_loops` generate the inner loops.
"""
