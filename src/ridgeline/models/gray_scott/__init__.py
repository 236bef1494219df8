"""Gray-Scott reaction-diffusion in three dimensions.

Read `model.py` first, then `physics.py` and `blocks/sweep_engine.py`; `reference.py` is the model in plain NumPy.
"""
