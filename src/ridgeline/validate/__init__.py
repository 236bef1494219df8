"""Is this machine fit for the run, and which parts are not: measurements by level, screening, verdicts."""
