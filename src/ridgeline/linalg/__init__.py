"""Krylov solvers, preconditioners, multigrid and solution projection: arrays and operators, no physics."""
