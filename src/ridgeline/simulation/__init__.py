"""The one time loop, with the outputs, checkpoints, limits and report of a run.

Read run_on_ranks.py, case_run.py and loop.py in this order to follow a run; simulation.py is the Python interface.
"""
