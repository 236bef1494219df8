"""Fluid particles: tracers that the flow carries, what they sample, and Lagrangian statistics.

Read first: `particle_tracking`, which the model calls, then `tracers`, which moves the particles.
"""
