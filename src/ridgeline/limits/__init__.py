"""What speeds are divided by: measured limits, and what computing and sending cost on a machine."""
