"""HPL-MxP in the memory of NVIDIA GPUs."""
