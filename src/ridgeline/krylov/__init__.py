"""Krylov solvers and solution projection: vectors and operators, no mesh."""
