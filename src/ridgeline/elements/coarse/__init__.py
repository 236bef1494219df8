"""The coarse problem of multigrid: solved whole on every rank, or by algebraic multigrid on rows."""
