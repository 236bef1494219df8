"""One-sided communication: windows, and irregular accesses to the memory of other ranks."""
