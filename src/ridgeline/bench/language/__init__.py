"""Parallel primitives in C, Python and compiled Python: a ping-pong (pingpong.py) and a BSP ring (bsp.py).

loops.py says what each language implements; languages.py has the C and the Python, compiled_mpi.py the compiled one.
"""
