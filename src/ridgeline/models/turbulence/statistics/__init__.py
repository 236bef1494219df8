"""Statistics of turbulence beyond those of one field at a point: increments, and averages over time."""
