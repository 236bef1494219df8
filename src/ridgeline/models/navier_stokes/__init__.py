"""Incompressible Navier-Stokes equations by spectral elements.

Read reference.py for the method, then engine.py for a step and model.py for a run.
"""
