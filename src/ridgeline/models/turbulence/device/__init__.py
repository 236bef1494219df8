"""Turbulence on NVIDIA GPUs: the engine, its kernels, diagnostics on the device, and estimates that need no device.

Read first: `engine_cuda`, then `products_cuda` and `kernels_cuda`.
"""
