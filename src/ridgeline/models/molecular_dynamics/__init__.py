"""Molecular dynamics of the Lennard-Jones fluid, with the settings and the figures of LAMMPS."""
