"""What is measured on whom, and what counters and hostfiles say."""
