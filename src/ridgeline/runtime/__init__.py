"""What lies under one process: machine, launcher, devices, time, signals, files, user's cache, units and errors.

Read errors.py, machine.py and regions.py first; every other room uses them.
"""
