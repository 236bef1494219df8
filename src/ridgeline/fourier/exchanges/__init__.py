"""Exchanges between ranks: transposes by each method, rows of pencils, shared memory of a node."""
