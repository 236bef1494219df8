"""Studies: many runs or benchmarks that differ in ranks, sizes and settings, and what they say together."""
