"""The figures of a whole node and of the network, for a machine file: see machine_figures.py."""
