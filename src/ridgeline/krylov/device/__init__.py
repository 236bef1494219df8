"""The passes of Krylov solvers over vectors in the memory of NVIDIA GPUs; read `inner_cuda` first."""
