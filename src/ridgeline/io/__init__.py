"""Data on disk: BP5 data sets, checkpoints, time series, Nek5000 files, meshes and reports.

Read `dataset.py` for what is read, `bp.py` for what runs write, and `output_files.py` for what happens to old files.
"""
