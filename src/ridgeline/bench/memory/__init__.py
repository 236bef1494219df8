"""One node alone: the memory bandwidth and peak rate as tables, and checks that memory and cores work correctly.

Begin with limit_tables.py for the benchmarks; `ridgeline validate` uses compute_check.py and memory_check.py.
"""
