"""Latency, bandwidth and message rate between pairs of ranks.

point_to_point.py measures chosen pairs over message sizes; pair_matrix.py measures all pairs at one size.
"""
