"""Incompressible Navier-Stokes equations by spectral elements."""
