"""Krylov solvers and solution projection, which know vectors and operators but no mesh.

Read `operator` first for what a solver calls, then `cg` or `gmres`.
"""
