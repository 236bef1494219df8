"""Slabs of turbulence in GPU memory: layout, packing kernels, exchanges, cuFFT."""
