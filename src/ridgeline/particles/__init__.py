"""Particles: who owns which, how they move between ranks, in which order they lie."""
