"""What every speed is divided by: STREAM, caches, peak, messages; and what work costs on a machine of a file."""
