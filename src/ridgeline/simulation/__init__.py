"""The one time loop: job, outputs, restart, report, limits."""
