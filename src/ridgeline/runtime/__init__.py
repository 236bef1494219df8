"""The machine under a run: communicator, launcher, threads, timers, signals, provenance."""
