"""Spectral elements in GPU memory: small products, gather-scatter."""
