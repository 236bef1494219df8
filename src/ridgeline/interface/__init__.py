"""What Python programs and notebooks call, as cli/ is what shells call: whole runs, studies and benchmarks.

Read runs.py first.
"""
