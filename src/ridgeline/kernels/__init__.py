"""Compiled building blocks that several models share.

Every module with compiled functions imports this package, so here Numba is told to check the files of its cache.
"""

from ridgeline.runtime.kernel_files import check_kernel_files

check_kernel_files()
