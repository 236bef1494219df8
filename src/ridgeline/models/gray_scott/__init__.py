"""Gray-Scott reaction-diffusion in three dimensions.

Read `model.py` first, then `engine_cpu.py` and `kernels.py`; `reference.py` is the same model in plain NumPy.
"""
