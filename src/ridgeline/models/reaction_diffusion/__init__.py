"""Reaction-diffusion of any number of species, whose rates are formulas in the settings.

Read `formulas.py` first, then `model.py` and `kernels.py`; `reference.py` is the same model in plain NumPy.
"""
