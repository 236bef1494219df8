"""Nekbone, and the acceptance test of a machine by spectral elements."""
