"""Sums over the threads of a thread block, in an order that does not depend on how threads are scheduled."""

from ridgeline.jit.cuda_device import barrier, device_function, load, store


@device_function
def sum_threads(scratch, count, thread, threads):
    """Leave `count` sums over all threads at scratch[0], scratch[threads], scratch[2 threads] ...

    scratch: count x threads numbers in shared memory, into which each thread has put its own at scratch[thread],
    scratch[threads + thread] ...; thread: this one's number in the thread block. All threads of the thread block must
    call it, and may then read the sums. Of t numbers, the last t // 2 are added to the first ones, until one is left.
    """
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
