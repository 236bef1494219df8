"""Who is slow: screening, thresholds, baselines, the verdict."""
