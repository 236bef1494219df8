"""One-sided communication between two ranks, or between all ranks at irregular places.

Begin with pair_access.py; it calls irregular_access.py for the pattern of the fast multipole method.
"""
