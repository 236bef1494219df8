"""Meshes of hexahedra from files: what touches what, checks, the order of elements, numbers of points."""
