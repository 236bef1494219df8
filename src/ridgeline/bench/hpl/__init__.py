"""HPL: the solution of a dense random system by LU with partial pivoting, by the rules of HPL 2.3."""
