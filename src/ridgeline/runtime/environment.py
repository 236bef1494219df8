"""What a process needs around it before anything else starts: standard streams, a home, UTF-8 names, limits.

This module corrects what it can, and an error names the rest. Without it libraries below us would crash, write into
the wrong file or fail in words of their own.
"""

import os
import pwd
import re
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress

from ridgeline.runtime.errors import RidgelineError

_FILES = 64  # that a rank needs to open, at least: MPI's sockets and shared memory, the data
_FILES_WANTED = 1024
_FILE_BYTES = 16 * 2**20  # of MPI's shared memory between two ranks
_ADDRESSES = (
    1500 * 10**6
)  # bytes that the smallest run maps, 1.3 GB: libraries below us hang or crash with less
# What launchers tell a process of its rank, and nothing that a person sets.
_OF_A_RANK = re.compile(
    r"PMI_(RANK|SIZE|FD|PORT|ID|JOBID|KVS|KVSNAME|SPAWNED|APPNUM|UNIVERSE_SIZE|LOCAL_RANK|LOCAL_SIZE|CONTROL_\w+"
    r"|SHARED_SECRET|PROCESS_MAPPING|HOSTNAME|VERSION|SUBVERSION)"
    r"|PMI2_\w+|PMIX_(?!MCA_)\w+|PALS_(RANKID|NODEID|LOCAL_RANKID|APID|APINFO|SPOOL_DIR)"
    r"|HYDI_CONTROL_FD|MPI_LOCALNRANKS|MPI_LOCALRANKID|MV2_COMM_WORLD_\w+"
    r"|OMPI_(COMM_WORLD_\w+|UNIVERSE_SIZE|APP_CTX_NUM_PROCS|FIRST_RANKS|NUM_APP_CTX|COMMAND|ARGV|FILE_LOCATION)"
    r"|OMPI_MCA_(ess|orte|pmix|initial_wdir)\w*|PRTE_LAUNCHED"
)


def prepare_process() -> None:
    """Put right what this process lacks. Call first of all: it may start the interpreter anew, with UTF-8."""
    _speak_utf8()
    _open_standard_streams()
    give_home()


def child_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables for a child process that is not a rank: those of this process without its launcher's.

    With these a child would take itself for the same rank, and MPI would look for files that are open in its parent
    alone. Open MPI moreover puts its own variables into the C environment when it starts, which a child inherits
    unless it is given variables explicitly.

    environ: in place of this process's variables.
    """
    environ = os.environ if environ is None else environ
    return {name: value for name, value in environ.items() if not _OF_A_RANK.fullmatch(name)}


def give_home() -> str:
    """Return the home folder; set HOME to it if it is not set to an absolute path. ADIOS2 crashes without one."""
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        home = "/"
        with suppress(KeyError):  # a container may run as a user that it does not know
            home = pwd.getpwuid(os.getuid()).pw_dir
        os.environ["HOME"] = home
    return home


def _speak_utf8() -> None:
    """Start this command again in Python's UTF-8 mode, if the locale would have names of files in another encoding.

    ADIOS2 takes every name as UTF-8, so elsewhere two libraries would mean two files by one name.
    """
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"  # also of the ranks that are started
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _open_standard_streams() -> None:
    """Let a standard stream that was closed lead nowhere: the next file that is opened would take its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
            os.set_inheritable(number, True)  # the launcher wants it too
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # for good


def check_limits() -> None:
    """Raise RidgelineError if MPI cannot start under the limits of this process; widen those of files."""
    files = _widen(resource.RLIMIT_NOFILE, _FILES_WANTED)
    if files < _FILES:
        raise RidgelineError(
            f"this shell lets a process open {files} files (ulimit -n), and MPI needs at least {_FILES}; "
            f"start where `ulimit -n {_FILES_WANTED}` is allowed"
        )
    size = _widen(resource.RLIMIT_FSIZE, sys.maxsize)
    if size < _FILE_BYTES:
        raise RidgelineError(
            f"this shell lets a file have {size} bytes (ulimit -f), and MPI's shared memory needs at least "
            f"{_FILE_BYTES}; start where `ulimit -f unlimited` is allowed"
        )

    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]  # not widened: it guards other people's memory
    if addresses != resource.RLIM_INFINITY and addresses < _ADDRESSES:
        raise RidgelineError(
            f"this shell lets a process map {addresses} bytes of memory (ulimit -v), and Python, MPI, ADIOS2 and "
            f"compiled code map at least {_ADDRESSES}; start where `ulimit -v {2 * _ADDRESSES // 1000}` is allowed"
        )


def _widen(which: int, wanted: int) -> int:
    """Raise a soft limit to what is wanted, as far as the hard limit lets it; return it."""

    def number(limit: int) -> int:
        return sys.maxsize if limit == resource.RLIM_INFINITY else limit

    soft, hard = resource.getrlimit(which)
    if number(soft) < min(wanted, number(hard)):
        soft = hard if wanted >= number(hard) else wanted
        with suppress(OSError, ValueError):
            resource.setrlimit(which, (soft, hard))
    return number(resource.getrlimit(which)[0])
