"""The physics: one folder per model, found by name."""
