"""Particles in a harmonic potential: the example of docs/particle-models.md."""
