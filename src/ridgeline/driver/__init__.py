"""The one time loop: stepping, output, checkpoints, resume, stop conditions."""
