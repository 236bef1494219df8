"""The operators of spectral elements in GPU memory, each the twin of a CPU file of the same name.

Read `tensor_cuda` first for how an element lies on threads, then `operator_cuda`.
"""
