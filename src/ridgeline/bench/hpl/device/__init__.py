"""HPL and HPL-MxP in the memory of NVIDIA GPUs.

Read `system_cuda` first: one system, from its generation to its test.
"""
