"""Collective calls: how long ranks take for one together."""
