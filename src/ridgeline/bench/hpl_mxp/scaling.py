"""The figures of HPL-MxP that a study takes: those of a dense system. Imports neither Numba nor MPI."""

from ridgeline.bench.hpl.scaling import figures

__all__ = ["figures"]
