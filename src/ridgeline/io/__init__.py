"""Data on disk: data sets in BP5 or Zarr, checkpoints, time series, Nek5000 files, meshes and reports.

Read `dataset.py` for what is read, `store.py` for what runs write, and `output_files.py` for what
happens to old files.
"""
