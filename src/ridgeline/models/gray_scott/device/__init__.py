"""Gray-Scott on NVIDIA GPUs. Read `engine_cuda.py` first, then `kernels_cuda.py`."""
