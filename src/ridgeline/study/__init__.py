"""Studies and sweeps: many runs or benchmarks that differ in ranks, sizes and settings, and what they show together.

Read `plan` first (axes and points), then `folder` (layout, resume and lock) and `jobs` (how they are started).
"""
