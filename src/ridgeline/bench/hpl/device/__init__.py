"""HPL in the memory of NVIDIA GPUs."""
