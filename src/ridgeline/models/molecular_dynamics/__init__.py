"""Molecular dynamics of the Lennard-Jones fluid, with the settings and the thermodynamic output of LAMMPS.

Read reference.py for the method, then engine_cpu.py for a step and model.py for a run.
"""
