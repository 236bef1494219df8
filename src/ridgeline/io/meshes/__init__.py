"""Mesh files: Gmsh's .msh and Nek5000's .re2, read whole."""
