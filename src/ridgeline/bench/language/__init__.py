"""Parallel primitives of C, Python and compiled Python, compared: ping-pong, a BSP ring."""
