"""Geometric multigrid on blocks: solvers of Poisson and Helmholtz problems at cells and at nodes.

Read levels.py first (which grids, and which rank owns what of each), then cells.py.
"""
