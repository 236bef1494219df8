"""Graph500: a Kronecker graph, its construction, breadth-first search and shortest paths, as specified.

Read `graph500_run` first: a run, step by step; then `graph` for the distribution that all steps use.
"""
