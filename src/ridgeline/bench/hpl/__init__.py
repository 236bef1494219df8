"""HPL and HPL-MxP: dense systems by LU, in float64 with pivoting, and in low precision with refinement.

Read `hpl_solve` first: one solution with each benchmark; then `factor`: the algorithm, and its contract with host and
GPU.
"""
