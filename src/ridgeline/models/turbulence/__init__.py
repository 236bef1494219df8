"""Turbulence in a periodic box by the Fourier pseudo-spectral method."""
