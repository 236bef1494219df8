"""Messages between pairs of ranks: latency, bandwidth, all pairs."""
