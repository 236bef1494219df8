"""Distributed Fourier transforms in the memory of GPUs. Read `pipeline_cuda.py` first, then `layout.py`."""
