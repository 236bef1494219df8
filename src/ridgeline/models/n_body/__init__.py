"""N-body gravity in an expanding universe: a mesh for long-range forces, direct sums over near particles, halos.

Read `problem.py` for the equations and the schedule, then `engine_cpu.py` for a step.
"""
