"""Sums over the threads of a thread block, in an order that does not depend on how threads are scheduled."""

from ridgeline.jit.cuda_device import barrier, device_function, load, store


@device_function
def put_and_sum(scratch, values, thread, threads):
    """Leave the sums over all threads of a tuple of values at scratch[0], scratch[threads], scratch[2 threads] ...

    scratch: len(values) x threads numbers in shared memory; thread: this one's number in the thread block. All
    threads of the thread block must call it, and may then read the sums. Of t numbers, the last t // 2 are added to
    the first ones, until one is left.
    """
    count, at = len(values), thread
    for value in values:
        store(scratch, at, value)
        at += threads
    barrier()
    left = threads
    while left > 1:
        half = (left + 1) // 2
        if thread < left - half:
            for which in range(count):
                at = which * threads + thread
                store(scratch, at, load(scratch, at) + load(scratch, at + half))
        barrier()
        left = half
