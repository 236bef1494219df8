"""Data sets written anew in formats that other programs read: NetCDF, Zarr, VTK's, those of atoms, Nek5000's.

Read export.py first: it chooses the format. source.py reads a part of a data set in pieces of bounded size.
"""
