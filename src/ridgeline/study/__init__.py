"""Scaling studies, and predictions of what a run costs on a machine."""
