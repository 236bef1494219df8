"""HPL-MxP: a dense system by LU in low precision without pivoting, refined to 64-bit accuracy."""
