"""Tasks, futures, channels and loops of C, Python and compiled Python, compared."""
