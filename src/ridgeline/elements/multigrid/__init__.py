"""Hybrid Schwarz multigrid: levels, smoother, cycle, and their reference."""
