"""Ranks together: communicator, job, partition, reductions, counted exchanges."""
