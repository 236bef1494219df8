"""Counted work against measured time and measured limits."""
