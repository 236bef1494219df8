"""The all-to-all exchanges of a pseudo-spectral substep alone."""
