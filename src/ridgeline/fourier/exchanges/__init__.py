"""Exchanges between ranks: transposes, rows of pencils, shared memory. Read `plain_transpose.py` first."""
