"""What a process needs before anything else starts: standard streams, a home folder, UTF-8 names, and limits.

This module corrects what it can and raises an error for the rest. Without it, libraries would crash, write into the
wrong file or fail with messages that do not help.
"""

import os
import pwd
import re
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress

from ridgeline.runtime.errors import RidgelineError

_FILES = 64  # the least number that a rank must be able to open: MPI's sockets and shared memory, the data
_FILES_WANTED = 1024
_FILE_BYTES = 16 * 2**20  # of MPI's shared memory between two ranks
# Bytes that the smallest run maps, 1.3 GB, and some more: libraries hang or crash with less.
_ADDRESSES = 1500 * 10**6
# The variables by which launchers tell a process its rank, and none that a person sets.
_OF_A_RANK = re.compile(
    r"PMI_(RANK|SIZE|FD|PORT|ID|JOBID|KVS|KVSNAME|SPAWNED|APPNUM|UNIVERSE_SIZE|LOCAL_RANK|LOCAL_SIZE|CONTROL_\w+"
    r"|SHARED_SECRET|PROCESS_MAPPING|HOSTNAME|VERSION|SUBVERSION)"
    r"|PMI2_\w+|PMIX_(?!MCA_)\w+|PALS_(RANKID|NODEID|LOCAL_RANKID|APID|APINFO|SPOOL_DIR)"
    r"|HYDI_CONTROL_FD|MPI_LOCALNRANKS|MPI_LOCALRANKID|MV2_COMM_WORLD_\w+"
    r"|OMPI_(COMM_WORLD_\w+|UNIVERSE_SIZE|APP_CTX_NUM_PROCS|FIRST_RANKS|NUM_APP_CTX|COMMAND|ARGV|FILE_LOCATION)"
    r"|OMPI_MCA_(ess|orte|pmix|initial_wdir)\w*|PRTE_LAUNCHED"
)


def prepare_process() -> None:
    """Correct what this process lacks. Call before anything else: it may restart the interpreter with UTF-8."""
    # ADIOS2 takes every file name as UTF-8. With another encoding of the locale, two libraries would mean two files
    # by one name, so the command is started again in Python's UTF-8 mode.
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"  # for the ranks that are started too
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

    # A standard stream that is closed is connected to nothing, because the next file would get its number.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(number, True)  # the launcher needs it too
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # stays open

    give_home()


def child_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables for a child process that is not a rank: those of this process without its launcher's.

    With the launcher's variables a child would take itself for the same rank, and MPI would look for files that only
    its parent has open. Open MPI also puts variables into the C environment when it starts, which a child inherits
    unless it is given variables explicitly.

    environ: in place of this process's variables.
    """
    environ = os.environ if environ is None else environ
    return {name: value for name, value in environ.items() if not _OF_A_RANK.fullmatch(name)}


def give_home() -> str:
    """Return the home folder; set HOME to it if HOME is not an absolute path. ADIOS2 crashes without one."""
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        home = "/"
        with suppress(KeyError):  # a container may run as a user who is unknown in it
            home = pwd.getpwuid(os.getuid()).pw_dir
        os.environ["HOME"] = home
    return home


def check_limits() -> None:
    """Raise RidgelineError if MPI cannot start under the limits of this process; raise the limits of files first."""
    files = _widen(resource.RLIMIT_NOFILE, _FILES_WANTED)
    if files < _FILES:
        raise RidgelineError(
            f"this shell allows a process to open {files} files (ulimit -n), but MPI needs at least {_FILES}. "
            f"Start where `ulimit -n {_FILES_WANTED}` is allowed."
        )
    size = _widen(resource.RLIMIT_FSIZE, sys.maxsize)
    if size < _FILE_BYTES:
        raise RidgelineError(
            f"this shell allows files of {size} bytes (ulimit -f), but MPI's shared memory needs at least "
            f"{_FILE_BYTES}. Start where `ulimit -f unlimited` is allowed."
        )

    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]  # not raised: it protects other people's memory
    if addresses != resource.RLIM_INFINITY and addresses < _ADDRESSES:
        raise RidgelineError(
            f"this shell allows a process to map {addresses} bytes of memory (ulimit -v), but Python, MPI, ADIOS2 "
            f"and compiled code map at least {_ADDRESSES}. Start where `ulimit -v {2 * _ADDRESSES // 1000}` is "
            "allowed."
        )


def _widen(which: int, wanted: int) -> int:
    """Raise a soft limit to `wanted`, as far as the hard limit allows it, and return it."""

    def number(limit: int) -> int:
        return sys.maxsize if limit == resource.RLIM_INFINITY else limit

    soft, hard = resource.getrlimit(which)
    if number(soft) < min(wanted, number(hard)):
        soft = hard if wanted >= number(hard) else wanted
        with suppress(OSError, ValueError):
            resource.setrlimit(which, (soft, hard))
    return number(resource.getrlimit(which)[0])
