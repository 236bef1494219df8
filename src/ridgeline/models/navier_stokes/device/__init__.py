"""Navier-Stokes in GPU memory: the engine, its kernels, and the sides, sources and regions on a GPU.

Read engine_cuda.py first, beside engine_cpu.py of the folder above.
"""
