"""HPL and HPL-MxP: dense systems by LU, in float64 with pivoting, and in low precision with refinement.

Read `factor` first: the algorithm, and what it asks of host and GPU. `solve` and `refine` are one run of each
benchmark.
"""
