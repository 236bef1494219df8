"""Wind: incompressible large-eddy simulation of the atmospheric boundary layer on blocks of cells.

Read reference.py for the method in plain NumPy, then engine_cpu.py for a step on ranks and model.py for a run.
"""
