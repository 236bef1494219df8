"""What every benchmark needs: interleaved timing, the machine's description, the table, C built on the spot."""
