"""The coarse problem of multigrid, solved directly on every rank or by algebraic multigrid on distributed rows.

Read `direct` first: it says what a coarse solver is.
"""
