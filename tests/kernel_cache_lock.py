"""Processes that test at the same time and keep compiled kernels in one cache.

Numba numbers the data files of a function's kernels: it reads the index, takes the next free number, and writes both.
Two processes that save two kernels of one function at once would give both the same number, and one would load the
other's kernel ever after. Here they take turns. Ranks that want one kernel at once also wait for the first of them,
rather than compile it all together.
"""

import fcntl
import functools
import hashlib
from pathlib import Path


def lock_kernel_cache(folder: Path) -> None:
    """Let the processes that call this compile a function's kernels one after the other. Imports Numba.

    folder: of the cache, which gets a file for each function.
    """
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    compile_alone = Dispatcher.compile
    held: set[Path] = set()  # by this process: kernels of one factory may call each other

    @functools.wraps(compile_alone)
    def compile_in_turn(dispatcher, signature):
        index = getattr(getattr(dispatcher._cache, "_cache_file", None), "_index_path", None)
        if index is None:
            return compile_alone(dispatcher, signature)  # it is not kept
        path = folder / f"{hashlib.blake2b(index.encode(), digest_size=8).hexdigest()}.lock"
        with (
            global_compiler_lock,
            path.open("w") as file,
        ):  # in this order: Numba's is held where kernels call others
            if path in held:
                return compile_alone(dispatcher, signature)
            fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
            held.add(path)
            try:
                return compile_alone(dispatcher, signature)
            finally:
                held.remove(path)

    Dispatcher.compile = compile_in_turn
