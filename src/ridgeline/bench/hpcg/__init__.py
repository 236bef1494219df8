"""HPCG: conjugate gradients with a multigrid preconditioner on a 27-point operator, by the rules of version 3.1.

Read `hpcg_run` first: the phases of a run. `reference` is the specification in code, `optimised` is what is rated: an
iteration is `optimised.ConjugateGradients.solve`. `hpcg_comparison` is another benchmark, which compares both with C.
"""
