"""Data on disk: BP5 data sets, checkpoints, xarray openers."""
