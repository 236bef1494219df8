"""What every speed is divided by: STREAM, caches, peak and messages; and what work costs on a machine of a file.

Read stream.py first for what is measured, prediction.py for what is predicted.
"""
