"""The GPU engine of Gray-Scott: sweep, search for NaN, memory, trace of streams."""
