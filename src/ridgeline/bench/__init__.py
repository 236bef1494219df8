"""Benchmarks of the machine, one module each."""
