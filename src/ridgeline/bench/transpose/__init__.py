"""The all-to-all exchanges of a pseudo-spectral substep alone.

Read `transpose_result` first: the benchmark and its table; `transpose_timing` times the exchanges.
"""
