"""What ranks share: the job and its communicators, reductions and agreement, partitions, exchanges, the autotuner.

Read communicator.py first, then allreduce.py.
"""
