"""Hybrid Schwarz multigrid, the preconditioner of the pressure: levels, smoother, cycle, and their oracle.

Read `cycle` first.
"""
