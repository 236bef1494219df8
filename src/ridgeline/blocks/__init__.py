"""Cartesian blocks: who owns what, halos, packing."""
