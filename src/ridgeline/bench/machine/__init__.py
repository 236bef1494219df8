"""The figures of a whole node, for a machine file."""
