"""Nekbone, and the acceptance test of a machine by spectral elements: one file each.

Read `elements_options` first for what both measure, then `nekbone` or `acceptance`.
"""
