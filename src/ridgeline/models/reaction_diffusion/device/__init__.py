"""Reaction-diffusion on NVIDIA GPUs. Read `code_arithmetic.py` first, then `kernels_cuda.py`."""
