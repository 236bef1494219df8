"""What a step of a case, or an iteration of a benchmark, takes on a machine that a machine file describes."""
