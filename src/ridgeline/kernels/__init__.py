"""Compiled building blocks that several models share."""
