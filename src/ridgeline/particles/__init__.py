"""Particles distributed over ranks: storage, ownership by boxes, migration, ghosts, cell lists and neighbour lists.

Read `particles.py` first, then `boxes.py`.
"""
