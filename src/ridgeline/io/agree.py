"""Agreement on errors under the name that io/bp.py knows."""

from ridgeline.comm.reduce import raise_together

__all__ = ["raise_together"]
