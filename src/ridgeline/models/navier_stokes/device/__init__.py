"""Navier-Stokes in GPU memory: the passes of a step, the engine, its memory."""
