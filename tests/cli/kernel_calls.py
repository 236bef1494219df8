"""Run a case as `ridgeline run` does, but compile nothing beforehand; write which kernels were wanted and called.

Usage: kernel_calls.py FOLDER run CASE ...   writes FOLDER/PID.json: {"wanted": [...], "called": [...]}.
A kernel and its signature are one string. A kernel that a factory compiles for one signature is known by name alone.
"""

import json
import os
import sys
from pathlib import Path

# Numba reads this when it is imported, and a command sets it before that. One thread is the default of all commands.
os.environ["NUMBA_NUM_THREADS"] = (
    sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else "1"
)

from numba.core.dispatcher import Dispatcher

from ridgeline.jit import kernel as declarations

wanted: set[str] = set()
called: set[str] = set()
declare = declarations.kernel
compile_for_a_call = Dispatcher._compile_for_args


def name_of(dispatcher) -> str:
    return f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}"


def only_note(specialisations) -> None:
    for kernel, arguments in specialisations:
        wanted.add(f"{name_of(kernel)} {tuple(arguments)}")


def counted_kernel(signature, **options):
    """Declare a kernel; one that is compiled at once notes its calls."""
    decorator = declare(signature, **options)
    if callable(signature):
        return decorator

    def of(function):
        dispatcher = decorator(function)
        wanted.add(name_of(dispatcher))

        def counted(*arguments):
            called.add(name_of(dispatcher))
            return dispatcher(*arguments)

        return counted

    return of


def noted_compilation(self, *arguments, **keywords):
    if self.py_func.__module__.startswith("ridgeline."):
        called.add(f"{name_of(self)} {tuple(self.typeof_pyval(each) for each in arguments)}")
    return compile_for_a_call(self, *arguments, **keywords)


declarations.compile_kernels = only_note
declarations.kernel = counted_kernel
Dispatcher._compile_for_args = noted_compilation

if __name__ == "__main__":
    from ridgeline.cli.main import main

    folder = Path(sys.argv.pop(1))
    try:
        main()
    finally:
        found = {"wanted": sorted(wanted), "called": sorted(called)}
        (folder / f"{os.getpid()}.json").write_text(json.dumps(found))
