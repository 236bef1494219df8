"""HPCG: conjugate gradients with a multigrid preconditioner on a 27-point operator, by the rules of version 3.1."""
