"""numba-cuda's simulator as the tests want it: thread blocks without polling, arrays without NumPy's attributes.

Without polling a step of turbulence takes 0.4 s instead of 14 s.

The simulator starts a thread of the operating system for each thread of a block, and polls all of them until the last
one ends. Here one thread runs at a time, up to its next barrier, and then wakes the next one. The threads of a kernel
without barriers run one after the other in a single thread of the operating system.

The simulator's device arrays pass every attribute on to the NumPy array that they hold. A device array has far
fewer, so that host code which asked one for `itemsize` ran in all tests and failed on a GPU. Here only those
attributes exist that numba-cuda's `DeviceNDArray` has.

Importing this module replaces `run` of the simulator's blocks and the attributes of its arrays. tests/conftest.py
imports it where kernels are simulated.
"""

import threading
from collections import deque

import numpy as np
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray
from numba.cuda.simulator.kernel import BlockManager, BlockThread, Dim3

# What DeviceNDArray has and the simulator's array takes from NumPy's.
OF_DEVICE_ARRAYS = {"dtype", "flags", "ndim", "ravel", "reshape", "size", "squeeze", "strides", "view"}
# By these MPI finds the memory of a simulated array; that of a DeviceNDArray it finds by __cuda_array_interface__.
FOR_MESSAGES = {"__dlpack__", "__dlpack_device__"}
IDLE: list["Worker"] = []  # threads of the operating system that wait for a block


def locked() -> threading.Lock:
    """Return a lock whose `acquire` waits for one `release`."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Aborted(Exception):
    """Ends a thread that waits at a barrier, after another one of its block has failed."""


class Block:
    """A thread block while it runs."""

    def __init__(self, manager, grid_point, arguments) -> None:
        self.manager, self.arguments = manager, arguments
        self.place = Dim3(*grid_point)
        self.points = np.ndindex(*manager._block_dim)  # of threads that have not begun
        self.all_begun = False
        self.waiting: deque[Worker] = deque()  # at a barrier
        self.released: deque[Worker] = deque()  # from the barrier before
        self.error: BaseException | None = None
        self.over = locked()

    def wake_next(self) -> None:
        """Let another thread run, after one has ended or come to a barrier."""
        if not self.all_begun:
            (IDLE.pop() if IDLE else Worker()).begin(self)
            return
        if not self.released:
            self.released, self.waiting = self.waiting, self.released
        if self.released:
            self.released.popleft().turn.release()
        else:
            self.over.release()


class Worker(BlockThread):
    """A thread of the operating system that stands for one thread of a block after another."""

    def __init__(self) -> None:
        threading.Thread.__init__(self, daemon=True)
        self.turn = locked()
        self.start()

    def begin(self, block: Block) -> None:
        """Run threads of a block until one of them has waited at a barrier and ended, or all have begun."""
        self.block, self._manager, self.blockIdx = block, block.manager, block.place
        self.turn.release()

    def run(self) -> None:
        while True:
            self.turn.acquire()
            self._run_threads(self.block)
            block, self.block = self.block, None
            IDLE.append(self)
            block.wake_next()

    def _run_threads(self, block: Block) -> None:
        shape = block.manager._block_dim
        self.waited = False
        while not self.waited and not block.error:
            point = next(block.points, None)
            if point is None:
                block.all_begun = True
                return
            self.threadIdx = Dim3(*point)
            self.thread_id = point[0] + shape[0] * (point[1] + shape[1] * point[2])
            try:
                block.manager._f(*block.arguments)
            except Aborted:
                return
            except BaseException as error:
                block.error, block.all_begun = named(error, self), True

    def syncthreads(self) -> None:
        self.waited = True
        self.block.waiting.append(self)
        self.block.wake_next()
        self.turn.acquire()
        if self.block.error:
            raise Aborted


def named(error: BaseException, worker: Worker) -> BaseException:
    """Return the error with the place of its thread in the message, as the simulator does."""
    where = f"tid={list(worker.threadIdx)} ctaid={list(worker.blockIdx)}"
    message = f"{where}: {error}" if str(error) else where
    return type(error)(message).with_traceback(error.__traceback__)


def run(manager: BlockManager, grid_point, *arguments) -> None:
    """Run a thread block, and raise the first error of its threads."""
    block = Block(manager, grid_point, arguments)
    block.wake_next()
    block.over.acquire()
    if block.error:
        raise block.error


def attribute_of_device_array(array: FakeCUDAArray, name: str) -> object:
    """Return an attribute that the simulator's array does not define itself, if device arrays have it."""
    if name not in OF_DEVICE_ARRAYS | FOR_MESSAGES:
        raise AttributeError(f"a device array has no attribute {name!r}")
    return getattr(array._ary, name)


BlockManager.run = run
FakeCUDAArray.__getattr__ = attribute_of_device_array
