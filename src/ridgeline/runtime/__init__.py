"""The machine under a run: communicator, launcher, threads, regions, signals, provenance."""
