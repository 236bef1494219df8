"""Distributed Fourier transforms: slabs and pencils, modes, transposes, passes over planes and lines."""
