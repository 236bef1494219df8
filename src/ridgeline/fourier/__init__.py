"""Distributed Fourier transforms of real fields on slabs and pencils.

Read `transform.py` first: it names the file of every step. Which rank owns what is in `decomposition.py`.
"""
