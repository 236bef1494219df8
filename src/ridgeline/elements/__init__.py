"""Spectral elements: mesh, geometry, small matrix products, gather-scatter, operators, Schwarz, multigrid."""
