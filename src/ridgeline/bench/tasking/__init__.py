"""What tasks cost in Python, compiled Python and C, after the Julia paper.

Begin with tasking_benchmark.py, which calls the others; each measures one or two figures of the paper.
"""
