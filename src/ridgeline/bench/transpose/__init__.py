"""The all-to-all exchanges of a turbulence substep alone."""
