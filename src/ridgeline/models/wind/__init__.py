"""The incompressible large-eddy simulation of wind over land and around turbines, on blocks.

Read `settings.py` and `model.py` first; docs/theory-wind.md has the equations.
"""
