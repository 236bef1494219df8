"""The wind model on NVIDIA GPUs. Read engine_cuda.py first; the order of a step is that of engine_cpu.py."""
