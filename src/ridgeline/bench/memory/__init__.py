"""One node alone: bandwidth of memory, rate of arithmetic, and whether both are correct."""
