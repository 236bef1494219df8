"""Meshes of hexahedra from files: topology, checks, curve order and numbers of points.

Read `raw_mesh` for what a file gives, then `hexahedra`.
"""
