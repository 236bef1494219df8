"""Turbulence in a periodic box by the Fourier pseudo-spectral method, on CPUs and GPUs.

Read first: `model`, then `engine_cpu`, which makes the steps (on GPUs `device.engine_cuda`).
"""
